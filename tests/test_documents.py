# SPDX-License-Identifier: MIT
"""Faults in the code of a page are found."""

from unittest import SkipTest

import pytest

pytest.importorskip("sybil")

import documents


def run(path, text):
    """Run a page; how many blocks were skipped."""
    path.write_text(text)
    page, skipped = documents.PAGES.parse(path), 0
    documents.begin(page.namespace)
    try:
        for example in page:
            try:
                example.evaluate()
            except SkipTest:
                skipped += 1
    finally:
        documents.end(page.namespace)
    return skipped


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```rust\nfn main() {}\n```\n", "nobody knows how to run 'rust'"),
        ("```{code-block} python\n1 / 0\n```\n", "division"),
        ("```python\nassert False, 'no'\n```\n", "no"),
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected"),
        ("```sh\nfalse\n```\n", "ends with status 1"),
        ("```console\n$ echo one\ntwo\n```\n", "one"),
        ("```fortran\ncall nothing(\n```\n", "ends with status 1"),
        ("```c\nint i = nothing;\n```\n", "ends with status 1"),
        (
            "```sh\n# gnograd train darcy --nowhere\ngnograd train darcy --nowhere 1\n```\n",
            "nowhere",
        ),
        ("    gnograd train darcy --nowhere\n", "has no .*--nowhere"),
        ('<!-- skip: next "why" -->\n```sh\ngnograd trian\n```\n', "there is no 'trian'"),
        ("<!-- skip: next -->\n```sh\nfalse\n```\n", "skip gives no reason"),
        ("![](pictures/none.png)\n", "does not make"),
    ],
)
def test_what_is_wrong(text, message, tmp_path):
    with pytest.raises((AssertionError, ZeroDivisionError), match=message):
        run(tmp_path / "page.md", text)


def test_what_is_right(tmp_path):
    skipped = run(
        tmp_path / "page.md",
        """
<!-- file: one.py -->
```python
import os
print("one", os.environ["WHAT"])
```

```sh
export WHAT=thing
```

```console
$ python one.py
one thing
$ echo 1.23456
1.235
```

<!-- declarations
integer :: i
-->
```fortran
i = 1
```

<!-- skip: next "takes minutes" -->
```sh
gnograd train darcy --samples 3    # and so on
```

```text
anything
```
""",
    )
    assert skipped == 1
