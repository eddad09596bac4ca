"""`policy="arrival-order"` in the engine: EP of kwon2011, victim by victim as `naive_patterns`."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from many_cases import ManyCase, many_case, names_of
from many_runs import Reporting, check_victims
from naive_patterns import ArrivalOrder
from strategies import only_plain
from tries import examples

import tidegate as tg
from tidegate.estimators import patterns
from tidegate.lab.kwon2011_example import BEFORE, FIGURE_4
from tidegate.lab.kwon2011_space import space_bytes
from tidegate.state import shed_arrays

SEEDS = st.integers(0, 2**32)
FADES = st.sampled_from([None, 2, 3, 1024])
ROWS = {2: 20, 3: 10, 4: 6, 5: 4}


def ordered_case(seed: int, streams: int, fade: int | None, **options: Any) -> ManyCase:
    case = many_case(seed, streams, rows=ROWS[streams], budget=True, **options)
    return ManyCase(case.spec.replace(policy=tg.arrival_order(fade=fade)), case.pushes)


@pytest.mark.nojit
@pytest.mark.parametrize("ties", ["arrival", pytest.param("instant", marks=only_plain)])
@settings(deadline=None, max_examples=examples(2 / 3))
@given(seed=SEEDS, streams=st.integers(2, 5), fade=FADES)
def test_victims_are_those_of_the_twin(ties: Any, seed: int, streams: int, fade: Any) -> None:
    case = ordered_case(seed, streams, fade, ties=ties)
    check_victims(case, ArrivalOrder(streams, fade))


@settings(deadline=None, max_examples=examples(1 / 3))
@given(seed=SEEDS, streams=st.integers(2, 4), fade=FADES)
def test_snapshots_keep_the_victims(seed: int, streams: int, fade: Any) -> None:
    check_victims(ordered_case(seed, streams, fade), ArrivalOrder(streams, fade), Random(seed))


@pytest.mark.nojit
@only_plain
@settings(deadline=None, max_examples=examples(1 / 5))
@given(seed=SEEDS, ties=st.sampled_from(["arrival", "instant"]))
@pytest.mark.parametrize("index", ["btree", "nested-loop"])
def test_other_indexes_know_the_patterns_too(index: str, seed: int, ties: Any) -> None:
    check_victims(ordered_case(seed, 2, 3, ties=ties, index=index), ArrivalOrder(2, 3))


def test_longer_streams() -> None:
    for seed in range(6):
        options = {"memory": 30, "split": "even", "within": 3, "ties": "arrival"}
        case = many_case(seed, 3, rows=150, budget=True, **options)
        case = ManyCase(case.spec.replace(policy="arrival-order"), case.pushes)
        assert len(check_victims(case, ArrivalOrder(3)).victims) > 50


# --- the example of section 3.3 ----------------------------------------------------------


class Routers:
    """The packets of Fig. 4 and before, through the engine."""

    def __init__(self) -> None:
        spec = tg.JoinSpec(
            on="pid", time="ts", within=1000, streams=names_of(3), memory=12, split="even",
            policy=tg.arrival_order(fade=None),
        )  # fmt: skip
        columns = pa.schema({"ts": pa.int64(), "pid": pa.int64(), "row": pa.int64()})
        self.engine = Reporting(spec, dict.fromkeys(names_of(3), columns))
        self.names = ["before"]
        self.clock = 0
        for packet, path in enumerate(BEFORE):
            for router in path:
                self.send(router, 1000 + packet)
        self.clock += 2000
        for name, router, pid in FIGURE_4:
            self.send(router, pid, name)

    def send(self, router: int, pid: int, name: str = "before") -> list[str]:
        """Returns the names of those that had to go."""
        gone = len(self.engine.victims)
        self.clock += 1
        self.names.append(name)
        row = len(self.names) - 1
        table = pa.table({"ts": [self.clock], "pid": [pid], "row": [row]})
        self.engine.push({f"s{router}": table})
        return [self.names[row] for _, row, _ in self.engine.victims[gone:]]


def test_case_1_drops_t4_and_then_t3() -> None:
    routers = Routers()
    assert routers.send(1, 6) == ["t4"]
    assert routers.send(1, 7) == ["t3"]


def test_case_2_drops_t5() -> None:
    assert Routers().send(2, 6) == ["t5"]


# --- parameters and space ----------------------------------------------------------------


def test_fade_is_checked() -> None:
    assert (
        tg.arrival_order()
        == tg.JoinSpec(on="k", time="t", within=1, policy="arrival-order").policy_choice
    )
    assert tg.arrival_order(fade=None) != tg.arrival_order()
    for bad in (1, -3, 2.5):
        with pytest.raises(tg.SpecError, match="fade"):
            tg.arrival_order(fade=bad)  # type: ignore[arg-type]


def held_by(streams: int, policy: str, tables: dict[str, pa.Table], memory: Any) -> int:
    """Bytes of all that a policy knows."""
    engine = tg.JoinEngine(
        tg.JoinSpec(
            on="k", time="t", within=9, streams=names_of(streams), memory=memory, policy=policy,
            split="even",
        )
    )  # fmt: skip
    engine.push(tables)
    assert engine._shed is not None
    return shed_arrays.nbytes(engine._shed)


@pytest.mark.parametrize("streams", [3, 5])
def test_tables_take_the_space_of_formula_1_times_a_constant(streams: int) -> None:
    """Formula (1) counts 10 bytes for each entry of a table; here they are 24 for r, n and the
    halvings, 24 for the group, and 20 per pattern. All patterns occur."""
    keys = [key for key in range(2**streams) for _ in range(3)]
    tables = {
        name: pa.table({"t": range(len(keys)), "k": [k if k >> at & 1 else -k for k in keys]})
        for at, name in enumerate(names_of(streams))
    }
    held = [
        held_by(streams, policy, tables, 50 * streams) for policy in ("arrival-order", "random")
    ]
    entries = space_bytes(streams, 0, 0) // 10
    members = 50 * streams * 40  # groups link their members
    assert 24 * entries < held[0] - held[1] < 60 * entries + members + 2000


def test_only_patterns_that_were_seen_take_space() -> None:
    """With 16 streams 32,768 patterns can occur on each, which would be 26 MB."""
    tables = {name: pa.table({"t": [at], "k": [1]}) for at, name in enumerate(names_of(16))}
    for memory in (160, "2 MB"):
        ours, base = (held_by(16, policy, tables, memory) for policy in ("arrival-order", "random"))
        assert ours - base < 150_000  # of which 65,536 say which pattern has a row


@pytest.mark.nojit
@pytest.mark.parametrize("ties", ["arrival", pytest.param("instant", marks=only_plain)])
@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, streams=st.integers(3, 4), most=st.integers(2, 5), restarts=st.booleans())
def test_patterns_without_a_row_share_one(
    ties: Any, seed: int, streams: int, most: int, restarts: bool
) -> None:
    """So many rows, with that which is shared; tables grow from two."""
    options = {"within": 1 + seed % 7, "memory": streams * 2, "split": "even", "ties": ties}
    case = ordered_case(seed, streams, 3, **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shed_arrays, "most_patterns", lambda spec: most)
        patched.setattr(patterns, "FIRST", 2)
        twin = ArrivalOrder(streams, 3, most=most - 1)
        check_victims(case, twin, Random(seed) if restarts else None)
