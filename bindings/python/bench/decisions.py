"""Decisions per second of processor time: the command beside Python, in turn.

    python bench/decisions.py target/release/prorata

Both as they are published: `cargo build --release`, and `cargo xtask python --release --wheel`.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable

import prorata

ROUNDS = 3
WORKLOAD = """
duration = "{seconds}s"
machine = {{ cpus = 4, quantum = "10ms", quanta = "asynchronous" }}
[[task]]
name = "task"
count = 1000
phases = [{{ run = {{ uniform = ["1ms", "200ms"] }} }}, {{ sleep = {{ exponential = "1s" }} }}]
"""


class RoundRobin(prorata.Policy):
    """A policy in Python that does as little as it can."""

    def __init__(self, setup: prorata.Setup) -> None:
        self.queue: deque[int] = deque()

    def wake(self, task: int, now_ns: int) -> None:
        self.queue.append(task)

    def pick(self, cpu: int, now_ns: int) -> int | None:
        return self.queue.popleft()

    def charge(self, task: int, used_ns: int, now_ns: int) -> None:
        self.queue.append(task)


def by_command(program: str, policy: str, file: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = [program, "simulate", "--policy", policy, file, "--format", "json"]
    printed = subprocess.run(arguments, check=True, stdout=subprocess.PIPE).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(json.loads(printed)["decisions"] / seconds)


def by_python(policy: str, file: str) -> float:
    begin = time.process_time()
    outcome = prorata.simulate(file, policy)
    outcome.to_dict()
    return outcome.decisions / (time.process_time() - begin)


def by_verbs(policy: str) -> float:
    """pick and charge called from Python."""
    built, now_ns, decisions = prorata.build(policy), 0, 200_000
    for task in range(1000):
        built.add(task, 1)
        built.wake(task, 0)
    begin = time.process_time()
    for _ in range(decisions):
        picked = built.pick(0, now_ns)
        assert picked is not None
        now_ns += 10_000_000
        built.charge(picked, 10_000_000, now_ns)
    return decisions / (time.process_time() - begin)


def by_own_policy() -> float:
    workload = {"duration": "2000s", "task": [{"count": 1000}]}
    begin = time.process_time()
    outcome = prorata.simulate(workload, RoundRobin)
    return outcome.decisions / (time.process_time() - begin)


def median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(ROUNDS)) / 1e6


def main(program: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(WORKLOAD.format(seconds=2_000))
        file.flush()
        for policy in ["gr3", "gdq", "mfq", "round-robin"]:
            pairs = [
                (by_command(program, policy, file.name), by_python(policy, file.name))
                for _ in range(ROUNDS)
            ]
            command, python = (statistics.median(column) / 1e6 for column in zip(*pairs))
            ratio = statistics.median(python / command for command, python in pairs)
            verbs = median(lambda: by_verbs(policy))
            print(
                f"{policy:12} command {command:5.2f} million/s, simulate() {python:5.2f} ({ratio:.0%}), "
                f"pick and charge {verbs:.2f}"
            )
    print(f"a policy in Python {median(by_own_policy):.2f} million/s")


if __name__ == "__main__":
    main(*sys.argv[1:])
