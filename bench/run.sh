#!/bin/sh
# What `prorata run` gives real commands on this machine, beside what it owes them.
# Wants a machine with nothing else to do and two cpus; takes three minutes.
# usage: bench/run.sh [SECONDS a case]
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-20}
cargo build --quiet --release
prorata=target/release/prorata
hog='sha256sum /dev/zero'
onoff='python3 bench/onoff.py'

# Ticks (10 ms) that the machine's cpus were not idle.
busy() { awk '/^cpu /{print $2+$3+$4+$7+$8+$9}' /proc/stat; }

measure() {
    title=$1
    cpus=$2
    shift 2
    before=$(busy)
    report=$("$prorata" run --quantum 10ms --duration "${seconds}s" --format json "$@")
    after=$(busy)
    printf '%s' "$report" | python3 bench/run_report.py "$title" "$cpus" $((after - before))
}

for backend in cgroup signal; do
    measure "5:2:1 on 1 cpu, $backend" 1 --backend $backend --cpus 1 5:"$hog" 2:"$hog" 1:"$hog"
    measure "1:1:1 on 2 cpus, $backend" 2 --backend $backend --cpus 2 1:"$hog" 1:"$hog" 1:"$hog"
    measure "3:2:1 on 2 cpus, $backend" 2 --backend $backend --cpus 2 3:"$hog" 2:"$hog" 1:"$hog"
    measure "5 hogs and 5 sleepers on 2 cpus, $backend" 2 --backend $backend --cpus 2 \
        1:"$hog" 2:"$hog" 3:"$hog" 4:"$hog" 5:"$hog" \
        1:"$onoff" 2:"$onoff" 3:"$onoff" 4:"$onoff" 5:"$onoff"
done
