#!/usr/bin/env python3
"""Alternates 5 ms of work (of its own CPU time) and 20 ms of sleep, for ever."""
import time

while True:
    start_ns = time.thread_time_ns()
    while time.thread_time_ns() - start_ns < 5_000_000:
        pass
    time.sleep(0.020)
