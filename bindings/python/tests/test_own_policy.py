"""Policies written in Python, run by the engine."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import prorata
import pytest
from conftest import SLEEPERS
from prorata import Policy, Setup


class RoundRobin(Policy):
    """The waiting tasks in the order in which they began to wait."""

    def __init__(self, setup: Setup) -> None:
        self.queue: deque[int] = deque()

    def add(self, task: int, weight: int) -> None:
        pass

    def remove(self, task: int, now_ns: int) -> None:
        if task in self.queue:
            self.queue.remove(task)

    def set_weight(self, task: int, weight: int, now_ns: int) -> None:
        pass

    def wake(self, task: int, now_ns: int) -> None:
        self.queue.append(task)

    def block(self, task: int, now_ns: int) -> None:
        self.queue.remove(task)

    def pick(self, cpu: int, now_ns: int) -> int | None:
        return self.queue.popleft() if self.queue else None

    def charge(self, task: int, used_ns: int, now_ns: int) -> None:
        self.queue.append(task)


def without_name(outcome: prorata.Outcome) -> dict[str, Any]:
    return {key: value for key, value in outcome.to_dict().items() if key != "policy"}


def test_round_robin_is_prorata_s(mixed: dict[str, Any]) -> None:
    ours = prorata.simulate(mixed, RoundRobin)
    theirs = prorata.simulate(mixed, "round-robin:sleepers=paper")
    assert ours.policy == "RoundRobin"
    assert without_name(ours) == without_name(theirs)


@pytest.mark.parametrize(("name", "sleepers"), SLEEPERS)
def test_every_policy_decides_through_python_as_it_does_without(
    mixed: dict[str, Any], name: str, sleepers: str
) -> None:
    if not next(p for p in prorata.policies() if p.name == name).multiprocessor:
        mixed["machine"]["cpus"] = 1
    spec = f"{name}:sleepers={sleepers}"
    # The object itself has the methods: every decision goes from the engine through Python and back.
    through = prorata.simulate(mixed, lambda s: prorata.build(spec, s.cpus, s.quantum_ns, s.seed))
    assert without_name(through) == without_name(prorata.simulate(mixed, spec))


def test_cgroups_are_served_too() -> None:
    workload = {
        "duration": "200ms",
        "cgroup": [{"name": "a", "weight": 300}, {"name": "b"}],
        "task": [{"name": "x", "cgroup": "a"}, {"name": "y", "cgroup": "b", "count": 2}],
    }
    outcome = prorata.simulate(
        workload, lambda s: prorata.build("gr3:sleepers=paper", s.cpus, s.quantum_ns, s.seed)
    )
    expected = prorata.simulate(workload, "gr3:sleepers=paper")
    assert without_name(outcome) == without_name(expected)
    assert outcome.cgroups["name"] == ["a", "b"]


def test_the_policy_is_told_the_setup(mixed: dict[str, Any]) -> None:
    seen = []

    def build(setup: Setup) -> RoundRobin:
        seen.append(setup)
        return RoundRobin(setup)

    prorata.simulate(mixed, build)
    assert seen == [Setup(cpus=2, quantum_ns=5_000_000, seed=7)]


@pytest.mark.parametrize(
    "verb", ["add", "set_weight", "wake", "block", "pick", "charge", "interrupt", "slice_ns"]
)
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_what_a_policy_raises_comes_out(
    mixed: dict[str, Any], verb: str, error: type[BaseException]
) -> None:
    raised = error("mine")
    calls = 0

    class Failing(RoundRobin):
        pass

    def fail(self: Failing, *arguments: int) -> None:
        nonlocal calls
        calls += 1
        raise raised

    setattr(Failing, verb, fail)
    with pytest.raises(error) as caught:
        prorata.simulate(mixed, Failing)
    assert caught.value is raised
    assert calls == 1, "it is asked nothing after that"


class Answering(RoundRobin):
    """Gives answers that it should not."""

    picks: Any = None
    interrupts: Any = None
    slices: Any = None

    def pick(self, cpu: int, now_ns: int) -> Any:
        return super().pick(cpu, now_ns) if self.picks is None else self.picks

    def interrupt(self, now_ns: int) -> Any:
        return self.interrupts

    def slice_ns(self, task: int) -> Any:
        return self.slices


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        ({"picks": 99}, ValueError, "pick(cpu 0) at 0 ns returned task 99, which is unknown; return"),
        ({"picks": 0}, ValueError, "returned task 0, which is running on cpu 0; return a waiting task"),
        ({"picks": -1}, ValueError, "what pick returns, unless it is None, is a whole number from 0"),
        ({"picks": "a"}, TypeError, "what pick returns, unless it is None, is a whole number, not of"),
        ({"interrupts": 2}, ValueError, "interrupt at 0 ns returned cpu 2, which runs nothing"),
        ({"interrupts": 0}, ValueError, "has stopped 100000 runs: return None when"),
        ({"slices": 0}, ValueError, "what slice_ns returns, unless it is None, is a whole number from 1"),
        ({"slices": 10**9}, ValueError, "may run for 1000000000 ns; allow 1 to 5000000 ns"),
    ],
)
def test_answers_that_are_none_are_told(
    mixed: dict[str, Any], answers: dict[str, Any], error: type[Exception], message: str
) -> None:
    policy = type("Wrong", (Answering,), answers)
    with pytest.raises(error, match=re.escape(message)):
        prorata.simulate(mixed, policy)


def test_a_policy_that_idles_every_cpu_is_the_users_business(mixed: dict[str, Any]) -> None:
    class Lazy(RoundRobin):
        def pick(self, cpu: int, now_ns: int) -> None:
            return None

    outcome = prorata.simulate(mixed, Lazy)
    assert sum(outcome.tasks["service_ns"]) == 0


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (object(), "a policy is a name such as \"gr3\", or what makes one from a Setup"),
        (lambda setup: object(), "object has no method 'add': a policy has add, remove, set_weight"),
    ],
)
def test_what_is_no_policy_is_a_type_error(
    mixed: dict[str, Any], policy: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        prorata.simulate(mixed, policy)
