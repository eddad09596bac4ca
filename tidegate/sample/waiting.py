"""Which streams have tuples whose results come after them: shedding one of these loses results.

Law: where a stream does not wait, a tuple of it that was shed is missing from no result.
"""

from __future__ import annotations

from tidegate.spec import JoinSpec


def waiting(spec: JoinSpec) -> list[bool]:
    """For each stream: can a result of one of its tuples come after that tuple?

    A tuple with a time window of 0 still meets those of its own moment. Of these, tuples of later
    streams come after it, and with lateness all others may. An instant pairs its own itself.

    >>> join = JoinSpec(on="k", time="t", within={"left": 0, "right": 0})
    >>> waiting(join), waiting(join.replace(lateness=5)), waiting(join.replace(ties="instant"))
    ([True, False], [True, True], [False, False])
    """
    last = len(spec.streams) - 1
    disorder = spec.lateness_window.size > 0
    return [
        window.size > 0
        or (window.kind != "rows" and (disorder or (spec.ties == "arrival" and stream < last)))
        for stream, window in enumerate(spec.windows)
    ]
