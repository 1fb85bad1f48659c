from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, final

from prorata._policy import Policy
from prorata._types import Description, PathArgument

__all__ = [
    "BuiltPolicy",
    "Figure",
    "FigurePlan",
    "FigureReport",
    "Fluid",
    "InternalError",
    "Outcome",
    "PolicyInfo",
    "Setup",
    "Sweep",
    "SweepReport",
    "Table",
    "Workload",
    "build",
    "figures",
    "fluid",
    "ideal_rates",
    "policies",
    "simulate",
]

class InternalError(RuntimeError):
    """A mistake of prorata's own: please report it."""

@final
class Setup:
    """What a policy is built with."""

    def __new__(cls, cpus: int = 1, quantum_ns: int = 10_000_000, seed: int = 0) -> Setup: ...
    @property
    def cpus(self) -> int: ...
    @property
    def quantum_ns(self) -> int: ...
    @property
    def seed(self) -> int: ...

def build(
    spec: str, cpus: int = 1, quantum_ns: int = 10_000_000, seed: int = 0
) -> BuiltPolicy:
    """Build one of prorata's policies.

    `spec` is a name of `policies()`, with options as NAME:KEY=VALUE,… Every policy has
    sleepers=turns and sleepers=paper; those that are `by_weight` have sleepers=corrected, their
    default.
    """

@final
class BuiltPolicy:
    """A policy of prorata's: see `prorata.Policy` for its methods.

    A call that the contract does not allow raises ValueError, and the policy stays as it was.
    """

    @property
    def spec(self) -> str: ...
    @property
    def setup(self) -> Setup: ...
    def add(self, task: int, weight: int) -> None: ...
    def remove(self, task: int, now_ns: int) -> None: ...
    def set_weight(self, task: int, weight: int, now_ns: int) -> None: ...
    def wake(self, task: int, now_ns: int) -> None: ...
    def block(self, task: int, now_ns: int) -> None: ...
    def pick(self, cpu: int, now_ns: int) -> int | None: ...
    def charge(self, task: int, used_ns: int, now_ns: int) -> None: ...
    def interrupt(self, now_ns: int) -> int | None: ...
    def slice_ns(self, task: int) -> int | None: ...

def policies() -> list[PolicyInfo]:
    """Every policy."""

