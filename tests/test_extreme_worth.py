"""Importances at the ends of what a float holds: worth is infinite, zero or denormal.

Law: whoever has the smallest (priority, basis, order) goes, infinite priorities included; so
victims are those of the slow twin, and nothing depends on when a queue was built: a restored engine
goes on as the one that was saved. VALUE used to run for ever on such streams, so it is run in a
process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from contracts import Case, Push, check_conservation
from test_policies import check_victims

import tidegate as tg

ROOT = Path(__file__).parent.parent
LARGEST = (1.7e308, 1.6e308, 1e308)
EXTREMES: list[tuple[float, ...]] = [
    (1.7e308, 1.0), LARGEST, (1.7e308, 1e-300, 5e-324), (5e-324, 1e-320, 1e-310)
]  # fmt: skip
SEEDS = range(16, 28)  # each of the extremes three times
SOME = range(16, 20)  # once
HANGS = 300  # seconds; these take a few

POLICIES: dict[str, Any] = {
    **{name: name for name in tg.policies() if name != "auto"},  # which is "value"
    "dgl, powers of two": tg.dgl(decay=0.5, gain=0.25),
    "additive": tg.priority("additive", alpha=2.0),
    "multiplicative": tg.priority("multiplicative", alpha=2.0, beta=2.0),
    "cumulative": tg.priority("cumulative"),
    "value, given ages": tg.value(curve=[1.0, 0.0, 3.0, 0.0], bucket=5),
}
ALONE = ("value", "value, given ages")


def extreme_case(policy: Any, seed: int) -> Case:
    """Some hundred tuples of four keys, in pushes of a few."""
    random = Random(seed)
    weights = EXTREMES[seed % len(EXTREMES)]
    count, step = random.choice((60, 200)), random.choice((7, 23))
    tables = {
        name: pa.table(
            {
                f"row_{name}": range(count),
                "ts": sorted(random.randint(0, count) for _ in range(count)),
                "k": [random.randint(0, 3) for _ in range(count)],
                "w": [random.choice(weights) for _ in range(count)],
            }
        )
        for name in ("left", "right")
    }
    spec = tg.JoinSpec(
        on="k", time="ts", importance="w", policy=policy,
        within=random.choice((10, 40) if policy == POLICIES["value, given ages"] else WINDOWS),
        memory=random.choice((4, 10, 20)),
        output_importance=random.choice(("min", "max", "sum", "product", "mean")),
        split=random.choice(("even", "shared", "auto")),
    )  # fmt: skip
    pushes = [{n: t.slice(at, step) for n, t in tables.items()} for at in range(0, count, step)]
    return Case(spec, tuple(Push(push) for push in pushes))


WINDOWS = (10, 40, tg.rows(20))


def check_restored(policy: Any, seed: int) -> None:
    """An engine that is saved and restored after every push gives what another one gives."""
    case = extreme_case(policy, seed)
    through, again = tg.JoinEngine(case.spec), tg.JoinEngine(case.spec)
    for push in case.pushes:
        same = again.push(push.tables).equals(through.push(push.tables))
        assert same, f"the results of case {seed} differ"
        assert again.stats()["memory_rows"] <= case.spec.memory
        again = tg.JoinEngine.restore(again.snapshot())
    check_conservation(again.stats(), case.spec.streams)


@pytest.mark.parametrize("name", sorted(set(POLICIES) - set(ALONE)))
def test_a_restored_engine_goes_on_as_before(name: str) -> None:
    for seed in SOME:
        check_restored(POLICIES[name], seed)


def test_value_ends_and_goes_on_as_before() -> None:
    code = "import sys; sys.path[:0] = ['tests']; import test_extreme_worth as here\n"
    code += "for name in here.ALONE:\n"
    code += "    for seed in here.SEEDS: here.check_restored(here.POLICIES[name], seed)"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=HANGS,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]


@pytest.mark.parametrize("name", ["simp", "simpprob", "dimpprob", "additive"])
def test_victims_are_those_of_the_slow_twin(name: str) -> None:
    for seed in SEEDS:
        check_victims(extreme_case(POLICIES[name], seed))
