# SPDX-License-Identifier: MIT
"""Tables and pictures of benchmarks/results for the pages of the benchmarks.

usage: bench_report.py     write docs/benchmarks/generated
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import model_report
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from pictures import THEMES, Colours, settings
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"
OURS = "gnograd"

Rows = dict[tuple[Any, ...], dict[str, Any]]
"""Records of all contestants, by case, face and threads."""


def rows_of(result: dict[str, Any]) -> Rows:
    found: Rows = {}
    for record in result["records"]:
        key = record["case"], record["face"], record["threads"]
        found.setdefault(key, {})[record["contestant"]] = record
    return found


def names_with(measured: str, rows: Rows) -> list[str]:
    """Contestants that have this number in a record."""
    return list(
        dict.fromkeys(
            name
            for records in rows.values()
            for name, record in records.items()
            if measured in record
        )
    )


def peers_of(rows: Rows) -> list[str]:
    """Contestants beside gnograd whose times are compared with its own."""
    return [name for name in names_with("ratio", rows) if name != OURS]


# ---- tables ----


def table(result: dict[str, Any]) -> str:
    """Table in Markdown, with command, versions and machine below."""
    rows = rows_of(result)
    peers = peers_of(rows)
    one_number = len({key[2] for key in rows}) == 1
    others = {
        (measured, name): shown
        for measured, shown in MEASURED.items()
        for name in names_with(measured, rows)
    }
    shares = any("share" in records.get(OURS, {}) for records in rows.values())
    timed = any("seconds" in records.get(OURS, {}) for records in rows.values())
    head = ["case", "", *([] if one_number else ["threads"]), *([OURS] if timed else [])]
    head += [f"of {result['share_of']}"] if shares else []
    head += [*peers, *(f"{HEADS.get(measured, measured)}: {name}" for measured, name in others)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    before = None
    for (case, face, threads), records in rows.items():
        ours = records.get(OURS, {})
        cells = ["" if case == before else case, face]
        cells += [] if one_number else [str(threads)]
        cells += [span(ours.get("seconds"), duration)] if timed else []
        cells += [span(ours.get("share"), "{:.0%}".format)] if shares else []
        cells += [span(records.get(p, {}).get("ratio"), "{:.1f}x".format) for p in peers]
        cells += [span(records.get(p, {}).get(m), shown) for (m, p), shown in others.items()]
        lines.append("| " + " | ".join(cells) + " |")
        before = case
    return "\n".join(lines) + "\n\n" + provenance(result)


def span(numbers: Sequence[float] | None, shown: Any) -> str:
    """One number, or the least and the most."""
    if not numbers:
        return ""
    least, most = shown(min(numbers)), shown(max(numbers))
    return least if least == most else f"{least} to {most}"


def duration(seconds: float) -> str:
    if seconds < 1e-4:
        return f"{1e6 * seconds:.3g} us"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def mebibytes(size: float) -> str:
    return f"{size / 2**20:.0f} MiB" if size >= 9.5 * 2**20 else f"{size / 2**20:.1f} MiB"


def ulps(error: float) -> str:
    return f"{error:.1f} ulp" if error < 1000 else f"{error:.0e} ulp"


MEASURED = {"ulp": ulps, "kept": mebibytes, "memory": mebibytes, "rows": "{:,}".format}
"""Quantities besides times that have a column for each contestant, and their formats."""
HEADS = {"ulp": "error"}


def provenance(result: dict[str, Any]) -> str:
    made = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    machine = result["machine"]
    note = f" {result['note']}" if "note" in result else ""
    return (
        "{.provenance}\n"
        f"`{result['command']}`, {result['date']}, {machine['processor']}; {made}.{note} A number "
        "with x is the peer's time over that of gnograd in the same run.\n"
    )


# ---- pictures ----


def draw(figure: Any, colours: Colours, result: dict[str, Any]) -> None:
    """Peers' times over those of gnograd, as bars."""
    rows = rows_of(result)
    peers = peers_of(rows)
    palette = [colours.first, colours.second, colours.third, colours.faint]
    bars = list(bars_of(rows))
    figure.set_size_inches(8.4, 0.8 + 0.23 * len(bars) + 0.16 * len(rows))
    axes = figure.subplots()
    place, ticks = 0.0, []
    for (case, face, threads), group in groups(bars):
        first = place
        for peer, ratio in group:
            low, high = min(ratio), max(ratio)
            middle = float(np.sqrt(low * high))
            axes.barh(place, middle - 1, 0.8, left=1, color=palette[peers.index(peer) % 4])
            text = f" {low:.1f}x" if low == high else f" {low:.1f} to {high:.1f}x"
            axes.text(max(middle, 1), place, text, va="center", size=8)
            place += 1
        ticks.append(((first + place - 1) / 2, f"{case}, {face}", threads))
        place += 0.7
    several = len({threads for _, _, threads in ticks}) > 1
    names = [f"{name}, {n} thread{'s' * (n > 1)}" if several else name for _, name, n in ticks]
    axes.set_yticks([at for at, _, _ in ticks], names)
    least, most = (chosen(chosen(ratio) for _, _, ratio in bars) for chosen in (min, max))
    wide = least < 1 or most > 10
    axes.set(xscale="log" if wide else "linear", ylim=(-0.7, place))
    axes.set_xlim(min(least / 1.1, 1), most * 2.2 if wide else 1 + (most - 1) * 1.25)
    axes.axvline(1, color=colours.faint, linewidth=axes.spines["left"].get_linewidth())
    axes.spines["left"].set_visible(False)
    if wide:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("times the time of gnograd")
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    handles = [matplotlib.patches.Patch(color=palette[k % 4]) for k in range(len(peers))]
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 / figure.get_figheight()))
    figure.legend(
        handles, peers, frameon=False, loc="upper center", ncols=len(peers), fontsize=8,
        columnspacing=1.2,
    )  # fmt: skip