@final
class PolicyInfo:
    """What the registry knows of a policy."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def paper(self) -> str: ...
    @property
    def bound(self) -> str:
        """The bound on the service error, in words."""
    @property
    def cost(self) -> tuple[str, str, str]:
        """What pick, insert and remove cost."""
    @property
    def multiprocessor(self) -> bool: ...
    @property
    def work_conserving(self) -> bool: ...
    @property
    def by_weight(self) -> bool:
        """Whether it shares by weight, and not by lot: it has sleepers=corrected."""
    @property
    def options(self) -> dict[str, tuple[str, str]]:
        """The default and the meaning of each option of its own: all have sleepers, too."""
    def limits(
        self, weights: Sequence[int], cpus: int = 1
    ) -> list[tuple[Fraction | None, Fraction | None]]:
        """Return what the service error of each task is proven to stay within, in quanta.

        For tasks that are always runnable and run whole quanta; None where nothing is proven.
        """

@final
class Workload:
    """A machine and what runs on it."""

    def __new__(cls, description: Description) -> Workload:
        """Make a workload of what a workload file in TOML would say."""
    @staticmethod
    def from_toml(text: str) -> Workload: ...
    @staticmethod
    def read(path: PathArgument, *, ignore: Sequence[str] = ()) -> Workload:
        """Read a file: .toml, rt-app's .json (but for the keys to ignore), or a recording."""
    def replace(
        self,
        *,
        cpus: int | None = None,
        quantum: str | None = None,
        duration: str | None = None,
        seed: int | None = None,
    ) -> Workload:
        """Return the same workload with other numbers; lengths of time as "5ms"."""
    @property
    def cpus(self) -> int: ...
    @property
    def quantum_ns(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def tasks(self) -> list[str]:
        """The names of the tasks, by number."""
    @property
    def weights(self) -> list[int]:
        """The weights that the tasks arrive with, by number."""

def simulate(
    workload: Workload | Description | PathArgument,
    policy: str | Callable[[Setup], Policy] = "gr3",
    *,
    timeline: bool = False,
) -> Outcome:
    """Simulate a workload under a policy.

    The policy is one of prorata's by name, as `build` takes it; or what makes one of yours from a
    `Setup`, as its class does. An exception that your policy raises comes out of here.
    """

@final
class Outcome:
    """What a simulation found out. Times in nanoseconds, errors in quanta, shares in cpus.

    `print` shows the table of `prorata simulate`.
    """

    @property
    def policy(self) -> str: ...
    @property
    def cpus(self) -> int: ...
    @property
    def quantum_ns(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def decisions(self) -> int:
        """Times that a cpu asked the policy."""
    @property
    def error_min(self) -> float:
        """The furthest that any task was behind the ideal."""
    @property
    def error_max(self) -> float:
        """The furthest that any task was ahead of the ideal."""
    @property
    def tasks(self) -> Table: ...
    @property
    def groups(self) -> Table: ...
    @property
    def cgroups(self) -> Table: ...
    @property
    def timeline(self) -> Table:
        """Who ran where and when, if a timeline was kept."""
    def svg(self) -> str:
        """Return the timeline as a picture."""
    def to_dict(self) -> dict[str, Any]:
        """Return all of it, as `prorata simulate --format json` prints it."""

@final
class Table:
    """Columns of one length, in Arrow's layout.

    `polars.DataFrame`, `pyarrow.table` and `pandas.DataFrame.from_arrow` take it as it is and read
    the same memory.
    """

    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, column: str, /) -> list[Any]: ...
    def to_pydict(self) -> dict[str, list[Any]]: ...
    def to_pylist(self) -> list[dict[str, Any]]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def ideal_rates(weights: Sequence[int], cpus: int = 1) -> list[Fraction]:
    """Return what every task receives from the ideal machine if all are runnable, in cpus."""

def fluid(
    weights: Sequence[int],
    jobs: Sequence[tuple[int, int, int | None]],
    times_ns: Sequence[int],
    *,
    cpus: int = 1,
) -> Fluid:
    """Serve jobs as the ideal machine does: all tasks that have one at once, by weight.

    A job is (task, asked_ns, work_ns); without end if work_ns is None. At most one job of a task
    waits behind the one in service: another one is missed. Jobs that are asked for after the last of
    `times_ns` are not served.
    """

@final
class Fluid:
    @property
    def service(self) -> Table:
        """What each task has received at each of the times: time_ns, task, service_ns."""
    @property
    def jobs(self) -> Table:
        """The jobs by time: task, asked_ns, work_ns, done_ns, missed."""

def figures() -> list[Figure]:
    """Every figure of the papers."""

@final
class Figure:
    """What the registry knows of a figure."""

    def __new__(cls, name: str) -> Figure: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def sets(self) -> int:
        """How many random sets the paper ran at every point; 1 where there is no chance."""
    @property
    def remarks(self) -> str: ...

@final
class FigurePlan:
    """A figure's work, cut into chunks that can be done anywhere and in any order."""

    def __new__(
        cls, name: str, policies: Sequence[str] = (), sets: int | None = None, seed: int = 1
    ) -> FigurePlan: ...
    @property
    def figure(self) -> Figure: ...
    @property
    def chunks(self) -> int: ...
    @property
    def is_measurement(self) -> bool:
        """Whether it measures time, so that its results are of the machine that executes it."""
    def execute(self, chunk: int) -> bytes: ...
    def report(self, parts: Sequence[bytes]) -> FigureReport: ...

@final
class FigureReport:
    """A figure's data. A notebook shows the picture."""

    @property
    def figure(self) -> Figure: ...
    @property
    def sets(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def decisions(self) -> int: ...
    @property
    def rows(self) -> Table:
        """Coordinates, measures, and for some of these, as printed_…, what the paper prints."""
    def write(self, directory: PathArgument) -> None:
        """Write NAME.csv, NAME.json and NAME.svg."""
    def svg(self) -> str: ...
    def _repr_svg_(self) -> str: ...

@final
class Sweep:
    """A workload over a grid of its keys, policies and seeds."""

    def __new__(cls, description: Description) -> Sweep:
        """Make a sweep of what a sweep file would say, with the workload as a dict in it."""
    @staticmethod
    def from_toml(text: str) -> Sweep: ...
    @staticmethod
    def read(path: PathArgument) -> Sweep: ...
    @property
    def text(self) -> str:
        """All of it, for `from_toml`."""
    @property
    def runs(self) -> int: ...
    def execute(self, first: int, end: int) -> bytes: ...
    def report(self, parts: Sequence[bytes]) -> SweepReport: ...

@final
class SweepReport:
    """What came of a sweep. `print` shows means, intervals and differences."""

    @property
    def rows(self) -> Table:
        """One row a run."""
    @property
    def means(self) -> Table:
        """One row a point, measure and policy: the mean over seeds and its interval."""
    @property
    def differences(self) -> Table:
        """One row a point, measure and pair of policies."""
    def write(self, path: PathArgument) -> None:
        """Write the rows to a .csv or .parquet file, as `prorata sweep` does."""
