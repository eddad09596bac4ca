"""A plan as a spec that the engine obeys (kang2003, section 5.2).

Law: what the plan says of each stream is what the engine does. Windows that are cut are a budget in
tuples, split as planned, under which tuples are kept at random; effective rates are the share of a
stream's arrivals that search, drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tidegate.planner.quadrants import Allocation
from tidegate.spec import Cpu, JoinSpec, TidegateError
from tidegate.spec import policy as policies


def obeying(
    spec: JoinSpec, streams: tuple[str, str], indexes: Mapping[str, str], allocation: Allocation
) -> JoinSpec:
    """The spec with what each stream gets."""
    if tuple(spec.streams) != tuple(streams):
        raise TidegateError(
            f"the plan is for the streams {', '.join(map(repr, streams))} and the spec has "
            f"{', '.join(map(repr, spec.streams))}; plan with the spec, or name its streams so"
        )
    changes: dict[str, object] = {"index": dict(indexes)}
    if "memory" in allocation.scarce:
        kept = tuple(math.floor(window) for window in allocation.windows)
        changes |= {"memory": sum(kept), "split": kept, "policy": policies.random()}
    if "cpu" in allocation.scarce:
        search = dict(zip(streams, allocation.search, strict=True))
        changes["cpu"] = Cpu(search=search)
    return spec.replace(**changes)
