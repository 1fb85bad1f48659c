#!/bin/sh
# Decisions per second of processor time beside SimSo's, on forty periodic tasks that both can run.
# Needs Python 3 and pip; installs SimSo 0.8.5 into a virtual environment under target/.
set -eu
cd "$(dirname "$0")/.."
environment=target/simso
if [ ! -x "$environment/bin/python" ]; then
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet simso==0.8.5
fi
theirs=$("$environment/bin/python" bench/simso_rm.py)
ours=$(cargo bench --quiet -p prorata-sim --bench engine -- "bench/simso_rm.py" | grep decisions)
echo "$ours"
echo "$theirs $ours" | awk '{
    for (i = 3; i <= NF; i++) if ($i == "M") prorata = $(i - 1) * 1e6
    simso = $1 / $2
    printf "SimSo 0.8.5, RM: %d decisions in %.3f s of a processor, %.0f a second\n", $1, $2, simso
    printf "prorata, gr3:    %.0f decisions a second, %.0f times as many\n", prorata, prorata / simso
}'
