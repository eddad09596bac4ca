"""EP as kwon2011 has it: the examples of its section 3 to the digit, its tables, and fading."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from many_cases import many_case, names_of
from naive import Arrival
from naive_many import ManyJoin, Push, Shedding, definition
from naive_many_policies import Frequency, Output
from naive_patterns import ArrivalOrder, Entry

import tidegate as tg
from tidegate.lab.kwon2011_example import BEFORE, FIGURE_4
from tidegate.lab.kwon2011_space import space_bytes, value_based_space_bytes

# Fig. 3: (r, n) by stream and pattern.
FIGURE_3 = (
    {"100": (8, 10), "101": (6, 10), "110": (8, 20), "111": (10, 10)},
    {"010": (12, 30), "011": (8, 10), "110": (2, 20), "111": (7, 7)},
    {"001": (8, 10), "011": (4, 10), "101": (1, 10), "111": (5, 5)},
)


def test_priorities_of_figure_3() -> None:
    policy = ArrivalOrder(3)
    for stream, table in enumerate(FIGURE_3):
        policy.tables[stream] = {e: Entry([], r, n) for e, (r, n) in table.items()}
    found = [[policy.priority(stream, e) for e in table] for stream, table in enumerate(FIGURE_3)]
    assert found == [[0.8, 0.6, 0.4, 0.0], [0.4, 0.8, 0.1, 0.0], [0.8, 0.4, 0.1, 0.0]]


def test_figure_3_is_no_state_of_the_algorithm() -> None:
    """Erratum: every result adds one to each stream's table, so all sums of r must be equal."""
    assert [sum(r for r, _ in table.values()) for table in FIGURE_3] == [32, 29, 18]


# --- the example of section 3.3 ----------------------------------------------------------

PATTERNS = {
    "t1": "100", "t2": "100", "t3": "110", "t4": "111",
    "t5": "010", "t6": "110", "t7": "011", "t8": "110", "t9": "001",
}  # fmt: skip


class Routers:
    """A 3-way join on pid with memory for four tuples of each stream; a window of 1000."""

    def __init__(self, policy: Shedding) -> None:
        spec = tg.JoinSpec(
            on="pid", time="ts", within=1000, streams=names_of(3), memory=12, split="even",
            policy="recent",
        )  # fmt: skip
        self.join = ManyJoin(spec, policy)
        self.names: dict[tuple[int, int], str] = {}
        self.clock = 0
        self.results = 0
        for packet, path in enumerate(BEFORE):
            for router in path:
                self.send(router, 1000 + packet)
        self.clock += 2000  # all of these have expired
        for name, router, pid in FIGURE_4:
            self.send(router, pid, name)

    def send(self, router: int, pid: int, name: str = "new") -> list[str]:
        """Returns the names of those that had to go."""
        before = len(self.join.victims)
        row = self.join.intake.counts["rows_in", router - 1]
        self.names[router - 1, row] = name
        self.clock += 1
        self.results += len(self.join.push({f"s{router}": [{"ts": self.clock, "pid": pid}]}))
        return [self.names[stream, row] for stream, row, _ in self.join.victims[before:]]

    def retained(self, router: int) -> dict[str, Arrival]:
        here = [x for x in self.join.alive if x.stream == router - 1]
        return {self.names[x.stream, x.row]: x for x in here}


def test_the_example_has_the_patterns_of_the_text() -> None:
    policy = ArrivalOrder(3, fade=None)
    routers = Routers(policy)
    here = routers.retained(1) | routers.retained(2) | routers.retained(3)
    assert len(here) == 12
    assert {name: policy.pattern_of[here[name].taken] for name in PATTERNS} == PATTERNS
    assert routers.results == 9  # eight packets before, and pid 5
    # Results per tuple of each pattern, by hand: 4 of 4 packets that came to R1 first, ...
    assert policy.priority(0, "100") == pytest.approx(4 / 6)
    assert policy.priority(0, "110") == 0 / 5
    assert policy.priority(1, "010") == 0 / 5
    assert policy.priority(1, "110") == pytest.approx(4 / 6)
    assert policy.priority(1, "011") == pytest.approx(5 / 5)


@pytest.mark.parametrize("fade", [None, 1024])
def test_case_1_drops_t4_and_then_t3(fade: int | None) -> None:
    routers = Routers(ArrivalOrder(3, fade))
    assert routers.send(1, 6) == ["t4"]
    assert routers.send(1, 7) == ["t3"]


@pytest.mark.parametrize("fade", [None, 1024])
def test_case_2_drops_t5(fade: int | None) -> None:
    assert Routers(ArrivalOrder(3, fade)).send(2, 6) == ["t5"]


@pytest.mark.parametrize("policy", [Frequency("retained"), Frequency("retained", "sum"), Output()])
def test_value_based_policies_value_t4_most_and_the_others_alike(policy: Any) -> None:
    routers = Routers(policy)
    ranks = {
        name: policy.rank(routers.join, x)[0]
        for router in (1, 2)
        for name, x in routers.retained(router).items()
    }
    assert ranks["t1"] == ranks["t2"] == ranks["t3"] < ranks["t4"]
    assert ranks["t5"] == ranks["t6"] == ranks["t8"] < ranks["t7"]


