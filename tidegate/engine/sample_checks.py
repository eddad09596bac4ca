"""Which joins can be sampled at all.

Law: every result of the join has a chance to be in the sample; otherwise estimates would be wrong
and nobody could tell. What has none is refused before the first row.
"""

from __future__ import annotations

from tidegate.sample.waiting import waiting
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.policy import is_sampling
from tidegate.state.settings import capacities


def check_sample(spec: JoinSpec) -> None:
    """An error if a sampling policy would miss some results whatever it draws."""
    if not is_sampling(spec.policy_choice):
        return
    name, streams = spec.policy_choice.name, len(spec.streams)
    if name == "uniform" and streams != 2:
        raise TidegateError(
            f"policy 'uniform' samples joins of two streams, and streams {spec.streams!r} are "
            f"{streams}: it draws each result for the one tuple that waits for it; give "
            "'eq-cluster' or 'pps-cluster'"
        )
    if spec.cpu is not None:
        raise TidegateError(
            f"policy {name!r} is refused under cpu=: results that no comparison found would be "
            "missing from every estimate; leave cpu= out, or give a policy that is no sample"
        )
    if spec.memory_rows is None:
        return
    rooms = capacities(spec, spec.memory_rows)
    waits = waiting(spec)
    # Of a result all tuples but the last are retained, each by its stream or all by one pool.
    if spec.split in ("shared", "auto"):
        needed = min(streams - 1, sum(waits))
        if int(rooms[0]) < needed:
            raise TidegateError(
                f"memory {spec.memory_rows} holds no result of policy {name!r}: the join of "
                f"{streams} streams needs {needed} retained tuple{'s' * (needed > 1)} for one; "
                "give more"
            )
        return
    for stream, room in enumerate(rooms):
        if waits[stream] and int(room) < 1:
            raise TidegateError(
                f"split leaves stream {spec.streams[stream]!r} no memory, so policy {name!r} would "
                "miss all results for which its tuples wait; give each stream at least one tuple, "
                "or split='shared'"
            )
