"""The interface between a policy and whatever runs tasks."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Policy(Protocol):
    """A scheduling policy: prorata's own have these methods, and yours has them.

    Tasks and cpus are numbers from 0 on; times are nanoseconds and never go back. A task moves
    through four states, and no call is made that is not an arrow::

                  add             wake              pick
        (unknown) ---> blocked ----------> waiting -------> running
            ^             ^ ^                 | ^              |
            |    remove   | +-----block-------+ +----charge----+
            +-------------+--- (from blocked or waiting)

    A policy that inherits from this class is never interrupted by itself, and its runs are quanta,
    unless it says otherwise.
    """

    def add(self, task: int, weight: int) -> None:
        """A task appears, blocked."""

    def remove(self, task: int, now_ns: int) -> None:
        """A blocked or waiting task goes away. Its number may be added again."""

    def set_weight(self, task: int, weight: int, now_ns: int) -> None:
        """A task has another weight from now on, whatever its state."""

    def wake(self, task: int, now_ns: int) -> None:
        """A blocked task waits for a cpu from now on."""

    def block(self, task: int, now_ns: int) -> None:
        """A waiting task is blocked from now on."""

    def pick(self, cpu: int, now_ns: int) -> int | None:
        """Return the waiting task that runs next on `cpu`, or None if the cpu shall idle."""

    def charge(self, task: int, used_ns: int, now_ns: int) -> None:
        """A task has left its cpu after `used_ns`, at most a quantum; it is waiting."""

    def interrupt(self, now_ns: int) -> int | None:
        """Return a cpu that shall stop what it runs, so that a task that woke can have it.

        Asked when the idle cpus have picked, again and again until it returns None.
        """
        return None

    def slice_ns(self, task: int) -> int | None:
        """Return how long `task`, which was picked, may run; None for a quantum."""
        return None
