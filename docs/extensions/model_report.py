# SPDX-License-Identifier: MIT
"""Table and picture of trained models: errors by problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import NullFormatter
from pictures import Colours

__all__ = ["ALT", "draw", "is_of_models", "text"]

ALT = "Errors of models by problem."


def is_of_models(result: dict[str, Any]) -> bool:
    """True if a result has errors of trained models, not times."""
    return any("error" in record for record in result["records"])


def by_problem(result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Records of every problem, the least error first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in result["records"]:
        found.setdefault(record["case"], []).append(record)
    return {case: sorted(records, key=lambda r: r["error"]) for case, records in found.items()}


def text(result: dict[str, Any]) -> str:
    """Table in Markdown, with command, versions and machine below."""
    made = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    return (
        f"{table(result)}\n\n{{.provenance}}\n"
        f"`{result['command']}`, {result['date']}, {result['machine']['processor']}; {made}.\n"
    )


def table(result: dict[str, Any]) -> str:
    """Problem by problem, the least error first."""
    head = ["problem", "model", "error", "finer", "parameters", "steps", "a step", "memory"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * 2 + " ---: |" * 6]
    for case, records in by_problem(result).items():
        for number, record in enumerate(records):
            cells = ["" if number else case, record["contestant"]]
            cells += [shown(record.get(name), "{:.3f}") for name in ("error", "finer")]
            cells += [shown(record.get(name), "{:,.0f}") for name in ("parameters", "steps")]
            cells += [shown(record.get("seconds"), "{:.0f} ms", 1e3)]
            cells += [shown(record.get("memory"), "{:.0f} MiB", 2**-20)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shown(numbers: Sequence[float] | None, form: str, unit: float = 1.0) -> str:
    """A number in another unit; an empty text if there is none."""
    return form.format(numbers[0] * unit) if numbers else ""


def draw(figure: Any, colours: Colours, result: dict[str, Any]) -> None:
    """A point for the error of every model, a ring for its error on finer points."""
    problems = by_problem(result)
    n_rows = sum(len(records) for records in problems.values())
    figure.set_size_inches(8.4, 0.7 + 0.2 * n_rows + 0.2 * len(problems))
    axes = figure.subplots()
    place, ticks = 0.0, []
    for case, records in problems.items():
        axes.text(-0.38, place - 0.15, case, weight="bold", size=9, va="center", ha="left",
                  transform=axes.get_yaxis_transform())  # fmt: skip
        place += 0.9
        for record in records:
            name, error, finer = record["contestant"], record["error"][0], record["finer"][0]
            if "parameters" not in record:
                colour = colours.faint
            else:
                colour = colours.second if " " in name else colours.first
            axes.plot([error, finer], [place, place], color=colours.faint, lw=1, zorder=1)
            axes.plot(finer, place, "o", ms=7, mfc="none", mec=colour)
            axes.plot(error, place, "o", ms=4, color=colour)
            ticks.append((place, name))
            place += 1
        place += 0.3
    axes.set(xscale="log", ylim=(place, -0.9), xlabel="relative L2 error on test samples")
    axes.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2], minor=False)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks([y for y, _ in ticks], [name for _, name in ticks], size=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=colours.faint, lw=0.4, alpha=0.5)
    points = [
        axes.plot([], [], "o", ms=4, color=c)[0] for c in (colours.first, colours.second)
    ] + axes.plot([], [], "o", ms=7, mfc="none", mec=colours.first)
    axes.legend(points, ["gnograd", "others", "on finer points"], frameon=False, fontsize=8,
                loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3)  # fmt: skip
    figure.tight_layout()
