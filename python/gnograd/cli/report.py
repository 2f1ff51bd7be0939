# SPDX-License-Identifier: MIT
"""Command `gnograd report`: a self-contained page on a training."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import gnograd as gg
from gnograd.cli import report_figures
from gnograd.cli.errors import JobError
from gnograd.cli.files import atomic
from gnograd.cli.log import EXAMPLES, HISTORY, RESULTS, Epoch
from gnograd.data.description import Description, description_of
from gnograd.notation.text import printable, read_text

__all__ = ["report"]

_SHOWN = 10
"""Number of best, and of worst, samples in the table."""

_STYLE = """
:root { color-scheme: light dark; --text: #1a1a1a; --page: #fff; --faint: #555; --line: #ddd; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
       max-width: 62rem; margin: 2rem auto; padding: 0 1.2rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin-bottom: .2rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p.what { color: var(--faint); margin-top: 0; }
table { border-collapse: collapse; margin: .4rem 0; }
th, td { text-align: left; padding: .2rem 1.2rem .2rem 0; border-bottom: 1px solid var(--line);
         vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; height: auto; display: block; }
.row { display: flex; flex-wrap: wrap; gap: 1rem 2rem; }
/* on a telephone, tables and rows of pictures are moved under the finger, not made tiny */
.wide { overflow-x: auto; }
.wide > img { min-width: 38rem; }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --page: #16181b; --faint: #9a9a9a; --line: #3a3d42; }
  img { border-radius: 4px; }
  img.lines { filter: invert(.9) hue-rotate(180deg); }
}
"""


def report(directory: Path, out: Path) -> Path:
    """Write the page.

    Parameters
    ----------
    directory : pathlib.Path
        Folder of a model of `gnograd train points`.
    out : pathlib.Path
        HTML file.

    Returns
    -------
    pathlib.Path
        `out`.

    Raises
    ------
    JobError
        There is no model, or a file is damaged.
    """
    try:
        description, _ = description_of(directory)
        results = _results(directory / RESULTS)
        history = _history(directory / HISTORY, int(results["epochs"]))
        examples = gg.load_weights(directory / EXAMPLES)
        page = _page(directory, description, results, history, examples)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise JobError(f"{error.filename or directory}: is missing; needs the --out of a training "
                       "that has ended") from error  # fmt: skip
    except Exception as error:  # files with invalid values lead to almost anything
        raise JobError(f"{directory}: a file is damaged ({str(error)[:200]})") from error
    with atomic(out) as stream:
        stream.write(page.encode())
    return out


def _results(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = _printable(json.loads(read_text(path)))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return found


def _printable(value: Any) -> Any:
    """Replace control characters in all texts of a JSON value."""
    if isinstance(value, dict):
        return {printable(name): _printable(x) for name, x in value.items()}
    if isinstance(value, list):
        return [_printable(x) for x in value]
    return printable(value) if isinstance(value, str) else value


def _history(path: Path, epochs: int) -> list[Epoch]:
    rows = [
        Epoch(int(row["epoch"]), *(float(row[n]) for n in ("learning_rate", "loss", "held_out",
                                                           "seconds")))
        for row in csv.DictReader(io.StringIO(read_text(path), newline=""))
    ]  # fmt: skip
    if len(rows) < epochs:
        raise ValueError(f"{path.name}: ends after {len(rows)} epochs of {epochs}")
    return rows


def _page(
    directory: Path,
    description: Description,
    results: Mapping[str, Any],
    history: Sequence[Epoch],
    examples: Mapping[str, Any],
) -> str:
    sets = results["sets"]
    where = printable(directory.resolve().name)
    title = f"{description.name}, {results['settings']['size']}: {where}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="what">trained on {escape(results["training"])}</p>',
        "<h2>Errors</h2>",
        _errors(sets, description.layout.in_time),
        '<div class="row"><div>',
        report_figures.errors_by_sample(sets),
        "</div><div>",
        report_figures.errors_by_resolution(sets),
        "</div></div>",
        "<h2>Course</h2>",
        _wide(report_figures.course(history, int(results["best_epoch"]))),
        f"<h2>Samples of {escape(sets[-1]['name'])}</h2>",
        *_examples(sets[-1], description, examples),
        _ranking(sets[-1]["samples"]),
        "<h2>Cost</h2>",
        _table(_cost(results)),
        "<h2>Settings</h2>",
        _table({n: str(v) for n, v in results["settings"].items() if v is not None}),
        "<h3>Network</h3><p>Lengths are in units of half the longest side of the box that holds "
        "all points.</p>",
        _table({n: str(v) for n, v in description.options.items() if v is not None}),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _errors(sets: Sequence[Mapping[str, Any]], in_time: bool) -> str:
    simple = "state unchanged" if in_time else "training mean"
    rows = []
    for each in sets:
        errors = [sample["error"] for sample in each["samples"]]
        points = [sample["points"] for sample in each["samples"]]
        span = f"{min(points)}" + (f" to {max(points)}" if max(points) > min(points) else "")
        numbers = [np.mean(errors), np.median(errors), max(errors),
                   np.mean([sample["simple"] for sample in each["samples"]])]  # fmt: skip
        rows.append([each["name"], str(len(errors)), span, *(f"{x:.4g}" for x in numbers)])
    head = ["set", "samples", "points", "mean error", "median", "largest", simple]
    note = "<p>Relative L2 errors"
    note += " of whole trajectories from their first state" if in_time else ""
    note += "; the best epoch was chosen by those of <em>validation</em>."
    for each in sets:
        if n := each.get("also in training"):
            note += (
                f" <strong>{int(n)} of {len(each['samples'])} samples of "
                f"{escape(each['name'])} are in the training data, too.</strong>"
            )
    return _grid(head, rows) + note + "</p>"


def _examples(
    last: Mapping[str, Any], description: Description, arrays: Mapping[str, Any]
) -> list[str]:
    """Pictures of the best, the median and the worst sample."""
    parts = []
    first = description.layout.outputs[0]
    name = printable(first.name) + (" (first component)" if first.width > 1 else "")
    numbers = {what: int(arrays[f"{what}.number"]) for what in ("best", "middle", "worst")}
    if numbers["middle"] in (numbers["best"], numbers["worst"]):
        del numbers["middle"]
    if len(set(numbers.values())) == 1:
        numbers = {"worst": numbers["worst"]}
    for what, number in numbers.items():
        sample = last["samples"][number]
        which = what if len(numbers) > 1 else "the only one"
        text = f"{which}: {sample['source']}, error {sample['error']:.4g}"
        parts.append(f"<h3>{escape(text)}</h3>")
        picture = report_figures.example(
            name,
            arrays[f"{what}.points"],
            arrays[f"{what}.truth"][:, 0],
            arrays[f"{what}.prediction"][:, 0],
            arrays.get(f"{what}.triangles"),
        )
        parts.append(_wide(picture))
    return parts


def _ranking(samples: Sequence[Mapping[str, Any]]) -> str:
    order = sorted(samples, key=lambda sample: float(sample["error"]))
    shown = order if len(order) <= 2 * _SHOWN else [*order[:_SHOWN], None, *order[-_SHOWN:]]
    rows = [
        ["...", "", ""] if s is None else [s["source"], str(s["points"]), f"{s['error']:.4g}"]
        for s in shown
    ]
    return "<h3>Best to worst</h3>" + _grid(["sample", "points", "error"], rows)


def _cost(results: Mapping[str, Any]) -> dict[str, str]:
    return {
        "parameters": f"{results['parameters']:,}",
        "training": f"{results['epochs']} epochs in {_duration(results['seconds'])}",
        "a step": _step(results["seconds_a_step"]),
        "memory": f"{results['memory'] / 2**30:.2f} GiB at most",
        "device": results["device"],
        "versions": ", ".join(f"{n} {v}" for n, v in results["versions"].items()),
    }


def _step(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _table(rows: Mapping[str, str]) -> str:
    lines = (f"<tr><td>{escape(n)}</td><td>{escape(v)}</td></tr>" for n, v in rows.items())
    return _wide("<table>" + "".join(lines) + "</table>")


def _wide(element: str) -> str:
    """Wrap an element that may be wider than the page."""
    return f'<div class="wide">{element}</div>'


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with numbers in all columns but the first."""

    def line(cells: Sequence[str], tag: str) -> str:
        made = (
            f"<{tag}{' class=n' if k else ''}>{escape(cell)}</{tag}>"
            for k, cell in enumerate(cells)
        )
        return "<tr>" + "".join(made) + "</tr>"

    lines = line(head, "th") + "".join(line(r, "td") for r in rows)
    return _wide(f"<table>{lines}</table>")
