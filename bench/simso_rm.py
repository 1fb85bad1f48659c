"""Decisions per second of SimSo (PyPI) on periodic tasks, for bench/simso.sh.

Forty periodic tasks on four cpus under rate monotonic, its simplest policy; the same periods and
execution times as bench/simso.toml. Prints how often the policy was asked, and the seconds of
processor time that the simulation took.
"""

import io
import sys
import time
from contextlib import redirect_stdout

from simso.configuration import Configuration
from simso.core import Model

TASKS, CPUS, MILLISECONDS = 40, 4, 2_000


def main():
    configuration = Configuration()
    configuration.duration = MILLISECONDS * configuration.cycles_per_ms
    for number in range(TASKS):
        configuration.add_task(
            name=f"task {number}",
            identifier=number + 1,
            period=20 + number,
            activation_date=0,
            wcet=2 + number % 3,
            deadline=20 + number,
        )
    for number in range(CPUS):
        configuration.add_processor(name=f"cpu {number}", identifier=number + 1)
    configuration.scheduler_info.clas = "simso.schedulers.RM"
    configuration.check_all()
    model = Model(configuration)
    decisions = 0
    schedule = model.scheduler.schedule

    def counted(cpu):
        nonlocal decisions
        decisions += 1
        return schedule(cpu)

    model.scheduler.schedule = counted
    begin = time.process_time()
    with redirect_stdout(io.StringIO()):
        model.run_model()
    print(decisions, time.process_time() - begin)


if __name__ == "__main__":
    sys.exit(main())
