"""A join that reviews itself: twice in a window, what it loses and what other memories would lose.

Law: a moment of review is reached before the first row at or after it is taken, so what is decided
depends on the rows that came before it, not on how they were cut into pushes. All that is held is
inside the room of the miniatures.

A review costs time: arrivals and results earn a part of what they cost, and a review spends it.
Where that does not pay for the sample, half of its keys are dropped; where it does not pay for a
review, the review is left out. The first are free, so that short streams have some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.batching import kept_rows, select
from tidegate.binding.binding import Binding
from tidegate.columns.storage import some_rows
from tidegate.engine import contract, live_miniatures
from tidegate.engine.contract import Contract, Glance
from tidegate.engine.live_miniatures import Curve, Miniatures
from tidegate.engine.prices import Price, least_memory, memory_of, price_of
from tidegate.engine.stretches import Encodings, Given, Stretch, stretches_of
from tidegate.loss import sentinel as sentinels
from tidegate.loss.sentinel import Sentinel
from tidegate.race import race as races
from tidegate.race.race import Race, Standing
from tidegate.race.verdict import rounded
from tidegate.shed.shed_records import Shed
from tidegate.spec import JoinSpec, Theta, TidegateError
from tidegate.state.join_state import State

if TYPE_CHECKING:
    from tidegate.engine.join_engine import JoinEngine

SENTINEL, MINIATURES = 0.02, 0.05  # shares of the memory, where a target takes them
FADE = 0.85  # of what miniatures found, per review
# In arrivals: what each earns, what is given at first, and what a miniature costs per review.
EARNED, GIVEN, PER_REVIEW = 0.06, 120_000, 1000
RESULTS = 0.1  # of an arrival, that a result costs
PLENTY = 0.25  # of what was earned: if the sample costs less, it may grow
FEW = 1000  # tuples between two reviews of a race
_NEVER = -(2**63)
_ARRIVED, _SAMPLED = range(2)


def with_watchers(spec: JoinSpec) -> JoinSpec:
    """The spec with the sentinel and the miniatures that its target takes."""
    if spec.target is None:
        return spec
    return spec.replace(
        sentinel=SENTINEL if spec.sentinel is None else spec.sentinel,
        miniatures=MINIATURES if spec.miniatures is None else spec.miniatures,
    )


def is_steered(spec: JoinSpec) -> bool:
    """Does a join review itself?"""
    return spec.miniatures is not None or races.may_race(spec)


def check(spec: JoinSpec) -> None:
    """An error if the join asks for miniatures or a target that it cannot have."""
    asked = "miniatures" if spec.target is None else f"target {spec.target!r}"
    if spec.target is None and spec.miniatures is None:
        return
    reason = live_miniatures.why_not(spec)
    if any(isinstance(predicate, Theta) for predicate in spec.predicates):
        reason = "a theta function may fail, and the push is undone then"
    if spec.memory is None:
        reason = "they take a share of the memory, and memory is None; give the most it may use"
    if spec.target is not None:
        reason = reason or sentinels.why_not(spec)
        if spec.cpu is not None:
            reason = "a CPU budget loses results that no memory can bring back"
        if spec.split_rows is not None:
            reason = f"split {spec.split!r} fixes the tuples of each stream; give shares"
    if reason is not None:
        raise TidegateError(f"{asked} is refused: {reason}")
    if spec.split_rows is not None:
        raise TidegateError(f"miniatures take a part of the memory; give shares, not {spec.split}")


class Steering:
    """The reviews of one join; `spec` is that of the user, with its watchers."""

    def __init__(self, spec: JoinSpec, kind: type[JoinEngine]) -> None:
        self.spec = spec
        self._kind = kind
        self.contract = None if spec.target_share is None else Contract(spec.target_share)
        self.miniatures: Miniatures | None = None
        self.race: Race | None = None  # from when the join sheds
        self.room_of_race = 0  # tuples of the memory
        self._is_open = False  # have all streams shown their columns?
        self._interval = self._window = 1
        self._arrived = 0.0  # tuples, at the last review of a race
        self._first = _NEVER  # time of all
        self._next_review = _NEVER
        self._blind_until = _NEVER  # what miniatures find before says nothing
        self._before: NDArray[np.float64] | None = None
        self._found = np.zeros((1 + len(live_miniatures.PARTS), 2))  # faded
        # Results and their importance that the sentinel saw, then and since, faded as the others.
        self._seen_before, self._seen = np.zeros(2), np.zeros(2)
        # (_ARRIVED, _SAMPLED) tuples since the sample became smaller: all, and faded.
        self._counts, self._recent = np.zeros(2), np.zeros(2)
        self._earned, self._worked = float(GIVEN), 0.0
        self._glance = np.zeros((2, 2))  # of the sentinel, at the last review

    def open(self, binding: Binding) -> None:
        """All streams have shown their columns."""
        self._is_open = None not in binding.schemas
        if self._is_open:
            schemas = dict(zip(self.spec.streams, binding.schemas, strict=True))
            if self.spec.miniatures is not None and self.miniatures is None:
                self.miniatures = Miniatures(self.spec, schemas, self._kind)
                self.miniatures.check()
        windows = [binding.in_units(window, "within") for window in self.spec.windows]
        self._window = max(1, *windows)
        if self._first == _NEVER:
            self._interval = max(1, self._window // contract.PER_WINDOW)

    # --- a push ---------------------------------------------------------------------------

    def stretches(self, given: Given, encoded: Encodings) -> Iterator[Stretch]:
        """The rows of a push, cut at the moments of review."""
        if not self._is_open:
            return iter([Stretch(given, encoded, None)])
        return stretches_of(given, encoded, self._moment_after)

    def _moment_after(self, time: int) -> int:
        """The next moment of review that lies behind this time."""
        if self._first == _NEVER:
            self._first = time
            self._blind_until = time + contract.PER_WINDOW * self._interval
            self._next_review = time + self._interval
        return time + self._interval - (time - self._first) % self._interval

    def is_due(self, first: int) -> bool:
        """Is there a moment of review before a row of this time?"""
        return first >= self._next_review

    def add(self, given: Given, encoded: Encodings) -> None:
        """The rows of a stretch, which the join takes now."""
        tables, codes, count = {}, {}, 0
        for stream, table in given.items():
            part, kept = encoded[stream], kept_rows(encoded[stream])
            if kept is not None:
                table, part = some_rows(table, pa.array(kept)), select(part, kept)
            name = self.spec.streams[stream]
            tables[name], codes[name] = table, part.code
            count += table.num_rows
        added = (count, 0 if self.miniatures is None else self.miniatures.add(tables, codes))
        self._counts += added
        self._recent += added

    def move(self, watermark: Any) -> None:
        """A watermark was given from outside."""
        if self.miniatures is not None:
            self.miniatures.join()
            self.miniatures.join(watermark)

    # --- memory ---------------------------------------------------------------------------

    def price(self, state: State, shed: Shed) -> Price:
        """What the tuples of a join take."""
        return price_of(self.spec, live_miniatures.room_of(self.spec), state, shed)

    def decide(self, glance: Glance, in_force: JoinSpec, price: Price) -> Any:
        """The memory from now on, as a spec has it; None for no change."""
        assert self.contract is not None
        now, most = memory_of(in_force), memory_of(self.spec)
        wanted = self.contract.decide(self.curve(), glance, price.tuples(now), price.tuples(most))
        if wanted is None:
            return None
        memory = min(int(most), max(price.memory(wanted), least_memory(self.spec, price)))
        if memory == now:
            return None
        return memory if self.spec.memory_bytes is None else f"{memory} B"

    # --- a review -------------------------------------------------------------------------

    def review(self, first: int, sentinel: Sentinel | None, state: State) -> Glance:
        """Read the miniatures and the sentinel, before a row of this time is taken."""
        self._next_review = self._moment_after(first)
        now = np.zeros((2, 2)) if sentinel is None else rounded(sentinel.results)
        if self.miniatures is not None:
            self._earn(int(state.gate[0].results))
            self._read_miniatures(self.miniatures, first, now[:, 0])
        new, self._glance = now - self._glance, now
        if sentinel is None or sentinel.is_blind(state):
            return Glance(0.0, 0.0, 0.0)
        exact, kept = new[int(self._by_importance)]
        return Glance(float(exact), float(kept), float(new[0, 0] * sentinel.rate))

    def _earn(self, results: int) -> None:
        """What the join has worked since the last review is earned."""
        worked = self._counts[_ARRIVED] + RESULTS * results
        self._earned += EARNED * (worked - self._worked)
        self._worked = worked

    @property
    def _by_importance(self) -> bool:
        return self.contract is not None and self.contract.target.of_importance

    def _read_miniatures(self, held: Miniatures, first: int, seen: NDArray[np.float64]) -> None:
        cost = len(held.engines) * PER_REVIEW
        rows = len(held.engines) * self._counts[_SAMPLED]
        earned = EARNED * self._worked + GIVEN
        if not held.rate:
            held.expect(contract.PER_WINDOW * self._counts[_ARRIVED])
            self._be_blind(first)
            return
        if self._earned < cost:
            return
        self._earned -= cost
        held.join()
        if held.overflows or rows > earned:
            held.thin_out()
            self._found *= 0.5
            self._be_blind(first)
            return
        if first >= self._blind_until and held.fit():
            self._earned -= live_miniatures.REFITS * cost
        if held.is_sparse and first >= self._blind_until and rows < PLENTY * earned:
            held.thicken()
            self._found *= 2.0
            self._be_blind(first)
            return
        found = held.found()
        if self._before is not None:
            self._found = FADE * self._found + (found - self._before)
            self._seen = FADE * self._seen + (seen - self._seen_before)
        self._before = found if first >= self._blind_until else None
        self._seen_before = seen.copy()
        self._recent *= FADE

    def _be_blind(self, first: int) -> None:
        """The sample is a new one: what it finds counts when its windows are full."""
        self._before = None
        self._recent[:] = 0.0
        self._counts[_SAMPLED] = 0.0
        self._blind_until = first + contract.PER_WINDOW * self._interval

    def curve(self, by_importance: bool | None = None) -> Curve | None:
        """Recall by the tuples that the join itself retains; None while it is not known."""
        if self.miniatures is None or not self._recent[_ARRIVED]:
            return None
        measure = int(self._by_importance if by_importance is None else by_importance)
        tuples = (float(self._recent[_ARRIVED]), float(self._recent[_SAMPLED]))
        return self.miniatures.curve(self._found[:, measure], tuples, float(self._seen[measure]))

    @property
    def has_curve(self) -> bool:
        """Was a retention curve asked for?"""
        return self.spec.miniatures is not None

    # --- policies -------------------------------------------------------------------------

    def is_race_due(self, state: State) -> bool:
        """Does a race begin now? A join that sheds nothing needs none, and keeps its memory."""
        is_possible = self.race is None and races.may_race(self.spec)
        return is_possible and bool(state.lanes.evicted.any() or state.lanes.refused.any())

    def reserve(self, spec: JoinSpec) -> None:
        """Let the race have its room of a memory from now on."""
        self.room_of_race = races.room_of(spec)

    def begin_race(self, spec: JoinSpec, state: State, policy: str, before: int) -> None:
        """Begin a race in a join that held so many tuples at most; its room is reserved."""
        self.spec = spec
        self.race = Race(spec, state, policy, before) if self.room_of_race else None

    def best_policy(self, state: State, first: int) -> str | None:
        """The policy from now on, at a review before a row of this time; None without a race."""
        if self.race is None:
            return None
        gate, lanes = state.gate[0], state.lanes
        weighed = self.spec.importance_columns is not None
        results = float(rounded(gate.importance_out) if weighed else gate.results)
        shed = int(lanes.evicted.sum() + lanes.refused.sum())
        self._review_in_time()
        time = (first - self._first) / self._window
        return self.race.review(Standing(results, shed, time))

    def _review_in_time(self) -> None:
        """Where rows come fast enough to pay for it, a race is reviewed twice as often."""
        came = float(self._counts[_ARRIVED]) - self._arrived
        self._arrived += came
        often = max(1, self._window // (2 * contract.PER_WINDOW))
        if self._interval == often and came < FEW:
            self._interval = max(1, self._window // contract.PER_WINDOW)
        elif self._interval != often and came > 4 * FEW:
            self._interval = often

    # --- reading --------------------------------------------------------------------------

    def stats(self, in_force: JoinSpec, price: Price) -> dict[str, int | float]:
        """The target and how far it is met, and what the miniatures hold."""
        now, most = memory_of(in_force), memory_of(self.spec)
        known: dict[str, int | float] = {}
        if self.miniatures is not None:
            known["miniature_rows"] = self.miniatures.rows
            known["miniature_rows_peak"] = self.miniatures.rows_peak
            known["miniature_share"] = self._share
        if self.race is not None:
            known |= self.race.stats()
        if self.contract is not None:
            known["target_memory"] = int(now)
            known |= self.contract.stats(self.curve(), price.tuples(now), price.tuples(most))
        return known

    def points(self, price: Price) -> list[dict[str, float]]:
        """Memory in the unit of the budget, and the recall that it would give."""
        by_size, by_worth = self.curve(False), self.curve(True)
        if by_size is None or by_worth is None:
            return []
        return [
            {
                "memory": price.memory(float(tuples)),
                "recall": float(by_size.recall[at]),
                "importance_recall": float(by_worth.recall[at]),
            }
            for at, tuples in enumerate(by_size.memory)
            if at > 0
        ]

    @property
    def _share(self) -> float:
        """Of the tuples that are sampled."""
        came, sampled = self._recent.tolist()
        return sampled / came if came else 0.0

    @property
    def nbytes(self) -> int:
        """Bytes that miniatures and contenders hold."""
        return sum(held.nbytes for held in (self.miniatures, self.race) if held is not None)

    # --- keeping --------------------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """All that it remembers besides the miniatures, for a snapshot."""
        held = self.miniatures
        return {
            "first": self._first,
            "interval": self._interval,
            "arrived": self._arrived,
            "next_review": self._next_review,
            "blind_until": self._blind_until,
            "before": None if self._before is None else self._before.tolist(),
            "found": self._found.tolist(),
            "seen_before": self._seen_before.tolist(),
            "seen": self._seen.tolist(),
            "counts": self._counts.tolist(),
            "recent": self._recent.tolist(),
            "earned": self._earned,
            "worked": self._worked,
            "glance": self._glance.tolist(),
            "rate": 0.0 if held is None else held.rate,
            "too_many": 0.0 if held is None else held.too_many,
            "fitted_to": 0 if held is None else held.fitted_to,
            "window": 0 if held is None else held.window_then,
            "contract": None if self.contract is None else self.contract.numbers(),
        }

    def take(self, numbers: Mapping[str, Any], engines: list[JoinEngine]) -> None:
        """Go on with what a snapshot held."""
        self._first, self._next_review = int(numbers["first"]), int(numbers["next_review"])
        self._blind_until = int(numbers["blind_until"])
        self._interval = int(numbers.get("interval", self._interval))
        self._arrived = float(numbers.get("arrived", 0.0))
        before = numbers["before"]
        self._before = None if before is None else np.array(before)
        self._found, self._glance = np.array(numbers["found"]), np.array(numbers["glance"])
        self._seen_before, self._seen = np.array(numbers["seen_before"]), np.array(numbers["seen"])
        self._counts, self._recent = np.array(numbers["counts"]), np.array(numbers["recent"])
        self._earned, self._worked = float(numbers["earned"]), float(numbers["worked"])
        if self.miniatures is not None and engines:
            rate, too_many = float(numbers["rate"]), float(numbers["too_many"])
            self.miniatures.take(engines, rate, too_many, int(numbers["fitted_to"]))
            self.miniatures.window_then = int(numbers["window"])
        if self.contract is not None:
            self.contract.take(numbers["contract"])
