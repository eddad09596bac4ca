"""Miniatures: small copies of a join that say which recall other memories would give.

Law: a miniature joins all tuples of some keys, chosen by hash. One holds all of them; the others
hold a part, under the join's own policy, so a part of the keys with the same part of the memory
sheds as the whole join does (SHARDS and the miniature simulations of caches). All of them together
never hold more than their room. What they find depends on the rows that came and on the moments of
`settle`, never on how rows were cut into pushes.

Only results are counted, not made. Which share of the tuples is sampled is measured, not taken from
the share of the keys: a popular key is in the sample or it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.columns.storage import some_rows
from tidegate.compiled.kernel import kernel
from tidegate.spec import Equal, JoinSpec, Theta, TidegateError

if TYPE_CHECKING:
    from tidegate.engine.join_engine import JoinEngine

# The memories that are tried, as parts of what the windows hold.
PARTS = (0.06, 0.12, 0.25, 0.45, 0.7)
ALL_PARTS = 1.0 + sum(PARTS)
WAITING = 1.0  # rows that wait to be joined, as a part of those that the first may hold
MOST_TUPLES = 4096  # of the miniature that holds all
FEWEST_TUPLES = 16
FILLED = 0.8  # of the miniature that holds all, as far as that can be foreseen
REFIT = 1.5  # memories follow the windows when these have changed by so much
REFITS = 10  # as many reviews does it cost to change what a miniature may hold
# Policies that retain tuples of popular keys first.
BY_KEY = ("auto", "value", "prob", "output", "simpprob", "dimpprob", "dgl")
NOISE = 2.0  # results of a key come together
_STEP, _MIX_1, _MIX_2 = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_SHIFT, _LOW, _UNIT = np.uint64(30), np.uint64(11), 2.0**-53
_BYTES = 160  # of a tuple, about
_MB = 1_000_000


class Curve(NamedTuple):
    """Memory in tuples (rising) and the recall that each would give, of results or importance."""

    memory: NDArray[np.float64]
    recall: NDArray[np.float64]

    def recall_at(self, memory: float) -> float:
        return float(np.interp(memory, self.memory, self.recall))

    def memory_for(self, recall: float) -> float:
        """The least memory that reaches this recall."""
        at = int(np.searchsorted(self.recall, min(recall, float(self.recall[-1])), "left"))
        if at == 0:
            return float(self.memory[0])
        span = slice(at - 1, at + 1)
        return float(np.interp(recall, self.recall[span], self.memory[span]))


def why_not(spec: JoinSpec) -> str | None:
    """Why this join can have no miniatures, or None if it can."""
    if not any(isinstance(predicate, Equal) for predicate in spec.predicates):
        return "a sample of the keys says nothing about a join that compares no keys for equality"
    if any(window.kind == "rows" for window in spec.windows):
        return (
            "a window of rows(n) holds the last rows of all keys, so a sample of the keys says "
            "nothing about it"
        )
    return None


def room_of(spec: JoinSpec) -> int:
    """What miniatures may hold, in the unit of the budget; of a large budget a part is enough."""
    share = spec.miniatures or 0.0
    if spec.memory_bytes is not None:
        return min(int(share * spec.memory_bytes), 16 * _MB)
    return min(int(share * (spec.memory_rows or 0)), int((ALL_PARTS + WAITING) * MOST_TUPLES))


def drawn(codes: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """For each key a number in [0, 1); tuples of a key have the same."""
    draws = np.empty(len(codes))
    _draw(codes.view(np.uint64), np.uint64(seed), draws)
    return draws


@kernel
def _draw(codes, seed, draws):
    for row in range(len(codes)):
        mixed = codes[row] + seed + _STEP
        mixed = (mixed ^ (mixed >> _SHIFT)) * _MIX_1
        mixed = (mixed ^ (mixed >> _SHIFT)) * _MIX_2
        draws[row] = np.float64(mixed >> _LOW) * _UNIT


def read_columns(spec: JoinSpec, stream: int) -> list[str]:
    """The columns of a stream that the join reads, each once."""
    names = [spec.time_columns[stream]]
    if spec.importance_columns is not None:
        names.append(spec.importance_columns[stream])
    for predicate in spec.predicates:
        columns = predicate.columns[stream]
        names += columns if isinstance(predicate, Theta) else [str(columns)]
    return list(dict.fromkeys(names))


class Miniatures:
    """The miniatures of one join: `add` rows, `run`, and read what they found."""

    def __init__(
        self, spec: JoinSpec, schemas: Mapping[str, pa.Schema], make: type[JoinEngine]
    ) -> None:
        split: Any = spec.split
        if spec.split_rows is not None:
            split = [rows / max(1, sum(spec.split_rows)) for rows in spec.split_rows]
        self._spec = spec.unwatched().replace(
            cpu=None, bad_rows="count", memory=MOST_TUPLES, split=split
        )
        self._make = make
        self._in_bytes = spec.memory_bytes is not None
        self._room = room_of(spec)
        self._columns = [read_columns(spec, stream) for stream in range(len(spec.streams))]
        self._schemas = {
            name: pa.schema([schemas[name].field(column) for column in columns])
            for name, columns in zip(spec.streams, self._columns, strict=True)
        }
        self.rate = 0.0  # the share of the keys that is sampled; none before it is known what comes
        self.too_many = 2.0  # a rate at which the sample was too large
        self.window_then = 0  # at the last review
        self.rows_peak = 0
        self._most = self._most_tuples()
        self._begin(self._most)

    def _most_tuples(self) -> int:
        """How many tuples the miniature that holds all may hold."""
        if not self._in_bytes:
            return min(MOST_TUPLES, int(self._room / (ALL_PARTS + WAITING)))
        each = _BYTES * (ALL_PARTS + WAITING)
        fresh = self._fresh(FEWEST_TUPLES, FEWEST_TUPLES)
        fixed = sum(int(engine.stats()["memory_bytes"]) for engine in fresh)
        return min(MOST_TUPLES, int((self._room - fixed) / each))

    def check(self) -> None:
        """An error if there is no room for miniatures that say something."""
        if self._most < FEWEST_TUPLES:
            raise TidegateError(
                f"miniatures get {self._room:,} {'bytes' if self._in_bytes else 'tuples'} of the "
                "memory, which is too little to say anything; give more memory, or a larger share"
            )

    def _fresh(self, most: int, window: float) -> list[JoinEngine]:
        """Empty miniatures: the first sheds nothing while windows hold so many tuples at most."""
        whole = self._spec.replace(memory=max(1, most), policy="recent", split="shared")
        tried = [self._spec.replace(memory=max(1, round(part * window))) for part in PARTS]
        engines = [self._make(spec, self._schemas) for spec in (whole, *tried)]
        for engine in engines:
            engine.count_only()
        return engines

    def _begin(self, window: float) -> None:
        """Begin empty; windows will hold about so many sampled tuples."""
        self.engines = self._fresh(self._most, window)
        self._waiting: list[dict[str, pa.Table]] = []
        self._waiting_rows = 0
        self.fitted_to = max(1, round(window))
        self._weigh()

    def _weigh(self) -> None:
        """Ask each miniature for its numbers, once."""
        self._numbers = [engine.stats() for engine in self.engines]
        self._held = sum(int(numbers["memory_rows"]) for numbers in self._numbers)
        self._bytes = sum(int(numbers["memory_bytes"]) for numbers in self._numbers)
        self.rows_peak = max(self.rows_peak, self.rows)

    # --- rows -----------------------------------------------------------------------------

    def add(self, tables: Mapping[str, pa.Table], codes: Mapping[str, NDArray[np.int64]]) -> int:
        """Take the rows of sampled keys; how many these are. Some wait, and are joined together."""
        sampled = {}
        for name, table in tables.items():
            chosen = drawn(codes[name], self._spec.seed) < self.rate
            if chosen.any():  # a copy: nothing of the push is kept
                rows = table.select(self._columns[self._spec.streams.index(name)])
                sampled[name] = some_rows(rows, pa.array(chosen))
        found = sum(table.num_rows for table in sampled.values())
        if found:
            self._waiting.append(sampled)
            self._waiting_rows += found
            if self._waiting_rows > WAITING * self._most:
                self.join()
            self.rows_peak = max(self.rows_peak, self.rows)
        return found

    def join(self, watermark: Any = None) -> None:
        """Join what waits; a watermark as in `JoinEngine.push`."""
        if not self._waiting and watermark is None:
            return
        tables = self._gathered()
        self._waiting, self._waiting_rows = [], 0
        for engine in self.engines:
            for _ in engine.results(tables, watermark=watermark):
                pass
        self._weigh()

    @property
    def overflows(self) -> bool:
        """Is the sample too large? Then what they found says nothing."""
        whole = self._numbers[0]
        if whole["evicted"] + whole["refused"] > 0:
            return True
        return self._in_bytes and self._bytes > self._room

    def _gathered(self) -> dict[str, pa.Table]:
        found: dict[str, pa.Table] = {}
        for name in self._spec.streams:
            tables = [push[name] for push in self._waiting if name in push]
            if tables:
                found[name] = pa.concat_tables(tables)
        return found

    def expect(self, tuples: float) -> None:
        """Begin with so many keys that windows of so many tuples fit."""
        self.rate = min(1.0, FILLED * self._most / max(1.0, tuples))
        self._begin(self.rate * tuples)

    def thin_out(self) -> None:
        """Drop half of the keys, and begin again."""
        self.too_many = min(self.too_many, self.rate)
        self.rate /= 2.0
        self._begin(self.window / 2.0)

    @property
    def is_sparse(self) -> bool:
        """Is there room for twice as many keys, which were not found to be too many?"""
        return 2.0 * self.rate < min(1.1, 0.9 * self.too_many) and 2.5 * self.window < self._most

    def thicken(self) -> None:
        """Take twice as many keys, and begin again."""
        self.rate = min(1.0, 2.0 * self.rate)
        self._begin(2.0 * self.window)

    def fit(self) -> bool:
        """Let the memories that are tried follow the windows; True if they changed."""
        window = self.window
        if not window or 1 / REFIT <= self.fitted_to / window <= REFIT:
            return False
        self.fitted_to = window
        for engine, part in zip(self.engines[1:], PARTS, strict=True):
            engine.resize(max(1, round(part * window)))
        self._weigh()
        return True

    def take(self, engines: list[JoinEngine], rate: float, too_many: float, fitted_to: int) -> None:
        """Go on with what a snapshot held."""
        self.engines, self.rate, self.too_many = engines, rate, too_many
        self.fitted_to = fitted_to
        for engine in engines:
            engine.count_only()
        self._weigh()

    # --- reading --------------------------------------------------------------------------

    @property
    def window(self) -> int:
        """Tuples that the sampled windows hold."""
        return int(self._numbers[0]["memory_rows"])

    def found(self) -> NDArray[np.float64]:
        """Of each miniature (results, importance) so far; the first has all of them."""
        self.window_then = self.window
        both = [[n["rows_out"], n["importance_out"]] for n in self._numbers]
        return np.array(both, np.float64)

    @property
    def rows(self) -> int:
        """Tuples held."""
        return self._held + self._waiting_rows

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._bytes + sum(t.nbytes for push in self._waiting for t in push.values())

    def curve(
        self, found: NDArray[np.float64], tuples: tuple[float, float], exact: float
    ) -> Curve | None:
        """Recall by memory, from what was found; `tuples` came in all and in the sample, and there
        were `exact` results, 0 if that is not known.

        A sample of keys misses the few that are popular, or has too many of them. A policy that
        sheds by key keeps these first: so the tuples and results by which the sample differs from
        the same part of all are those of keys that are retained under any memory (in SHARDS: added
        to the first bucket). Other policies shed popular keys like all others, and the sample is
        the part of the tuples that it has.
        """
        came, sampled = tuples
        if not found[0] or not sampled:
            return None
        share, more_tuples, more_results = sampled / came, 0.0, 0.0
        if exact > 0.0 and self._spec.policy_choice.name in BY_KEY:
            differ = exact * self.rate - found[0]
            chance = NOISE * (exact * self.rate + found[0]) / max(differ * differ, 1e-300)
            trusted = max(0.0, 1.0 - chance)  # that the difference is more than noise
            share += trusted * (self.rate - share)
            more_tuples = trusted * self.window_then * (came * self.rate / sampled - 1.0)
            more_results = max(trusted * differ, 1e-3 * found[1:].max() - found[0])
        kept = np.append(0.0, found[1:])
        recall = np.clip((kept + more_results) / (found[0] + more_results), 0.0, 1.0)
        tried = np.array([0.0, *(float(e.spec.memory_rows or 0) for e in self.engines[1:])])
        memory = np.append(tried, max(self.window_then, tried.max()) + 1.0) + more_tuples
        memory = np.maximum.accumulate(np.maximum(memory, np.arange(1, len(memory) + 1) * 1e-3))
        recall = np.append(np.maximum.accumulate(recall), 1.0)
        return Curve(np.append(0.0, memory / share), np.append(0.0, recall))
