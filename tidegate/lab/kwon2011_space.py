"""kwon2011, section 4: the space of EP and of the value-based algorithms, formulas (1) and (2).

Law: measured are the bytes that an engine holds more than one that keeps the newest tuples and so
knows nothing, after the same tuples. The hash table with its row of chains per bucket is in both:
every join has it, and BiHT with it, so the formula's 6 bytes per hash value are left out here.
"""

from __future__ import annotations

from typing import Any

import tidegate as tg
from tidegate.lab.claims import Claim
from tidegate.lab.figures import Figure, Findings, NumberTable, Record, Scale
from tidegate.lab.kwon2011_grid import EP, OURS, PAPER, POLICIES, RECENT
from tidegate.lab.kwon2011_streams import WINDOW, stream_names, travelling_keys

NAME = "Section 4"
NUMBERS = (3, 5, 7)
MEMORY = 500
_TUPLES = 2_000


def space_bytes(streams: int, memory: int, hash_values: int) -> int:
    """Formula (1): BiHT, and per stream 2^(n-1) entries and a pointer per tuple."""
    return 6 * hash_values + streams * (10 * 2 ** (streams - 1) + 2 * memory)


def value_based_space_bytes(streams: int, memory: int, domain: int) -> int:
    """Formula (2): per stream a table of all join attribute values and a pointer per tuple."""
    return streams * (8 * domain + 2 * memory)


def held(streams: int, policy: str) -> int:
    """Bytes that an engine holds after the streams have passed."""
    make: Any = getattr(tg, policy.replace("-", "_"))
    spec = tg.JoinSpec(
        on="key", time="ts", within=WINDOW, streams=stream_names(streams), split="even",
        memory=streams * MEMORY, policy=make(**POLICIES[policy]),
    )  # fmt: skip
    tables = travelling_keys(0, streams=streams, tuples=_TUPLES)
    return int(tg.join(tables, spec).stats["memory_bytes"])


def _read(records: list[Record], scale: Scale) -> Findings:
    rows, measured = [], {}
    for streams in NUMBERS:
        base = held(streams, RECENT)
        extra = {policy: held(streams, policy) - base for policy in (EP, "prob", "output", OURS)}
        measured[streams] = extra
        domain = streams * _TUPLES  # at most so many values occur
        numbers = [
            space_bytes(streams, MEMORY, 0), extra[EP],
            value_based_space_bytes(streams, MEMORY, domain), *[extra[p] for p in extra if p != EP],
        ]  # fmt: skip
        rows.append([f"{streams}", *[f"{number / 1000:,.0f}" for number in numbers]])
    columns = ["streams", "formula (1)", "EP", "formula (2)", "prob", "output", "value"]
    table = NumberTable("kilobytes beyond those of recent", columns, rows)
    claims = [
        Claim(
            PAPER, NAME, f"EP needs less than {other}: bytes of EP / {other}, 5 streams", 1.0,
            "at most",
        ).with_measured(measured[5][EP] / measured[5][other], "few values occur")
        for other in ("prob", "output")
    ]  # fmt: skip
    notes = [
        "Formula (1) takes 10 bytes per entry of a table and 2 per tuple. Here an entry takes 48 "
        "(r, n and halvings in 64 bits, its group and its worth), but only patterns that were seen "
        "have one.",
        "Formula (2) counts all values that occur here. In the engine only values of retained "
        "tuples have a record; others are a hash and 16 bits per stream, in a table that forgets.",
    ]
    return Findings(claims, [], [], notes, [table])


FIGURES = (
    Figure(
        PAPER, NAME, "Space",
        "EP takes 6 H + n (10 2^(n-1) + 2 M) bytes, value-based algorithms n (8 D + 2 M): far "
        "more where the domain D is large.",
        {"memory": f"{MEMORY} tuples per window", "streams": f"{_TUPLES:,} tuples each"},
        lambda scale: [], _read,
    ),
)  # fmt: skip
