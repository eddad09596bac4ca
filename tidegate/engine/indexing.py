"""`index="auto"` where the cost model decides: band joins without a budget.

Law: which index a window has changes how long a join takes, never its rows; only the results of one
arrival may come in another order. A B+tree is where a band join begins; when enough tuples have
come, the pair that kang2003's model has as the cheapest for the rates, windows and matches of late
takes its place, if it promises a large gain, and so again whenever these have changed.

Equality is served by hash tables and sets by an inverted index, without a question: no other pair
gains much there (`python -m benchmarks plan`). Trees are compiled for every band join, so a change
compiles nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tidegate.binding.spec_records import INDEX_CODES
from tidegate.costs.cost import pair_cost
from tidegate.costs.machine import weights_of
from tidegate.costs.structures import INDEX_NAMES
from tidegate.costs.weights import TYPICAL, Weights
from tidegate.costs.workload import Workload
from tidegate.spec import Band, Equal, JoinSpec, Overlap, TidegateError
from tidegate.state.join_state import State

EVERY = 4096  # arrivals between two looks
GAIN = 1.5  # another pair must be cheaper by so much
_LETTERS = {INDEX_CODES[name]: letter for letter, name in INDEX_NAMES.items()}
_CHOSEN_FROM = "NB"


def is_open(spec: JoinSpec) -> bool:
    """Does the cost model choose an index of such a join?"""
    kinds = {type(predicate) for predicate in spec.predicates}
    banded = Band in kinds and not kinds & {Equal, Overlap}
    plain = spec.memory is None and spec.cpu is None and len(spec.streams) == 2
    return banded and plain and "auto" in spec.index_kinds


class IndexWatch:
    """Looks at a join from time to time; `now` are the letters of its indexes."""

    def __init__(self, spec: JoinSpec) -> None:
        self._asked = [kind == "auto" for kind in spec.index_kinds]
        self._taken = [0, 0]
        self._results = 0
        self._weights: Weights | None = None

    def better(self, state: State) -> list[int] | None:
        """The indexes that the join should have from now on; None if it has them."""
        arrived = [int(n) - old for n, old in zip(state.lanes.taken, self._taken, strict=True)]
        if sum(arrived) < EVERY:
            return None
        results = int(state.gate[0].results) - self._results
        self._taken, self._results = state.lanes.taken.tolist(), int(state.gate[0].results)
        workload = observed(arrived, state.lanes.alive.tolist(), results)
        now = "".join(_LETTERS[int(kind)] for kind in state.lanes.index)
        best = self._cheapest(workload, now)
        if pair_cost(best, workload, self.weights) * GAIN > pair_cost(now, workload, self.weights):
            return None
        return [INDEX_CODES[INDEX_NAMES[letter]] for letter in best]

    def _cheapest(self, workload: Workload, now: str) -> str:
        """Of the pairs that leave a window whose index was asked for as it is."""
        letters = [
            _CHOSEN_FROM if asked else letter
            for asked, letter in zip(self._asked, now, strict=True)
        ]
        pairs = ["".join(pair) for pair in product(*letters)]
        return min(pairs, key=lambda pair: pair_cost(pair, workload, self.weights))

    @property
    def weights(self) -> Weights:
        """Those of this machine if it was calibrated, else those of a machine like others."""
        if self._weights is None:
            try:
                here = weights_of("auto")
            except TidegateError:
                here = TYPICAL  # those that were stored are of another CPU
            self._weights = here if here.shape == "engine" else TYPICAL
        return self._weights


def observed(arrived: Sequence[int], alive: Sequence[int], results: int) -> Workload:
    """Rates by what has arrived, windows by what is retained, and the share of pairs that match."""
    windows = (max(1, alive[0]), max(1, alive[1]))
    pairs = arrived[0] * windows[1] + arrived[1] * windows[0]
    return Workload(
        windows,
        (arrived[0], arrived[1]),
        selectivity=min(1.0, results / pairs),
        predicate="band",
    )
