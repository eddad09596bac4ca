"""kwon2011, section 3: the example of 3.3 and the priorities of Fig. 3.

Law: the packets go through the engine as they are; who was dropped is found out by sending what is
missing to a result, so only public names are used.
"""

from __future__ import annotations

import pyarrow as pa

import tidegate as tg
from tidegate.compiled.kernel import alone
from tidegate.estimators import patterns
from tidegate.lab.claims import Claim
from tidegate.lab.figures import Figure, Findings, Record, Scale
from tidegate.lab.kwon2011_grid import PAPER

# Fig. 4b as the text gives it, in one possible order: (tuple, stream, pid). S3 holds pid 5 and
# three packets that only it has seen.
FIGURE_4 = (
    ("t9", 3, 5), ("t5", 2, 4), ("t1", 1, 1), ("t6", 2, 1), ("t7", 2, 5), ("t10", 3, 91),
    ("t2", 1, 2), ("t8", 2, 2), ("t3", 1, 4), ("t11", 3, 92), ("t4", 1, 5), ("t12", 3, 93),
)  # fmt: skip
# Before: packets pass R1, R2, R3 or R3, R2, R1; some come to R2 first, then to R1, never to R3.
BEFORE = [(1, 2, 3), (3, 2, 1), (2, 1)] * 4
T22 = (8, 10)  # r and n of its pattern in Fig. 3
NAME = "Example 3.3"
_ROUTERS = (1, 2, 3)


class Routers:
    """A 3-way join on pid with memory for four tuples of each stream, up to Fig. 4b."""

    def __init__(self) -> None:
        self.engine = tg.JoinEngine(
            tg.JoinSpec(
                on="pid", time="ts", within=1000, streams=("s1", "s2", "s3"), memory=12,
                split="even", policy=tg.arrival_order(fade=None),
            )
        )  # fmt: skip
        self.clock = 0
        for packet, path in enumerate(BEFORE):
            for router in path:
                self.send(router, 1000 + packet)
        self.clock += 2000
        for _, router, pid in FIGURE_4:
            self.send(router, pid)

    def send(self, router: int, pid: int) -> int:
        """Returns the number of results."""
        self.clock += 1
        table = pa.table({"ts": [self.clock], "pid": [pid]})
        return self.engine.push({f"s{router}": table}).num_rows


def dropped(router: int, new: tuple[int, ...]) -> set[str]:
    """Who of Fig. 4b on a stream is gone after new packets have come to it."""
    gone = set()
    for name, at, pid in FIGURE_4:
        if at == router:
            routers = Routers()
            for packet in new:
                routers.send(router, packet)
            found = [routers.send(other, pid) for other in _ROUTERS if other != router]
            if not any(found):
                gone.add(name)
    return gone


def priority(stream: int, streams: tuple[int, ...], results: float, tuples: float) -> float:
    """What the engine makes of r and n of a pattern, named by the streams that are in it."""
    bits = sum(1 << (each - 1) for each in streams)
    place = alone(patterns.place_of)(bits, stream - 1)
    table = patterns.empty(3, float("inf"))
    row = alone(patterns.row_of)(table, place)
    table.results[row, stream - 1], table.retained[row, stream - 1] = results, tuples
    return float(alone(patterns.worth_of)(table, row, stream - 1))


def _read(records: list[Record], scale: Scale) -> Findings:
    cases = (
        ("case 1: a new tuple on S1 drops t4 only", 1, (6,), {"t4"}),
        ("case 1: the next one drops t3 too", 1, (6, 7), {"t4", "t3"}),
        ("case 2: a new tuple on S2 drops t5 only", 2, (6,), {"t5"}),
    )
    claims = [
        Claim(PAPER, NAME, words, 1.0).with_measured(float(dropped(router, new) == expected))
        for words, router, new, expected in cases
    ]
    fig_3 = Claim(PAPER, NAME, "Fig. 3: the priority of t22, of the pattern '011'", 0.8)
    claims.append(fig_3.with_measured(priority(2, (2, 3), *T22)))
    return Findings(claims)


FIGURES = (
    Figure(
        PAPER, NAME, "Who goes, on three routers",
        "Case 1: t4, whose pattern is complete, is dropped first, then t3. Case 2: t5 is dropped, "
        "since keys that come to S2 first seldom appear everywhere.",
        {"memory": "4 tuples per window", "policy": "arrival-order, fade=None"},
        lambda scale: [], _read,
    ),
)  # fmt: skip
