"""Workloads: from dicts, TOML and files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import prorata
import pytest
from conftest import ROOT
from prorata import Workload

TOML = """
duration = "300ms"
seed = 7
machine = { cpus = 2, quantum = "5ms", quanta = "asynchronous" }
[[task]]
name = "hog"
weight = 3
[[task]]
name = "nap"
count = 3
weight = 2
phases = [{ run = { uniform = ["1ms", "12ms"] } }, { sleep = "4ms" }]
[[task]]
name = "moody"
phases = [{ run = "8ms" }, { weight = 5 }, { run = "8ms" }, { weight = 1 }]
"""


def test_a_dict_says_what_toml_says(mixed: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "mixed.toml"
    path.write_text(TOML)
    workload = Workload(mixed)
    assert workload == Workload.from_toml(TOML) == Workload.read(path) == Workload.read(str(path))
    assert workload.tasks == ["hog", "nap/0", "nap/1", "nap/2", "moody"]
    assert workload.weights == [3, 2, 2, 2, 1]
    expected = prorata.simulate(workload).to_dict()
    descriptions: list[Any] = [mixed, path, str(path)]
    for same in descriptions:
        assert prorata.simulate(same).to_dict() == expected


def test_numbers_can_be_replaced(mixed: dict[str, Any]) -> None:
    workload = Workload(mixed).replace(cpus=4, quantum="1ms", duration="1s", seed=1)
    assert (workload.cpus, workload.quantum_ns) == (4, 1_000_000)
    assert (workload.duration_ns, workload.seed) == (1_000_000_000, 1)
    for wrong in [{"cpus": 0}, {"quantum": "1"}, {"duration": "0s"}, {"seed": -1}]:
        with pytest.raises(ValueError):
            workload.replace(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["recorded.perf-sched.txt", "audio-encoders.toml"])
def test_files_of_every_kind_are_read(name: str) -> None:
    workload = Workload.read(ROOT / "workloads" / name)
    assert len(workload.tasks) > 1
    assert prorata.simulate(workload.replace(duration="10ms")).decisions > 0


def test_keys_of_rt_app_can_be_left_out() -> None:
    path = ROOT / "workloads" / "rt-app" / "mp3-short.json"
    with pytest.raises(ValueError, match="tasks.AudioTick.cpus: cannot be expressed"):
        Workload.read(path)
    assert "AudioTick" in Workload.read(path, ignore=["cpus"]).tasks


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": []}, "there is no task"),
        ({"task": [{"weight": 0}]}, "task[0].weight: 0 is no weight: weights go from 1 to"),
        ({"task": [{"weigth": 1}]}, "unknown field `weigth`"),
        ({"task": [{"name": None}]}, "task[0].name: invalid type: unit value"),
        ({"task": [{"phases": [{"run": "5 parsecs"}]}]}, "'5 parsecs' is no length of time"),
        ({"machine": {"cpus": 1, "quantum": "0ms"}}, "machine: a quantum takes time: make it at least 1ns"),
        ({"duration": 5}, "duration: invalid type: integer `5`, expected a length of time in quotes"),
        ({"seed": 2**64}, "seed"),
        ({1: 2}, "'int' object is not an instance of 'str'"),
    ],
)
def test_what_is_wrong_is_named(
    mixed: dict[str, Any], change: dict[Any, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        Workload({**mixed, **change})


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Workload.read(tmp_path / "none.toml")
    path = tmp_path / "x.toml"
    path.write_text("task = 1")
    with pytest.raises(ValueError, match=re.escape(str(path))):
        prorata.simulate(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is no text"):
        prorata.simulate(path)
    wrong: Any = 5
    with pytest.raises(TypeError, match="a workload is a Workload, a dict, or the path of a file"):
        prorata.simulate(wrong)
