"""What is not known of more than two streams is refused, and what is easy to know is given."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from many_cases import many_case, names_of
from many_runs import Feeder, replayed

import tidegate as tg
from tidegate.engine.counting import count_results
from tidegate.offline.bound import upper_bound

TABLES = {name: pa.table({"t": [at, at + 1], "k": [1, 1]}) for at, name in enumerate(names_of(3))}
SPEC = tg.JoinSpec(on="k", time="t", within=9, streams=names_of(3), memory=3, split="even")


@pytest.mark.parametrize("ask", [tg.optimum, tg.regret])
def test_the_optimum_is_refused(ask: Any) -> None:
    with pytest.raises(tg.TidegateError, match="known for two, and for more the exact join"):
        ask(TABLES, SPEC)


def test_the_exact_result_bounds_every_policy() -> None:
    assert upper_bound(TABLES, SPEC, "size") == upper_bound(TABLES, SPEC) == 8.0
    assert tg.join(TABLES, SPEC).stats["rows_out"] < 8


@pytest.mark.parametrize("policy", ["value", "arrival-order", "dgl"])
def test_counting_results_changes_nothing_else(policy: str) -> None:
    """Many results of few keys, under a budget: the same numbers, and no results."""
    case = many_case(3, 3, rows=40, within=9, ties="arrival", lateness=0, memory=30)
    spec = case.spec.replace(policy=policy)
    feeder = Feeder(spec)
    pushes = [feeder.tables(push) for push in case.pushes]
    whole = {
        name: pa.concat_tables([push[name] for push in pushes if name in push])
        for name in spec.streams
    }
    assert count_results(whole, spec) == pytest.approx(tg.join(whole, spec).stats)
    assert replayed(case)[1]
