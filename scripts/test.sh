#!/bin/sh
# All tests. Those marked nojit also run as plain Python, beside the compiled ones; tests that start
# a JVM come last and alone, since they watch the clock.
cd "$(dirname "$0")/.." || exit
python=.venv/bin/python
plain=$(mktemp)
trap 'rm -f "$plain"' EXIT

NUMBA_DISABLE_JIT=1 $python -m pytest -m nojit tests >"$plain" 2>&1 &
beside=$!
$python -m pytest -m "not spark"
compiled=$?
wait $beside
interpreted=$?
printf '\n== as plain Python\n'
cat "$plain"
printf '\n== on Spark\n'
$python -m pytest -m spark tests
spark=$?
[ "$compiled$interpreted$spark" = 000 ]
