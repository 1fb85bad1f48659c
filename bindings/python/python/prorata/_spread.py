"""Figures and sweeps on the threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from prorata._native import FigurePlan, FigureReport, Sweep, SweepReport
from prorata._types import Description, PathArgument

Chunk = TypeVar("Chunk")

# A sweep is cut into at most so many chunks: enough that a worker that is lost or late costs little,
# and few enough that handing them out costs little.
CHUNKS = 1000


def figure(
    name: str,
    *,
    policies: Sequence[str] = (),
    sets: int | None = None,
    seed: int = 1,
    jobs: int | None = None,
) -> FigureReport:
    """Compute a figure of the papers on `jobs` threads, by default as many as there are cpus.

    With `policies` in the place of the figure's own, if some are named; with `sets` random sets at
    every point, by default as many as the paper ran, which may take hours.
    """
    plan = FigurePlan(name, policies, sets, seed)
    return plan.report(_in_threads(plan.execute, range(plan.chunks), jobs))


def sweep(what: Sweep | Description | PathArgument, *, jobs: int | None = None) -> SweepReport:
    """Execute a sweep, or what a sweep file or its path says, on `jobs` threads."""
    checked = sweep_of(what)
    parts = _in_threads(lambda runs: checked.execute(runs.start, runs.stop), ranges(checked.runs), jobs)
    return checked.report(parts)


def sweep_of(what: Sweep | Description | PathArgument) -> Sweep:
    if isinstance(what, Sweep):
        return what
    return Sweep(what) if isinstance(what, dict) else Sweep.read(what)


def ranges(runs: int) -> list[range]:
    """Return the runs from 0 up to `runs`, cut into chunks."""
    size = -(-runs // CHUNKS)
    return [range(first, min(first + size, runs)) for first in range(0, runs, size)]


def _in_threads(
    execute: Callable[[Chunk], bytes], chunks: Iterable[Chunk], jobs: int | None
) -> list[bytes]:
    pool = ThreadPoolExecutor(jobs)
    try:
        return list(pool.map(execute, chunks))
    finally:
        # What has begun ends; what has not never does.
        pool.shutdown(cancel_futures=True)
