"""Tables: what they hold, and that Arrow's users read the same memory."""

from __future__ import annotations

from typing import Any

import pandas
import polars
import prorata
import pyarrow
import pytest
from prorata import Outcome, Table


@pytest.fixture
def outcome(mixed: dict[str, Any]) -> Outcome:
    return prorata.simulate(mixed, "gr3", timeline=True)


def tables(outcome: Outcome) -> list[Table]:
    return [outcome.tasks, outcome.groups, outcome.timeline]


def test_every_reader_sees_the_same(outcome: Outcome) -> None:
    for table in tables(outcome):
        expected = table.to_pylist()
        assert len(table) == len(expected) > 0
        assert [list(row) for row in expected] == [table.columns] * len(expected)
        assert pyarrow.table(table).to_pylist() == expected
        assert polars.DataFrame(table).to_dicts() == expected
        assert table.to_pydict() == {name: table[name] for name in table.columns}


def test_pandas_takes_it(outcome: Outcome) -> None:
    # pandas 3 takes it itself; before, pyarrow hands it on.
    take = getattr(pandas.DataFrame, "from_arrow", lambda table: pyarrow.table(table).to_pandas())
    frame = take(outcome.tasks)
    assert list(frame["service_ns"]) == outcome.tasks["service_ns"]


def addresses(table: Table) -> dict[str, int]:
    """Where each column's values are, as pyarrow sees it."""
    columns = pyarrow.table(table)
    return {name: columns[name].chunk(0).buffers()[-1].address for name in columns.column_names}


def test_nothing_is_copied(outcome: Outcome) -> None:
    for table in tables(outcome):
        assert addresses(table) == addresses(table), "pyarrow reads the table's own memory"
    table = outcome.timeline
    frame = polars.DataFrame(table)
    for name in ["start_ns", "cpu"]:
        address = frame[name].to_arrow().buffers()[1].address
        assert address == addresses(table)[name], f"polars copies {name}"
    numbers = pyarrow.table(table)["start_ns"].chunk(0).to_numpy(zero_copy_only=True)
    assert numbers.ctypes.data == addresses(table)["start_ns"]


def test_a_reader_may_outlive_the_outcome(mixed: dict[str, Any]) -> None:
    frames = [pyarrow.table(prorata.simulate(mixed).tasks) for _ in range(50)]
    assert len({tuple(frame["service_ns"].to_pylist()) for frame in frames}) == 1


def test_what_is_not_there_is_told(mixed: dict[str, Any]) -> None:
    outcome = prorata.simulate(mixed)
    with pytest.raises(ValueError, match="simulate with timeline=True"):
        _ = outcome.timeline
    with pytest.raises(KeyError, match="no column is called 'x'; there are task, group"):
        outcome.tasks["x"]
    assert len(outcome.cgroups) == 0


def test_the_timeline_adds_up(outcome: Outcome) -> None:
    service = dict.fromkeys(outcome.tasks["task"], 0)
    for run in outcome.timeline.to_pylist():
        service[run["task"]] += run["end_ns"] - run["start_ns"]
    assert list(service.values()) == outcome.tasks["service_ns"]
    assert outcome.svg().startswith("<svg")
    assert "gr3 on 2 cpus" in str(outcome)