# --- the tables --------------------------------------------------------------------------


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), streams=st.integers(2, 5), fade=st.sampled_from((None, 3, 8)))
def test_tables_and_victims_follow_the_definitions(
    seed: int, streams: int, fade: int | None
) -> None:
    case = many_case(seed, streams, rows=12 if streams < 4 else 7, budget=True)
    policy = Recounting(streams, fade)
    join = ManyJoin(case.spec, policy)
    results = [result for push in case.pushes for result in join.push(*push)]
    assert not Counter(results) - Counter(definition(case.spec, case.pushes))
    for stream, table in enumerate(policy.tables):
        kept = sorted(x.taken for entry in table.values() for x in entry.retained)
        assert kept == [x.taken for x in join.alive if x.stream == stream]
        if fade is None:
            assert sum(entry.results for entry in table.values()) == len(results)
        else:
            assert all(entry.admitted < fade for entry in table.values())
    causes = Counter(cause for _, _, cause in join.victims)
    assert causes["refused"] == 0 or any(join.capacity(s) == 0 for s in range(streams))


class Recounting(ArrivalOrder):
    """Checks each victim against the minimum over all tuples, and r and n against their lists."""

    def __init__(self, streams: int, fade: int | None) -> None:
        super().__init__(streams, fade)
        self.evidence: dict[tuple[int, str], list[int]] = {}  # results of each tuple, as admitted
        self.place: dict[int, int] = {}

    def produced(self, join: ManyJoin, combinations: Any) -> None:
        super().produced(join, combinations)
        for x in (x for combination in combinations for x in combination):
            if x.taken in self.place:
                key = x.stream, self.pattern_of[x.taken]
                self.evidence[key][self.place[x.taken]] += 1

    def admitted(self, join: ManyJoin, arrival: Arrival) -> None:
        super().admitted(join, arrival)
        tuples = self.evidence.setdefault((arrival.stream, self.pattern_of[arrival.taken]), [])
        self.place[arrival.taken] = len(tuples)
        tuples.append(0)

    def victim(self, join: ManyJoin, pool: list[Arrival], arrival: Arrival) -> Arrival:
        chosen = super().victim(join, pool, arrival)
        assert chosen is min(pool, key=lambda x: self.rank(join, x))
        for x in pool:
            pattern = self.pattern_of[x.taken]
            if pattern != self.complete:
                tuples = self.evidence[x.stream, pattern]
                weights = weights_of(len(tuples), self.fade)
                expected = sum(w * r for w, r in zip(weights, tuples, strict=True)) / sum(weights)
                assert self.priority(x.stream, pattern) == pytest.approx(expected, abs=1e-12)
        return chosen


def weights_of(count: int, fade: int | None) -> list[float]:
    """What each of so many tuples of a pattern counts for: halved when their sum reaches fade."""
    weights: list[float] = []
    for _ in range(count):
        weights.append(1.0)
        if fade is not None and sum(weights) >= fade:
            weights = [weight / 2 for weight in weights]
    return weights


def test_old_evidence_fades() -> None:
    """Two streams of packets: at first those that come to s1 first complete, then none does."""

    def priority_after(fade: int | None) -> float:
        policy = ArrivalOrder(2, fade)
        spec = tg.JoinSpec(on="k", time="ts", within=9, streams=names_of(2), memory=20)
        join = ManyJoin(spec.replace(split="even", policy="recent"), policy)
        for key in range(400):
            join.push({"s1": [{"ts": 10 * key, "k": key}]})
            if key < 200:
                join.push({"s2": [{"ts": 10 * key + 1, "k": key}]})
        return policy.priority(0, "10")

    assert priority_after(None) == 0.5
    assert priority_after(16) < 1e-6


def test_equal_keys_of_an_instant_are_complete_together() -> None:
    policy = ArrivalOrder(3)
    spec = tg.JoinSpec(on="k", time="ts", within=9, streams=names_of(3), ties="instant")
    join = ManyJoin(spec, policy)
    join.push({"s1": [{"ts": 1, "k": 1}]})
    join.push({name: [{"ts": 2, "k": 1}] for name in ("s2", "s3")})
    assert [policy.pattern_of[x.taken] for x in join.alive] == ["100", "111", "111"]


def test_a_null_key_goes_first() -> None:
    policy = ArrivalOrder(2)
    spec = tg.JoinSpec(on="k", time="ts", within=9, streams=names_of(2), memory=4, split="even")
    join = ManyJoin(spec, policy)
    keys = (1, None, 2)
    join.push({"s1": [{"ts": time, "k": key} for time, key in enumerate(keys)]})
    assert join.victims == [(0, 1, "evicted")]


def test_formulas_1_and_2_give_the_numbers_of_section_4() -> None:
    assert space_bytes(5, 0, 10**6) == 6 * 10**6 + 800
    assert space_bytes(5, 1000, 10**6) - space_bytes(5, 0, 10**6) == 10 * 1000
    assert value_based_space_bytes(5, 1000, 10**8) == 10 * 1000 + 4 * 10**9


def test_the_example_runs_as_one_push() -> None:
    """The same packets at once: patterns follow the order of time, not the pushes."""
    policy = ArrivalOrder(3, fade=None)
    spec = tg.JoinSpec(on="pid", time="ts", within=1000, streams=names_of(3))
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in names_of(3)}
    for time, (_, router, pid) in enumerate(FIGURE_4):
        tables[f"s{router}"].append({"ts": time, "pid": pid})
    join = ManyJoin(spec, policy)
    join.push(*Push(tables))
    found = [policy.pattern_of[x.taken] for x in join.alive]
    assert found == [
        PATTERNS.get(name, "001") for name, _, _ in FIGURE_4
    ]  # t10 to t12 came to S3 alone
