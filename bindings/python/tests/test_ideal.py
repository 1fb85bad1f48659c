"""The ideal, and bounds."""

from __future__ import annotations

from fractions import Fraction

import prorata
import pytest


def test_rates_are_exact_and_nobody_gets_more_than_a_cpu() -> None:
    assert prorata.ideal_rates([5, 2, 1]) == [Fraction(5, 8), Fraction(1, 4), Fraction(1, 8)]
    assert prorata.ideal_rates([100, 2, 1], cpus=2) == [1, Fraction(2, 3), Fraction(1, 3)]
    assert prorata.ideal_rates([7], cpus=4) == [1]


def test_the_fluid_serves_all_at_once() -> None:
    ideal = prorata.fluid([1, 1], [(0, 0, None), (1, 10, 4)], [10, 14, 30])
    service = {(row["time_ns"], row["task"]): row["service_ns"] for row in ideal.service.to_pylist()}
    assert service == {(10, 0): 10, (10, 1): 0, (14, 0): 12, (14, 1): 2, (30, 0): 26, (30, 1): 4}
    assert ideal.jobs.to_pylist() == [
        {"task": 0, "asked_ns": 0, "work_ns": None, "done_ns": None, "missed": False},
        {"task": 1, "asked_ns": 10, "work_ns": 4, "done_ns": 18, "missed": False},
    ]


def test_a_third_job_is_missed() -> None:
    ideal = prorata.fluid([1], [(0, 0, 10), (0, 1, 10), (0, 2, 10), (0, 12, 5)], [100])
    assert ideal.jobs["done_ns"] == [10, 20, None, 25]
    assert ideal.jobs["missed"] == [False, False, True, False]


def test_the_simulator_s_ideal_is_the_same() -> None:
    weights, ns = [3, 2, 1], 1_000_000_000
    workload = {"duration": "1s", "task": [{"weight": weight} for weight in weights]}
    outcome = prorata.simulate(workload, "wfq")
    ideal = prorata.fluid(weights, [(task, 0, None) for task in range(3)], [ns])
    assert outcome.tasks["ideal_ns"] == ideal.service["service_ns"]
    assert [rate * ns for rate in prorata.ideal_rates(weights)] == pytest.approx(
        outcome.tasks["ideal_ns"]
    )


def test_bounds_hold_and_are_those_of_the_registry() -> None:
    weights = [9, 5, 3, 2, 1]
    workload = {"duration": "4s", "task": [{"weight": weight} for weight in weights]}
    bounded = 0
    for policy in prorata.policies():
        limits = policy.limits(weights)
        outcome = prorata.simulate(workload, f"{policy.name}:sleepers=paper")
        found = zip(outcome.tasks["error_min"], outcome.tasks["error_max"], limits)
        for error_min, error_max, (lower, upper) in found:
            bounded += lower is not None
            assert lower is None or error_min >= float(lower), policy.name
            assert upper is None or error_max <= float(upper), policy.name
    assert bounded > 20
    wf2q = next(policy for policy in prorata.policies() if policy.name == "wf2q")
    least = Fraction(-1)
    assert wf2q.limits([3, 1]) == [(least, Fraction(1, 4)), (least, Fraction(3, 4))]


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no weight"):
        prorata.ideal_rates([])
    with pytest.raises(ValueError, match="a job of task 1: there are 1 weights, so tasks 0 to 0"):
        prorata.fluid([1], [(1, 0, 5)], [10])
    with pytest.raises(ValueError, match="a length of time in nanoseconds is a whole number from 1"):
        prorata.fluid([1], [(0, 0, 0)], [10])
    vtrr = next(policy for policy in prorata.policies() if policy.name == "vtrr")
    with pytest.raises(ValueError, match="vtrr schedules one cpu only"):
        vtrr.limits([1], cpus=2)
