"""Proportional-share CPU scheduling: policies with proven bounds, and a deterministic simulator.

>>> import prorata
>>> workload = prorata.Workload({"duration": "1s", "task": [{"weight": 3}, {"weight": 1}]})
>>> prorata.simulate(workload, "gr3").tasks["service_ns"]
[750000000, 250000000]
"""

from prorata._native import (
    BuiltPolicy,
    Figure,
    FigurePlan,
    FigureReport,
    Fluid,
    InternalError,
    Outcome,
    PolicyInfo,
    Setup,
    Sweep,
    SweepReport,
    Table,
    Workload,
    build,
    figures,
    fluid,
    ideal_rates,
    policies,
    simulate,
)
from prorata._policy import Policy
from prorata._spread import figure, sweep

__all__ = [
    "BuiltPolicy",
    "Figure",
    "FigurePlan",
    "FigureReport",
    "Fluid",
    "InternalError",
    "Outcome",
    "Policy",
    "PolicyInfo",
    "Setup",
    "Sweep",
    "SweepReport",
    "Table",
    "Workload",
    "build",
    "figure",
    "figures",
    "fluid",
    "ideal_rates",
    "policies",
    "simulate",
    "sweep",
]