def bars_of(rows: Rows) -> Iterator[tuple[Any, str, list[float]]]:
    for key, records in rows.items():
        for peer in peers_of(rows):
            if "ratio" in records.get(peer, {}):
                yield key, peer, records[peer]["ratio"]


def groups(bars: list[Any]) -> Iterator[tuple[Any, list[tuple[str, list[float]]]]]:
    found: dict[Any, list[tuple[str, list[float]]]] = {}
    for key, peer, ratio in bars:
        found.setdefault(key, []).append((peer, ratio))
    yield from found.items()


# ---- files ----


def write(folder: Path) -> list[Path]:
    """Write tables and pictures whose results are newer, and give the paths of all."""
    folder.mkdir(exist_ok=True)
    made = []
    for source in sorted(RESULTS.glob("*.json")):
        result = json.loads(source.read_text())
        of_models = model_report.is_of_models(result)
        paths = {theme: folder / f"{source.stem}-{theme}.svg" for theme in THEMES}
        if not of_models and not list(bars_of(rows_of(result))):
            paths = {}
        page = folder / f"{source.stem}.md"
        files = [page, *paths.values()]
        made += files
        makers = (source, Path(__file__), Path(model_report.__file__))
        newest = max(path.stat().st_mtime for path in makers)
        if all(path.exists() and path.stat().st_mtime > newest for path in files):
            continue
        for theme, path in paths.items():
            with matplotlib.rc_context(settings(THEMES[theme])):
                figure = Figure()
                (model_report.draw if of_models else draw)(figure, THEMES[theme], result)
                figure.savefig(path, transparent=True, metadata={"Date": None})
        alt = model_report.ALT if of_models else "Times of peers over those of gnograd."
        pictures = [
            f"```{{image}} generated/{path.name}\n:class: only-{theme}\n:alt: {alt}\n```"
            for theme, path in paths.items()
        ]
        text = model_report.text(result) if of_models else table(result)
        if pictures:
            text = "\n".join([":::{div} wide-picture", *pictures, ":::\n", text])
        page.write_text(text)
    return made


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads any."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir, "benchmarks/generated")))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    for made_path in write(ROOT / "docs/benchmarks/generated"):
        print(made_path.relative_to(ROOT))
