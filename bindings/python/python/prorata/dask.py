"""Figures and sweeps spread over the workers of a Dask cluster.

Without a client they run on a cluster of this machine's cpus. The bytes that come out are those of
one process, whatever the number of workers and in whatever order they finish: `prorata.figure` and
`prorata.sweep` give the same. A worker that dies costs the chunk that it was at, which another worker
does again.

On Slurm, with dask-jobqueue::

    from dask_jobqueue import SLURMCluster
    from distributed import Client
    import prorata.dask

    cluster = SLURMCluster(cores=1, processes=1, memory="1GB", walltime="01:00:00")
    cluster.scale(jobs=200)
    report = prorata.dask.sweep("mine.toml", client=Client(cluster))
    report.write("mine.parquet")

On Kubernetes, with dask-kubernetes and an image that has prorata installed::

    from dask_kubernetes.operator import KubeCluster

    cluster = KubeCluster(name="prorata", image="registry.example/prorata:latest", n_workers=50)
    report = prorata.dask.sweep("mine.toml", client=cluster.get_client())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.metadata import version
from itertools import islice
from typing import Any

from distributed import Client, Future, LocalCluster, as_completed

from prorata._native import FigurePlan, FigureReport, Sweep, SweepReport
from prorata._spread import ranges, sweep_of
from prorata._types import Description, PathArgument

__all__ = ["figure", "sweep"]


def figure(
    name: str,
    *,
    policies: Sequence[str] = (),
    sets: int | None = None,
    seed: int = 1,
    client: Client | None = None,
) -> FigureReport:
    """Compute a figure of the papers on the workers of `client`."""
    plan = FigurePlan(name, policies, sets, seed)
    if plan.is_measurement:
        raise ValueError(f"{name} measures the time of this machine: use prorata.figure for it")
    arguments = (name, tuple(policies), sets, seed)
    return plan.report(_spread(_execute_chunk, range(plan.chunks), arguments, client))


def sweep(
    what: Sweep | Description | PathArgument, *, client: Client | None = None
) -> SweepReport:
    """Execute a sweep, or what a sweep file or its path says, on the workers of `client`."""
    checked = sweep_of(what)
    return checked.report(_spread(_execute_runs, ranges(checked.runs), (checked.text,), client))


def _spread(
    execute: Callable[..., bytes],
    chunks: Sequence[Any],
    arguments: tuple[Any, ...],
    client: Client | None,
) -> list[bytes]:
    with _client(client) as workers:
        work = partial(execute, ours=version("prorata"), arguments=arguments)
        parts, left = [b""] * len(chunks), iter(enumerate(chunks))
        places: dict[Future[bytes], int] = {}
        done = as_completed(with_results=True)

        def hand_out() -> None:
            # What only a worker knows dies with it: nobody is given a chunk before the result of the
            # last one is here.
            threads = max(1, sum(workers.nthreads().values()))
            for place, chunk in islice(left, max(0, threads - len(places))):
                future = workers.submit(work, chunk, pure=False)
                places[future] = place
                done.add(future)

        try:
            hand_out()
            for future, part in done:
                parts[places.pop(future)] = part
                hand_out()
        finally:
            workers.cancel(list(places))
        return parts


@contextmanager
def _client(given: Client | None) -> Iterator[Client]:
    if given is not None:
        yield given
        return
    with (
        LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _execute_runs(runs: range, ours: str, arguments: tuple[str]) -> bytes:
    _check_version(ours)
    return _sweep(*arguments).execute(runs.start, runs.stop)


def _execute_chunk(
    chunk: int, ours: str, arguments: tuple[str, tuple[str, ...], int | None, int]
) -> bytes:
    _check_version(ours)
    return _plan(*arguments).execute(chunk)


def _check_version(client: str) -> None:
    ours = version("prorata")
    if ours != client:
        raise RuntimeError(
            f"this worker has prorata {ours} and the client {client}: install the same version"
        )


# Parsed once a worker, not once a chunk.
_sweep = lru_cache(maxsize=8)(Sweep.from_toml)
_plan = lru_cache(maxsize=8)(FigurePlan)
