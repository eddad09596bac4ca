#!/bin/sh
# All tests, on two cores. While everything that a wheel carries is compiled, once, for all runs and
# for the test of the wheel, the tests marked nojit run as plain Python. Then three runs join it:
# Spark, which waits much; joins under a budget; all else, which takes longest.
cd "$(dirname "$0")/.." || exit
python=.venv/bin/python
budgets="tests/test_contracts.py tests/test_cli.py tests/test_extreme_worth.py tests/test_hunt.py
    tests/test_interrupts.py tests/test_policies.py tests/test_policies_sketch.py
    tests/test_policies_split.py tests/test_policies_tiers.py tests/test_pool.py
    tests/test_reproduce.py tests/test_resize.py tests/test_search.py
    tests/test_snapshot_checks.py"
others=
for file in $budgets; do
    others="$others --ignore=$file"
done
logs=$(mktemp -d)
running=
failed=0
# What runs in the background does not hear Ctrl-C.
trap 'kill $running 2>/dev/null; exit 1' INT TERM
trap 'rm -rf "$logs"' EXIT

# start NAME NICENESS WORDS: pytest in the background, with a log of its own.
start() {
    log=$logs/$1
    nice=$2
    shift 2
    nice -n "$nice" "$python" -m pytest "$@" >"$log" 2>&1 &
    running="$running $!"
}

# finish NAME PROCESS: what it said, when it has ended.
finish() {
    wait "$2" || failed=1
    printf '\n== %s\n' "$1"
    cat "$logs/$1"
}

printf '== compiling, and plain Python beside it\n'
export NUMBA_DISABLE_JIT=1
start plain 5 -m nojit tests
unset NUMBA_DISABLE_JIT
plain=$!
$python scripts/wheel.py || { kill $running 2>/dev/null; exit 1; }
TIDEGATE_CACHE=$PWD/build/compiled
export TIDEGATE_CACHE
start spark 0 -m spark tests/spark
spark=$!
start budgets 5 -m "not spark" $budgets
budgets=$!
printf '\n== without a budget, while the others run\n'
"$python" -m pytest -m "not spark" $others || failed=1
finish plain $plain
finish budgets $budgets
finish spark $spark
exit $failed
