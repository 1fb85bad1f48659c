"""Pictures with matplotlib (`pip install prorata[plot]`).

Every function draws into `ax`, or into a new figure, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from prorata._native import Outcome, SweepReport

__all__ = ["errors", "means", "shares", "timeline"]


def timeline(
    outcome: Outcome, *, from_ns: int = 0, to_ns: int | None = None, ax: Axes | None = None
) -> Axes:
    """Draw who runs when, a line for each task and a colour for each cpu."""
    ax = ax or plt.subplots()[1]
    to_ns = outcome.duration_ns if to_ns is None else to_ns
    names = outcome.tasks["task"]
    for run in outcome.timeline.to_pylist():
        start, end = max(run["start_ns"], from_ns), min(run["end_ns"], to_ns)
        if start < end:
            ax.broken_barh(
                [(start / 1e6, (end - start) / 1e6)],
                (run["id"] - 0.4, 0.8),
                facecolors=f"C{run['cpu'] % 10}",
            )
    ax.set_yticks(range(len(names)), names)
    ax.set_xlim(from_ns / 1e6, to_ns / 1e6)
    ax.invert_yaxis()
    ax.set_xlabel("time, ms")
    plural = "" if outcome.cpus == 1 else "s"
    ax.set_title(f"{outcome.policy} on {outcome.cpus} cpu{plural}")
    return ax


def shares(outcome: Outcome, *, ax: Axes | None = None) -> Axes:
    """Draw what each group received beside what it was due."""
    ax = ax or plt.subplots()[1]
    names = outcome.groups["name"]
    places = range(len(names))
    ax.bar(places, outcome.groups["share"], width=0.6, label="received")
    ax.scatter(
        places, outcome.groups["ideal_share"], marker="_", s=600, color="black", label="ideal", zorder=3
    )
    ax.set_xticks(places, names)
    ax.set_ylabel("cpus")
    ax.set_title(outcome.policy)
    ax.legend()
    return ax


def errors(
    outcome: Outcome,
    limits: Sequence[tuple[Fraction | None, Fraction | None]] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far each task was behind and ahead of the ideal, and the limits if there are some."""
    ax = ax or plt.subplots()[1]
    least, most = outcome.tasks["error_min"], outcome.tasks["error_max"]
    places = range(len(least))
    ax.bar(places, [high - low for low, high in zip(least, most)], bottom=least, label="found")
    for place, pair in enumerate(limits or ()):
        for limit in pair:
            if limit is not None:
                ax.hlines(float(limit), place - 0.45, place + 0.45, color="black")
    ax.set_xticks(places, outcome.tasks["task"])
    ax.set_ylabel("service error, quanta")
    ax.set_title(outcome.policy)
    return ax


def means(report: SweepReport, measure: str, x: str, *, ax: Axes | None = None) -> Axes:
    """Draw the mean of a measure over the grid's key `x`, with its interval, a line a policy.

    A mean over one seed has no interval: it is a point.
    """
    ax = ax or plt.subplots()[1]
    rows = [row for row in report.means.to_pylist() if row["measure"] == measure]
    if not rows:
        known = ", ".join(dict.fromkeys(report.means["measure"]))
        raise ValueError(f"no measure is called '{measure}'; there are {known}")
    columns = report.means.columns
    keys = columns[: columns.index("measure")]
    if x not in keys:
        raise ValueError(f"no key of the grid is called '{x}'; there are {', '.join(keys) or 'none'}")
    for policy in dict.fromkeys(row["policy"] for row in rows):
        line = [row for row in rows if row["policy"] == policy]
        centre = [row["mean"] for row in line]
        sure = [row for row in line if row["low"] is not None]
        (drawn,) = ax.plot([row[x] for row in line], centre, marker=".", label=policy)
        if sure:
            ax.errorbar(
                [row[x] for row in sure],
                [row["mean"] for row in sure],
                yerr=[
                    [row["mean"] - row["low"] for row in sure],
                    [row["high"] - row["mean"] for row in sure],
                ],
                fmt="none",
                ecolor=drawn.get_color(),
                capsize=3,
            )
    ax.set_xlabel(x)
    ax.set_ylabel(measure)
    ax.legend()
    return ax
