# SPDX-License-Identifier: MIT
"""Doc comments that `tools/prose.py` finds in every language."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import prose

SOURCES = {
    "a.py": '"""Of a.\n\nWhat?\n"""\nx = 1\n"""As b."""\ndef f():\n    r"""A face."""\n',
    "a.fypp": "!> Of a.\n!> What?\n#:for k in K\n  !> As b.\n  integer :: x\n  !> A face.\n",
    "a.cu": "// SPDX-License-Identifier: MIT\n// Of a.\n\n/* As b.\n * What? */\n"
    "int x;  // that is\n        // Which?\n// A face.\n",
    "a.h.in": "/* SPDX-License-Identifier: MIT\n *\n * Of a.\n */\n/* As b. */\n"
    "int x; /* Which? */\n/* A face. */\n",
}


@pytest.mark.parametrize("name", SOURCES)
def test_first_words_of_comments(name, tmp_path):
    """Comments begin where their blocks do; comments behind code do not count."""
    path = tmp_path / name
    path.write_text(SOURCES[name])
    assert sorted(text for _, text in prose.comments(str(path))) == ["A face.", "As b.", "Of a."]


def test_what_is_generated_has_no_comments(tmp_path):
    """A file with a template beside it, or that names its writer, is skipped."""
    (tmp_path / "a.h.in").touch()
    (tmp_path / "a.h").write_text("/* Of a. */\n")
    (tmp_path / "b.f90").write_text("! Written by tools/interface/cuda.py\n!> Of a.\n")
    assert not [*prose.comments(str(tmp_path / "a.h")), *prose.comments(str(tmp_path / "b.f90"))]


@pytest.mark.parametrize("text", ["Of a.", "What it is", "The same twice.", "Those of b"])
def test_openings(text):
    assert prose.OPENINGS.match(text)
    assert not prose.OPENINGS.match(f"Sum: {text}") and not prose.OPENINGS.match("Often, whatever")
