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


@pytest.mark.parametrize("text", ["Of a.", "What it is", "The same twice.", "Those of b"])
def test_openings(text):
    assert prose.OPENINGS.match(text)
    assert not prose.OPENINGS.match(f"Sum: {text}") and not prose.OPENINGS.match("Often, whatever")
