#!/bin/sh
# All tests, on two cores. While everything that a wheel carries is compiled, once, for all runs and
# for the test of the wheel, the tests marked nojit run as plain Python. Then Spark, which waits much,
# and two runs of all else, which share the test files between them (tests/shared_queue.py).
cd "$(dirname "$0")/.." || exit
python=.venv/bin/python
logs=$(mktemp -d)
running=
failed=0
# What runs in the background does not hear Ctrl-C.
trap 'kill $running 2>/dev/null; exit 1' INT TERM
trap 'rm -rf "$logs"' EXIT
# Hundreds of processes import the same modules: bytecode is made once, whoever is asked not to.
unset PYTHONDONTWRITEBYTECODE

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
TIDEGATE_TEST_QUEUE=$logs/taken
export TIDEGATE_TEST_QUEUE
mkdir "$TIDEGATE_TEST_QUEUE"
start second 3 -m "not spark"
second=$!
printf '\n== all else, the first of two runs\n'
nice -n 3 "$python" -m pytest -m "not spark" || failed=1
finish second $second
finish plain $plain
finish spark $spark
exit $failed
