"""What the buckets of a join say together of their targets and miniatures.

Law: a bucket counts by the results that there were in it. Each has its part of the memory and of
the target the whole, so the join keeps its target where every bucket does; where one cannot, the
join misses it by what is missing there, since the others keep no more than they must.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tidegate.loss import interval

# Numbers of steering that are a share or a yes, not an amount.
_SHARES = ("target", "target_recall", "target_met", "target_missing_by", "miniature_share")
_MOST_POINTS = 12

Stats = Mapping[str, float]
Curve = Sequence[Mapping[str, float]]


def adds_up(name: str) -> bool:
    """Is this number of the join the sum of those of its buckets?"""
    return name not in _SHARES and not interval.is_of_one_sample(name)


def steered(buckets: Sequence[Stats]) -> dict[str, float]:
    """The numbers of a target and of miniatures that do not add up; none before they are known."""
    found: dict[str, float] = {}
    came = [stats["rows_in"] for stats in buckets]
    shares = [stats.get("miniature_share", 0.0) for stats in buckets]
    if sum(came) and any("miniature_share" in stats for stats in buckets):
        found["miniature_share"] = float(np.average(shares, weights=came))
    targets = [stats["target"] for stats in buckets if "target" in stats]
    if targets:
        found["target"] = targets[0]
    known = [stats for stats in buckets if "target_met" in stats]
    weights = [_results(stats) for stats in known]
    if sum(weights):
        for name in ("target_recall", "target_missing_by"):
            found[name] = float(np.average([stats[name] for stats in known], weights=weights))
        found["target_met"] = min(stats["target_met"] for stats in known)
    return found


def retention_curve(buckets: Sequence[tuple[Stats, Curve]]) -> Iterator[dict[str, float]]:
    """Memory of the whole join, shared evenly, and the recall that it would give.

    Of the points of all buckets some are asked for, and each bucket says what it would keep there;
    one that does not know is taken to be as the others.
    """
    known = [(stats, curve) for stats, curve in buckets if curve]
    if not known:
        return
    memories = np.unique([point["memory"] for _, curve in known for point in curve])
    places = np.linspace(0, len(memories) - 1, min(_MOST_POINTS, len(memories))).round()
    for memory in memories[places.astype(int)]:
        point = {"memory": float(memory) * len(buckets)}
        for measure, worth in (("recall", False), ("importance_recall", True)):
            recalls = [_recall_at(curve, float(memory), measure) for _, curve in known]
            weights = [max(_results(stats, worth), 1e-300) for stats, _ in known]
            point[measure] = float(np.average(recalls, weights=weights))
        yield point


def _recall_at(curve: Curve, memory: float, measure: str) -> float:
    memories = [0.0, *(point["memory"] for point in curve)]
    return float(np.interp(memory, memories, [0.0, *(point[measure] for point in curve)]))


def _results(stats: Stats, worth: bool = False) -> float:
    """What a bucket's sentinel says that there was; without one, what it gave out."""
    if worth:
        return float(stats.get("sentinel_importance_exact", stats["importance_out"]))
    return float(stats.get("sentinel_exact", stats["rows_out"]))
