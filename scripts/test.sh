#!/bin/sh
# All tests. Two runs side by side, one for each core: what needs a budget's code from its first
# test on in one, all else in the other. Before them all that a wheel carries is compiled, once, for
# all runs and for the test of the wheel. Tests marked nojit run a second time as plain Python. Those
# that start a JVM come last and alone, since they watch the clock.
cd "$(dirname "$0")/.." || exit
python=.venv/bin/python
budgets="tests/test_contracts.py tests/test_cli.py tests/test_extreme_worth.py tests/test_hunt.py
    tests/test_interrupts.py tests/test_policies.py tests/test_policies_sketch.py
    tests/test_policies_split.py tests/test_policies_tiers.py tests/test_reproduce.py
    tests/test_snapshot_checks.py"
beside=$(mktemp)
printf '== compiling\n'
$python scripts/wheel.py || exit
TIDEGATE_CACHE=$PWD/build/compiled
export TIDEGATE_CACHE
trap 'rm -f "$beside"' EXIT

others=
for file in $budgets; do
    others="$others --ignore=$file"
done
$python -m pytest -m "not spark" $budgets >"$beside" 2>&1 &
under_budgets=$!
$python -m pytest -m "not spark" $others
compiled=$?
printf '\n== as plain Python\n'
NUMBA_DISABLE_JIT=1 $python -m pytest -m nojit tests
interpreted=$?
wait $under_budgets
limited=$?
printf '\n== under a budget\n'
cat "$beside"
printf '\n== on Spark\n'
$python -m pytest -m spark tests
spark=$?
[ "$compiled$interpreted$limited$spark" = 0000 ]
