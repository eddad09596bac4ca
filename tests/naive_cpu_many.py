"""The slow, obvious twin of a join of n streams under a CPU budget.

It is `naive_many.ManyJoin` whose combinations are made of the tuples that a `naive_cpu.Budget` lets
the arrival look at, window by window in the order of the streams.
"""

from __future__ import annotations

from naive import output_importance
from naive_cpu import budget_of, stats_of
from naive_many import NOTHING, Arrival, Combination, ManyJoin, Shedding, key_of

from tidegate.spec import JoinSpec


class ManyCpuJoin(ManyJoin):
    """Times are integers."""

    def __init__(self, spec: JoinSpec, policy: Shedding | None = None) -> None:
        super().__init__(spec, policy)
        self.budget = budget_of(spec)

    def combinations(self, new: list[Arrival], old: list[Arrival]) -> list[Combination]:
        if not new:
            return []
        (arrival,) = new
        if key_of(self.spec, arrival) is NOTHING:
            return []
        budget, stream = self.budget, arrival.stream
        assert self.intake.clock is not None
        budget.grant(self.intake.clock)
        taken = self.intake.taken_of_stream[stream]
        full, planned, weight = budget.draw(self.spec.seed, stream, taken)
        others = [x for x in old if key_of(self.spec, x) == key_of(self.spec, arrival)]
        sides = [side for side in budget.streams if side != stream]
        if not all(any(x.stream == side for x in others) for side in sides):
            return []
        budget.stood[stream] += weight
        budget.others[stream] += 0.0 if full else 1.0
        seen: list[Arrival] = []
        inside = 1.0
        for side in sides:
            of_side = [x for x in others if x.stream == side]
            costs = [(x.time, 1) for x in of_side]
            looked_at, _ = budget.choose(side, arrival.time, full, planned, costs, stream, full)
            kept = [x for x, is_kept in zip(of_side, looked_at, strict=True) if is_kept]
            if not kept:
                return []
            inside *= sum(budget.is_asked(side, arrival.time, x.time) for x in kept) / len(kept)
            seen += kept
        found = super().combinations([arrival], seen)
        if full and found:
            budget.missed[stream] += weight * len(found) * (1.0 - inside)
            for x in seen:
                cell = budget.sides[x.stream][budget.window_of(x.stream, arrival.time, x.time)]
                its = [combination for combination in found if x in combination]
                cell.hits += len(its)
                cell.worth += sum(map(self.worth, its))
        return found

    def worth(self, combination: Combination) -> float:
        """Its importance; of a mean the sum, since only proportions count."""
        kind = self.spec.output_importance
        importances = [x.importance for x in combination]
        return output_importance("sum" if kind == "mean" else kind, importances)

    def stats(self) -> dict[str, float]:
        return super().stats() | stats_of(self.budget, self.spec)
