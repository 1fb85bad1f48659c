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


def test_a_sweep_is_a_line_a_policy() -> None:
    sweep = {
        "workload": {"duration": "50ms", "task": [{"name": "hog"}]},
        "policies": ["gr3", "wfq"],
        "seeds": 2,
        "grid": {"task.hog.count": [1, 2, 3]},
    }
    report = prorata.sweep(sweep)
    axes = plot.means(report, "error_max", "task.hog.count")
    assert len(axes.containers) == 2
    assert axes.get_xlabel() == "task.hog.count"
    with pytest.raises(ValueError, match="no measure is called 'x'; there are least_percent"):
        plot.means(report, "x", "task.hog.count")
