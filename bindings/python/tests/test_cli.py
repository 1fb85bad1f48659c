"""What the command says, Python says too."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import prorata
import pytest
from conftest import ROOT


def command(*arguments: str | Path) -> str:
    """What `prorata` prints; `cargo xtask python` says where it is."""
    program = os.environ["PRORATA_CLI"]
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize("name", ["desktop-beside-a-build.toml", "cgroups.toml"])
@pytest.mark.parametrize("policy", ["gr3", "mfq:sleepers=paper"])
def test_simulations_are_the_same(name: str, policy: str) -> None:
    path = ROOT / "workloads" / name
    options = ["--policy", policy, "--duration", "500ms"]
    printed = json.loads(command("simulate", path, *options, "--format", "json"))
    outcome = prorata.simulate(prorata.Workload.read(path).replace(duration="500ms"), policy)
    assert outcome.to_dict() == printed


def test_sweeps_have_the_same_bytes(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        """
        policies = ["gr3", "lottery"]
        seeds = 3
        grid = { "task.hog.count" = [2, 4] }
        workload = { duration = "100ms", task = [{ name = "hog" }, { name = "other", weight = 2 }] }
        """
    )
    theirs, ours = tmp_path / "theirs.csv", tmp_path / "ours.csv"
    command("sweep", file, "--output", theirs)
    prorata.sweep(file).write(ours)
    assert ours.read_bytes() == theirs.read_bytes()
