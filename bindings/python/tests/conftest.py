"""What several tests use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import prorata
import pytest

ROOT = Path(__file__).resolve().parents[3]


# What each policy can do with tasks that sleep.
SLEEPERS = [
    (policy.name, sleepers)
    for policy in prorata.policies()
    for sleepers in ("paper", "turns", "corrected")
    if sleepers != "corrected" or policy.by_weight
]


@pytest.fixture
def mixed() -> dict[str, Any]:
    """Two cpus, a hog, three tasks that sleep, and one whose weight changes."""
    return {
        "duration": "300ms",
        "seed": 7,
        "machine": {"cpus": 2, "quantum": "5ms", "quanta": "asynchronous"},
        "task": [
            {"name": "hog", "weight": 3},
            {
                "name": "nap",
                "count": 3,
                "weight": 2,
                "phases": [{"run": {"uniform": ["1ms", "12ms"]}}, {"sleep": "4ms"}],
            },
            {"name": "moody", "phases": [{"run": "8ms"}, {"weight": 5}, {"run": "8ms"}, {"weight": 1}]},
        ],
    }
