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
# In longest windows: until contenders are full, until a new policy has its tuples, what is judged
# by at most, and as the last blocks, how long VALUE is tried again, and until it has learned.
FILLING, SETTLING, MOST, LAST, AGAIN, LEARNING = 0.75, 1.0, 8.0, 3.0, 2.0, 6.0
LEAST = 6  # blocks for a verdict
MARGIN, SIGMAS, SURE = 0.02, 3.0, 3.5  # by which one is ahead, in all blocks or in the last
LOOK = 0.004  # of the results may be spent on trials of VALUE
SHORTEST, LONGEST = 12.0, 200.0  # windows between two trials
CHANGED, FAR = 0.2, -1.0  # of a lead between contenders, and the smallest that counts
JUMP = 1.0  # of the logarithm of the results between two reviews: the stream has changed
FADE, PRIOR = 0.9, 2.0  # of the age curve, per review; hits at each age, before there are any
VALUE = "value"


def names_of(spec: JoinSpec) -> tuple[str, ...]:
    """The policies that are raced."""
    if spec.importance_columns is None:
        return ("prob", "output", "dgl", "recent", "age", "random")
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
    time: float  # in longest windows, since the first row


class Race:
    """The race of one join."""

    def __init__(self, spec: JoinSpec, state: State, policy: str, before: int) -> None:
        self.names = names_of(spec)
        each = tokens_of(spec)
        self.course: Course = race_records.empty(
            self.names, len(spec.streams), len(self.names) * each + 1
        )
        self.policy = policy  # in force
        self.switches = self._rows_peak = 0
        self._before_race = before  # tuples that were held at most
        self._blocks: list[list[float]] = []  # of the join, and of each contender
        self._before: list[float] = []
        self._last: Standing | None = None
        self._begun = self._blind_until = 0.0
        self._since = 0.0  # time of the last switch
        self._bias: dict[str, float] = {}
        self._pause = SHORTEST  # windows until VALUE is tried again
        self._was_tried = False
        self._profile: list[float] = []  # leads of contenders over the policy in force
        self._open(spec, state, each)

    def _open(self, spec: JoinSpec, state: State, each: int) -> None:
        head, streams, gate = self.course.head[0], self.course.streams, state.gate[0]
        streams.window, streams.account = state.lanes.window, state.lanes.account
        head.seed = spec.seed
        head.clock = head.watermark = head.faded = head.instant = -(2**62)
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
        self._rows_peak = max(self._rows_peak, self.rows)

    # --- a review -------------------------------------------------------------------------

    def review(self, now: Standing) -> str:
        """The policy from now on."""
        last, self._last = self._last, now
        found = rounded(self.course.contenders.found).tolist()
        before, self._before = self._before, found
        self._learn_ages()
        if last is None:
            self._begun, self._blind_until = now.time, now.time + FILLING
            return self.policy
        gained = [new - old for new, old in zip(found, before, strict=True)]
        if last.time >= self._blind_until and now.shed > last.shed:
            self._blocks.append([now.time, now.results - last.results, *gained])
            self._blocks = [block for block in self._blocks if block[0] > now.time - MOST]
            if len(self._blocks) >= LEAST:
                self._decide(now.time)
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

    def _decide(self, time: float) -> None:
        blocks = np.array(self._blocks)
        last = max(LEAST, int((blocks[:, 0] > time - LAST).sum()))
        if self.policy == VALUE:
            self._judge_value(blocks[:, 1:], last, time)
        else:
            self._judge_contender(blocks[:, 1:], last, time)

    def _judge_value(self, blocks: NDArray[np.float64], last: int, time: float) -> None:
        """VALUE is in force: is a contender clearly ahead of it?"""
        known = time - self._since > SETTLING + (AGAIN if self._was_tried else LAST)
        best = self._clear_leader(blocks, last, time) if known else None
        if best is not None:
            name, behind = best
            least = 2.0 * self._pause if self._was_tried else SHORTEST
            self._pause = min(LONGEST, max(least, (SETTLING + AGAIN) * behind / LOOK))
            self._was_tried = True
            self._switch(name, time)
        elif time - self._since > MOST:
            self._was_tried = False

    def _judge_contender(self, blocks: NDArray[np.float64], last: int, time: float) -> None:
        """A contender is in force: is it time to try VALUE again?"""
        own = 1 + self.names.index(self.policy)
        ours = float(self.course.head[0].rate) * blocks[:, 0]
        self._bias[self.policy] = believed(lead(blocks[:, own], ours))
        if self._has_changed(blocks[-last:], own) or _has_jumped(blocks[:, 0]):
            self._pause = SHORTEST / 2.0
            self._switch(VALUE, time)
        elif time - self._since >= self._pause:
            self._switch(VALUE, time)

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
        self, blocks: NDArray[np.float64], last: int, time: float
    ) -> tuple[str, float] | None:
        """Who is clearly ahead of VALUE: surely in the last blocks, or in all and in the last ones
        when VALUE had the time to learn."""
        found: dict[str, float] = {}
        ours = float(self.course.head[0].rate) * blocks[:, 0]
        for at, name in enumerate(self.names, 1):
            bias = self._bias.get(name, 0.0)
            its, late = lead(blocks[:, at], ours), lead(blocks[-last:, at], ours[-last:])
            is_sure = late.ahead - bias > MARGIN + SURE * late.error
            is_clear = its.ahead - bias > MARGIN + SIGMAS * its.error
            has_learned = time - self._begun > LEARNING
            if is_sure or (has_learned and is_clear and late.ahead - bias > MARGIN):
                found[name] = late.ahead - bias
        best = max(found, key=lambda name: found[name], default=None)
        return None if best is None else (best, found[best])

    def _switch(self, policy: str, time: float) -> None:
        self.policy = policy
        self.switches += 1
        self._since, self._blind_until = time, time + SETTLING
        self._blocks, self._profile = [], []

    # --- reading --------------------------------------------------------------------------

    def most_held(self, own: int) -> int:
        """The most tuples that join and race ever held, of which the join `own` since it began."""
        return max(self._before_race, own + self._rows_peak)

    def stats(self) -> dict[str, int | float]:
        """What the race holds, and what came of it."""
        rows = self.rows
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
        return {name: getattr(self, name) for name in _PLAIN} | {
            "last": None if self._last is None else list(self._last)
        }

    def take(self, numbers: Mapping[str, Any]) -> None:
        """Go on with what a snapshot held."""
        for name in _PLAIN:
            setattr(self, name, numbers[name])
        last = numbers["last"]
        self._last = None if last is None else Standing(*last)


_PLAIN = (
    "policy", "switches", "_rows_peak", "_before_race", "_blocks", "_before", "_since",
    "_begun", "_blind_until", "_bias", "_pause", "_was_tried", "_profile",
)  # fmt: skip


def _has_jumped(results: NDArray[np.float64]) -> bool:
    """Are the last two blocks far from what there was before, or the last one very far?"""
    before = float(np.median(results[:-2]))
    far = np.abs(np.log((results[-2:] + 1.0) / (before + 1.0)))
    return bool((far > JUMP).all() or far[-1] > 2.0 * JUMP)
