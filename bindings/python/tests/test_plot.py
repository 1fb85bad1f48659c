"""Pictures show what the tables hold."""

from __future__ import annotations

from typing import Any

import matplotlib
import prorata
import pytest
from prorata import plot

matplotlib.use("Agg")


def test_a_timeline_has_a_bar_a_run(mixed: dict[str, Any]) -> None:
    outcome = prorata.simulate(mixed, timeline=True)
    axes = plot.timeline(outcome)
    assert len(axes.collections) == len(outcome.timeline)
    assert [label.get_text() for label in axes.get_yticklabels()] == outcome.tasks["task"]
    part = plot.timeline(outcome, from_ns=50_000_000, to_ns=60_000_000)
    assert 0 < len(part.collections) < len(axes.collections)
    assert part.get_xlim() == (50, 60)


def test_shares_and_errors_are_bars(mixed: dict[str, Any]) -> None:
    outcome = prorata.simulate(mixed)
    heights = [bar.get_height() for bar in plot.shares(outcome).patches]  # type: ignore[attr-defined]
    assert heights == outcome.groups["share"]
    limits = [(None, None)] * 4 + [(None, prorata.ideal_rates([1, 1])[0])]
    axes = plot.errors(outcome, limits)
    assert len(axes.patches) == 5 and len(axes.collections) == 1


def swept(seeds: int) -> prorata.SweepReport:
    return prorata.sweep(
        {
            "workload": {"duration": "50ms", "task": [{"name": "hog"}]},
            "policies": ["gr3", "wfq"],
            "seeds": seeds,
            "grid": {"task.hog.count": [1, 2, 3]},
        }
    )


def test_a_sweep_is_a_line_a_policy() -> None:
    report = swept(2)
    axes = plot.means(report, "error_max", "task.hog.count")
    assert len(axes.lines) >= 2 and len(axes.containers) == 2
    assert axes.get_xlabel() == "task.hog.count"
    assert axes.get_legend_handles_labels()[1] == ["gr3", "wfq"]
    with pytest.raises(ValueError, match="no measure is called 'x'; there are least_percent"):
        plot.means(report, "x", "task.hog.count")
    with pytest.raises(ValueError, match="no key of the grid is called 'x'; there are task.hog.count"):
        plot.means(report, "error_max", "x")


# Warnings are errors in all tests.
def test_one_seed_is_points_without_an_interval() -> None:
    report = swept(1)
    assert set(report.means["low"]) == {None}
    axes = plot.means(report, "error_max", "task.hog.count")
    assert len(axes.lines) == 2 and not axes.containers
    of_gr3 = [
        row["mean"]
        for row in report.means.to_pylist()
        if (row["measure"], row["policy"]) == ("error_max", "gr3")
    ]
    assert list(axes.lines[0].get_ydata()) == of_gr3  # type: ignore[arg-type]
    axes.figure.canvas.draw()
