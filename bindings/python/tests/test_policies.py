"""prorata's policies as objects: what they decide, and that no sequence of calls does harm."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import prorata
import pytest
from conftest import SLEEPERS
from prorata import BuiltPolicy

SEVERAL = [policy.name for policy in prorata.policies() if policy.multiprocessor]
QUANTUM = 10


def runnable(policy: BuiltPolicy, weights: list[int]) -> BuiltPolicy:
    for task, weight in enumerate(weights):
        policy.add(task, weight)
        policy.wake(task, 0)
    return policy


def test_the_order_is_the_papers() -> None:
    policy = runnable(prorata.build("gr3:sleepers=paper", quantum_ns=QUANTUM), [5, 2, 1])
    order = []
    for now_ns in range(0, 80, QUANTUM):
        task = policy.pick(0, now_ns)
        assert task is not None
        policy.charge(task, QUANTUM, now_ns + QUANTUM)
        order.append(task)
    assert order == [0, 0, 1, 0, 0, 0, 1, 2]


def test_a_built_policy_is_a_policy() -> None:
    policy = prorata.build("wfq", seed=3)
    assert isinstance(policy, prorata.Policy)
    assert policy.setup == prorata.Setup(cpus=1, quantum_ns=10_000_000, seed=3)
    assert eval(repr(policy)).setup == policy.setup


@pytest.mark.parametrize(
    ("spec", "cpus", "message"),
    [
        ("gr4", 1, "no policy is called 'gr4'; there are gr3 "),
        ("gr3:x=1", 1, "the policy has no option 'x'"),
        ("gdq:t=much", 1, "option 't' takes a number from"),
        ("lottery:sleepers=corrected", 1, "option 'sleepers' takes paper or turns, not 'corrected'"),
        ("vtrr", 2, "vtrr schedules one cpu only: use cpus=1, or a policy for several"),
        ("gr3", 0, "the number of cpus is a whole number from 1 to 65536, not 0"),
    ],
)
def test_what_cannot_be_built_is_refused(spec: str, cpus: int, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        prorata.build(spec, cpus)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.add(0, 1), "add(task 0): it is known already; remove it first"),
        (lambda p: p.add(2, 0), "a weight is a whole number from 1 to 4294967295, not 0"),
        (lambda p: p.add(-1, 1), "a task is a whole number from 0 to 16777215, not -1"),
        (lambda p: p.add(1 << 24, 1), "a task is a whole number from 0 to 16777215"),
        (lambda p: p.add(10**30, 1), "a task is a whole number from 0 to 16777215"),
        (lambda p: p.remove(0, 5), "remove(task 0): it runs on cpu 0; charge it first"),
        (lambda p: p.remove(9, 5), "remove(task 9): it was never added"),
        (lambda p: p.set_weight(0, 1, 4), "set_weight at 4 ns, after a call at 5 ns"),
        (lambda p: p.wake(1, 5), "wake(task 1): it is waiting; only a blocked task wakes"),
        (lambda p: p.block(0, 5), "block(task 0): it is running on cpu 0; charge a task"),
        (lambda p: p.pick(0, 5), "pick(cpu 0): task 0 runs there, uncharged"),
        (lambda p: p.pick(1, 5), "pick(cpu 1): there are 1 cpus"),
        (lambda p: p.pick(0, -1), "a time in nanoseconds is a whole number from 0"),
        (lambda p: p.pick(0, 1 << 57), "a time in nanoseconds is a whole number from 0"),
        (lambda p: p.charge(1, 5, 5), "charge(task 1): it is waiting; only a task that was picked"),
        (lambda p: p.charge(0, 11, 16), "charge(task 0): 11 ns is more than its run, 10 ns"),
        (lambda p: p.slice_ns(1), "slice_ns(task 1): it is waiting"),
        (lambda p: p.interrupt(4), "interrupt at 4 ns, after a call at 5 ns"),
    ],
)
def test_misuse_names_the_call_and_the_remedy(
    call: Callable[[BuiltPolicy], Any], message: str
) -> None:
    policy = runnable(prorata.build("gr3:sleepers=paper", quantum_ns=QUANTUM), [2, 1])
    assert policy.pick(0, 5) == 0
    with pytest.raises(ValueError, match=re.escape(message)):
        call(policy)
    # Nothing has happened.
    policy.charge(0, QUANTUM, 5 + QUANTUM)
    policy.block(0, 15)
    assert policy.pick(0, 15) == 1


def test_what_is_no_number_is_a_type_error() -> None:
    policy: Any = prorata.build("gr3")
    with pytest.raises(TypeError, match="a task is a whole number, not of type str"):
        policy.add("a", 1)
    with pytest.raises(TypeError, match="a weight is a whole number, not of type float"):
        policy.add(0, 1.5)


def any_call(lots: random.Random, policy: BuiltPolicy, now_ns: int, cpus: int) -> None:
    """A call that may be allowed or not."""
    task = lots.randrange(6)
    weight = lots.choice([1, 2, 3, 100, 2**31, 2**32 - 1])
    calls: list[Callable[[], Any]] = [
        lambda: policy.add(task, weight),
        lambda: policy.remove(task, now_ns),
        lambda: policy.set_weight(task, weight, now_ns),
        lambda: policy.wake(task, now_ns),
        lambda: policy.block(task, now_ns),
        lambda: policy.pick(lots.randrange(cpus + 1), now_ns),
        lambda: policy.charge(task, lots.choice([0, 1, QUANTUM]), now_ns),
        lambda: policy.interrupt(now_ns),
        lambda: policy.slice_ns(task),
    ]
    weights = [4, 1, 2, 6, 2, 12, 12, 2, 1]
    lots.choices(calls, weights)[0]()


@pytest.mark.parametrize(
    ("name", "sleepers", "cpus"),
    [(*both, cpus) for both in SLEEPERS for cpus in (1, 3) if cpus == 1 or both[0] in SEVERAL],
)
def test_no_sequence_of_calls_does_harm(name: str, sleepers: str, cpus: int) -> None:
    lots = random.Random(f"{name} {cpus}")
    policy = prorata.build(f"{name}:sleepers={sleepers}", cpus, QUANTUM)
    now_ns, refused, calls = 0, 0, 3_000
    for _ in range(calls):
        now_ns += lots.choice([0, 0, 1, QUANTUM, 10**9])
        try:
            any_call(lots, policy, now_ns - lots.choice([0] * 20 + [1]), cpus)
        except ValueError:
            refused += 1
    assert 0 < refused < calls
