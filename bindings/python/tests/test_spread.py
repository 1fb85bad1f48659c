"""Figures and sweeps: the same bytes from one thread, many, and a Dask cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prorata
import prorata.dask
import pytest
from conftest import ROOT
from distributed import Client, LocalCluster
from prorata._spread import ranges

SWEEP: dict[str, Any] = {
    "workload": {
        "duration": "200ms",
        "task": [
            {"name": "hog", "count": 2},
            {"name": "nap", "phases": [{"run": {"exponential": "3ms"}}, {"sleep": "9ms"}]},
        ],
    },
    "policies": ["gr3", "wfq", "lottery"],
    "seeds": 40,
    "groups": ["nap"],
    "grid": {"task.hog.count": [1, 5]},
}


def files(report: Any, path: Path) -> dict[str, bytes]:
    """What a report writes."""
    if isinstance(report, prorata.SweepReport):
        path.mkdir()
        report.write(path / "runs.csv")
        report.write(path / "runs.parquet")
    else:
        report.write(path)
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def test_threads_do_not_change_a_byte(tmp_path: Path) -> None:
    sweeps = [files(prorata.sweep(SWEEP, jobs=jobs), tmp_path / f"s{jobs}") for jobs in (1, 3)]
    assert sweeps[0] == sweeps[1]
    figures = [
        files(prorata.figure("vtrr-2", sets=4, jobs=jobs), tmp_path / f"f{jobs}") for jobs in (1, 3)
    ]
    assert figures[0] == figures[1]


def test_a_figure_is_that_of_the_repository(tmp_path: Path) -> None:
    report = prorata.figure("vtrr-4")
    written = files(report, tmp_path / "figure")
    for name in ["vtrr-4.csv", "vtrr-4.json"]:
        assert written[name] == (ROOT / "figures" / name).read_bytes()
    assert len(report.rows) > 0 and report.svg() == report._repr_svg_()


def test_a_figure_takes_other_policies(tmp_path: Path) -> None:
    report = prorata.figure("gr3-9", policies=["wfq", "qfq"], sets=1)
    assert list(files(report, tmp_path / "other")) == [
        f"gr3-9-with-wfq+qfq.{ending}" for ending in ("csv", "json", "svg")
    ]
    with pytest.raises(ValueError, match="gr3-9 with gr4: no policy is called 'gr4'"):
        prorata.figure("gr3-9", policies=["gr4"])


def test_a_sweep_is_tidy() -> None:
    report = prorata.sweep(SWEEP)
    assert len(report.rows) == 2 * 3 * 40
    assert report.rows["run"] == list(range(240))
    assert set(report.rows["task.hog.count"]) == {1, 5}
    assert set(report.means["policy"]) == {"gr3", "wfq", "lottery"}
    assert len(report.differences) > 0
    assert "lottery" in str(report)


def test_what_is_no_sweep_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gr4"):
        prorata.sweep({**SWEEP, "policies": ["gr4"]})
    with pytest.raises(FileNotFoundError):
        prorata.sweep(tmp_path / "none.toml")
    sweep = prorata.Sweep(SWEEP)
    parts = [sweep.execute(0, 100), sweep.execute(100, 240)]
    assert len(sweep.report(parts[::-1]).rows) == 240
    with pytest.raises(ValueError, match="run 100 is missing"):
        sweep.report(parts[:1])
    with pytest.raises(ValueError, match="run 0 is there twice"):
        sweep.report([*parts, parts[0]])
    with pytest.raises(ValueError, match="this is no part of a sweep"):
        sweep.report([b"x"])
    with pytest.raises(IndexError, match="there are 240"):
        sweep.execute(0, 241)
    with pytest.raises(ValueError, match="use the ending .csv or .parquet"):
        sweep.report(parts).write(tmp_path / "runs.txt")
    with pytest.raises(ValueError, match="no figure is called 'gr3-99'"):
        prorata.figure("gr3-99")
    with pytest.raises(ValueError, match="random sets"):
        prorata.figure("gr3-9", sets=0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as client:
        yield client


def test_workers_do_not_change_a_byte(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    expected = files(prorata.sweep(SWEEP), tmp_path / "threads")
    assert files(prorata.dask.sweep(SWEEP, client=client), tmp_path / "one") == expected
    cluster.scale(4)
    client.wait_for_workers(4)
    assert files(prorata.dask.sweep(SWEEP, client=client), tmp_path / "four") == expected
    figure = prorata.dask.figure("vtrr-2", sets=4, client=client)
    expected = files(prorata.figure("vtrr-2", sets=4), tmp_path / "figure")
    assert files(figure, tmp_path / "spread") == expected


def test_a_killed_worker_costs_its_chunk(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    """Every chunk leaves a mark when it begins; the worker that begins the twentieth kills itself."""
    cluster.scale(4)
    client.wait_for_workers(4)
    sweep, marks, killed = prorata.Sweep(SWEEP), tmp_path / "marks", tmp_path / "killed"
    marks.mkdir()

    def execute(runs: range, ours: str, arguments: tuple[str]) -> bytes:
        (marks / f"{runs.start}-{time.time_ns()}").touch()
        if len(list(marks.iterdir())) >= 20 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return prorata.Sweep.from_toml(*arguments).execute(runs.start, runs.stop)

    chunks = ranges(sweep.runs)
    parts = prorata.dask._spread(execute, chunks, (sweep.text,), client)
    assert killed.exists()
    again = len(list(marks.iterdir())) - len(chunks)
    # All four may see that nobody was killed yet.
    assert 1 <= again <= 4
    expected = files(prorata.sweep(SWEEP), tmp_path / "threads")
    assert files(sweep.report(parts), tmp_path / "spread") == expected


def test_figures_of_time_stay_here(client: Client) -> None:
    with pytest.raises(ValueError, match="gr3-12 measures the time of this machine"):
        prorata.dask.figure("gr3-12", client=client)
