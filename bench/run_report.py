#!/usr/bin/env python3
"""One case of bench/run.sh: prorata's JSON report on stdin, a short table on stdout."""
import json
import sys

title, cpus, busy_ticks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
report = json.load(sys.stdin)
tasks, duration_s = report["tasks"], report["duration_s"]
overhead_percent = 100 * report["overhead_cpu_s"] / duration_s
idle_percent = 100 - busy_ticks / (cpus * duration_s)
hogs = [t for t in tasks if t["command"].startswith("sha256sum")]
sleepers = len(tasks) > len(hogs)
cpu_s, weight = sum(t["cpu_s"] for t in hogs), sum(t["weight"] for t in hogs)

print(f"{title}: own use {overhead_percent:.2f} % of a core, machine idle {idle_percent:.2f} %")
for t in hogs:
    # Sleepers leave what they do not use; then only the hogs' proportion is theirs to keep.
    entitled = t["weight"] / weight if sleepers else t["entitled_share"]
    received = t["cpu_s"] / cpu_s if sleepers else t["received_share"]
    off_percent = 100 * (received / entitled - 1)
    print(
        f"  weight {t['weight']}: {t['cpu_s']:8.4f} s, {off_percent:+.3f} % of its due,"
        f" error {t['error_min_quanta']:+.2f}..{t['error_max_quanta']:+.2f} quanta"
    )
