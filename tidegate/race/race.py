"""The race behind `policy="auto"`: VALUE is in force until another policy measures better.

Law: what is decided follows from the rows that came before a review. Contenders hold tokens, never
more than their room, which the join does without.

Contenders are policies that are best somewhere, each on the same sample of the tuples
(`race.contest`). VALUE is none of them: it learns too much for a small copy. It is known while it
is in force, and tried again when another policy has been in force for long or the stream has
changed. How soon follows from what it costs: a trial of a policy that was behind by 20 % is made
ten times as seldom as one of 2 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.race import contest, race_records
from tidegate.race.race_records import AGES, Course
from tidegate.race.verdict import believed, lead, rounded
from tidegate.spec import Equal, JoinSpec
from tidegate.state.join_state import State
from tidegate.windows.arrivals import Arrivals

SHARE = 0.015  # of the memory at most, for the race
TOKENS = 4  # in the memory of a tuple
ENOUGH, FEWEST = 32, 8  # tokens of a contender
WINDOW = 2  # reviews in the longest window
FILLING, SETTLING = 3, 3  # reviews before contenders are full, and after a switch
LEAST, MOST = 8, 16  # blocks for a verdict
AGAIN = 4  # blocks for a verdict on VALUE that is tried again
MARGIN, SIGMAS, SURE = 0.02, 1.6, 2.5  # by which one is ahead, in all blocks or in the last
LOOK = 0.004  # of the results may be spent on trials of VALUE
SHORTEST, LONGEST = 24, 400  # reviews between two trials
CHANGED, FAR = 0.2, -1.0  # of a lead between contenders, and the smallest that counts
FADE, PRIOR = 0.9, 2.0  # of the age curve, per review; hits at each age, before there are any
VALUE = "value"


def names_of(spec: JoinSpec) -> tuple[str, ...]:
    """The policies that are raced."""
    if spec.importance_columns is None:
        return ("prob", "dgl", "recent", "until-expiry", "age", "random")
    return ("dgl", "dimpprob", "simp", "recent", "age", "random")


def tokens_of(spec: JoinSpec) -> int:
    """How many tokens a contender may hold."""
    each = int(TOKENS * SHARE * (spec.memory_rows or 0) / len(names_of(spec)))
    return min(ENOUGH, each)


def room_of(spec: JoinSpec) -> int:
    """The part of the memory that is the race's, in tuples; 0 where there is none."""
    return -(-len(names_of(spec)) * tokens_of(spec) // TOKENS) if may_race(spec) else 0


def may_race(spec: JoinSpec) -> bool:
    """Is there a race in this join? Elsewhere `auto` is VALUE."""
    return (
        spec.policy_choice.name == "auto"
        and spec.memory_rows is not None
        and tokens_of(spec) >= FEWEST
        and len(spec.streams) == 2
        and spec.ties == "arrival"
        and spec.cpu is None
        and spec.split_rows is None
        and spec.target is None
        and spec.miniatures is None
        and all(window.kind != "rows" for window in spec.windows)
        and all(isinstance(predicate, Equal) for predicate in spec.predicates)
    )


class Standing(NamedTuple):
    """How the join stands at a review."""

    results: float  # or their importance
    shed: int  # tuples, so far


class Race:
    """The race of one join."""

    def __init__(self, spec: JoinSpec, state: State, policy: str = VALUE) -> None:
        self.names = names_of(spec)
        each = tokens_of(spec)
        self.course: Course = race_records.empty(
            self.names, len(spec.streams), len(self.names) * each + 1
        )
        self.policy = policy  # in force
        self.switches = self._rows_peak = 0
        self._blocks: list[list[float]] = []  # of the join, and of each contender
        self._before: list[float] = []
        self._last = Standing(0.0, 0)
        self._waits = FILLING  # reviews that say nothing
        self._since = 0  # reviews since the last switch
        self._bias: dict[str, float] = {}
        self._pause = SHORTEST  # reviews until it is tried again
        self._was_tried = False
        self._profile: list[float] = []  # leads of contenders over the policy in force
        self._open(spec, state, each)

    def _open(self, spec: JoinSpec, state: State, each: int) -> None:
        head, streams, gate = self.course.head[0], self.course.streams, state.gate[0]
        streams.window, streams.account = state.lanes.window, state.lanes.account
        head.seed = spec.seed
        head.clock = head.watermark = head.faded = -(2**62)
        head.lateness, head.span = gate.lateness, max(1, int(streams.window.max()))
        head.weighed, head.combine = gate.has_importance, gate.combine
        head.planned = spec.split == "auto"
        shares = state.accounts.capacity / max(1, int(state.accounts.capacity.sum()))
        self.course.capacity[:] = np.maximum(shares > 0, np.round(shares * each)).astype(np.int64)
        memory = int(state.accounts.capacity.sum())
        head.rate = min(1.0, int(self.course.capacity.sum()) / max(1, memory))
        draws = np.random.default_rng(spec.seed).random(self.course.phases.shape)
        self.course.phases[:] = draws

    # --- rows -----------------------------------------------------------------------------

    def watch(self, arrivals: Arrivals, state: State) -> None:
        """Take the arrivals of a push, before the join does."""
        head, gate = self.course.head[0], state.gate[0]
        head.external = gate.external
        if gate.external:
            head.watermark = gate.watermark
        contest.race(self.course, arrivals, arrivals.begin.copy())

    # --- a review -------------------------------------------------------------------------

    def review(self, now: Standing) -> str:
        """The policy from now on."""
        last, self._last = self._last, now
        found = rounded(self.course.contenders.found).tolist()
        gained = [new - old for new, old in zip(found, self._before or found, strict=True)]
        self._before = found
        self._learn_ages()
        self._waits -= 1
        self._since += 1
        if self._waits < 0 and now.shed > last.shed:
            self._blocks = [*self._blocks, [now.results - last.results, *gained]][-MOST:]
            self._decide()
        return self.policy

    def _learn_ages(self) -> None:
        """What AGE believes, from the tokens that chance retains."""
        trials, hits = self.course.trials, self.course.hits
        trials *= FADE
        hits *= FADE
        mean = hits.sum(1, keepdims=True) / np.maximum(trials.sum(1, keepdims=True), 1e-300)
        rate = (hits + PRIOR) / (trials + PRIOR / np.maximum(mean, 1e-300))
        for stream, curve in enumerate(rate):
            for age in range(AGES):
                ahead = np.cumsum(curve[age:]) / np.arange(1, AGES - age + 1)
                self.course.worths[stream, age] = ahead.max()

    def _decide(self) -> None:
        blocks = np.array(self._blocks)
        if self.policy == VALUE:
            self._judge_value(blocks)
        else:
            self._judge_contenders(blocks)

    def _judge_value(self, blocks: NDArray[np.float64]) -> None:
        """VALUE is in force: is a contender clearly ahead of it?"""
        if len(blocks) < (AGAIN if self._was_tried else LEAST):
            return
        best = self._clear_leader(blocks, float(self.course.head[0].rate) * blocks[:, 0])
        if best is not None:
            name, behind = best
            least = SHORTEST if not self._was_tried else 2 * self._pause
            trial = (SETTLING + AGAIN) * behind / LOOK
            self._pause = int(min(LONGEST, max(least, trial)))
            self._was_tried = True
            self._switch(name)
        elif len(blocks) >= LEAST:
            self._was_tried = False

    def _judge_contenders(self, blocks: NDArray[np.float64]) -> None:
        """A contender is in force: is it time to try VALUE again?"""
        if len(blocks) < LEAST:
            return
        own = 1 + self.names.index(self.policy)
        ours = float(self.course.head[0].rate) * blocks[:, 0]
        self._bias[self.policy] = believed(lead(blocks[:, own], ours))
        if self._has_changed(blocks[-LEAST:], own):
            self._pause = SHORTEST // 2
            self._switch(VALUE)
        elif self._since >= self._pause:
            self._switch(VALUE)

    def _has_changed(self, blocks: NDArray[np.float64], own: int) -> bool:
        """Is the stream another one? Then contenders stand to each other as they did not before,
        but for those far behind, and one may be ahead."""
        leads = [lead(its, blocks[:, own]) for its in blocks[:, 1:].T]
        now = [max(FAR, its.ahead) for its in leads]
        then = self._profile = self._profile or now
        pairs = zip(now, then, leads, strict=True)
        return any(abs(a - b) > CHANGED + SURE * its.error for a, b, its in pairs) or any(
            its.ahead > MARGIN + SURE * its.error for its in leads
        )

    def _clear_leader(
        self, blocks: NDArray[np.float64], ours: NDArray[np.float64]
    ) -> tuple[str, float] | None:
        """Who is clearly ahead of VALUE, in all blocks and in the last ones."""
        found: dict[str, float] = {}
        for at, name in enumerate(self.names, 1):
            bias = self._bias.get(name, 0.0)
            its = lead(blocks[:, at], ours)
            last = lead(blocks[-LEAST:, at], ours[-LEAST:])
            is_clear = its.ahead - bias > MARGIN + SIGMAS * its.error
            is_sure = last.ahead - bias > MARGIN + SURE * last.error
            if is_sure or (is_clear and last.ahead - bias > MARGIN):
                found[name] = last.ahead - bias
        best = max(found, key=lambda name: found[name], default=None)
        return None if best is None else (best, found[best])

    def _switch(self, policy: str) -> None:
        self.policy = policy
        self.switches += 1
        self._since, self._waits, self._blocks, self._profile = 0, SETTLING, [], []

    # --- reading --------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        """What the race holds, and what came of it."""
        rows = self.rows
        self._rows_peak = max(self._rows_peak, rows)
        return {
            "race_rows": rows,
            "race_rows_peak": self._rows_peak,
            "race_switches": self.switches,
        }

    @property
    def rows(self) -> int:
        """Tuples in whose memory the tokens are."""
        return -(-int((self.course.tokens.held != 0).sum()) // TOKENS)

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        return sum(int(array.nbytes) for array in self.course)

    # --- keeping --------------------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """All that it remembers besides its arrays."""
        return {name: getattr(self, name) for name in _PLAIN} | {"last": list(self._last)}

    def take(self, numbers: Mapping[str, Any]) -> None:
        """Go on with what a snapshot held."""
        for name in _PLAIN:
            setattr(self, name, numbers[name])
        self._last = Standing(*numbers["last"])


_PLAIN = (
    "policy", "switches", "_rows_peak", "_blocks", "_before", "_waits", "_since", "_bias",
    "_pause", "_was_tried", "_profile",
)  # fmt: skip
