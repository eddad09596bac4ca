"""kwon2011, section 5: arrival-order patterns on generated streams, figures 5 to 10.

Law: what the paper leaves open is stated (`kwon2011_streams`), and where its statements depend on
the guess, both guesses are shown. Expected values are the paper's words: "outperforms" is a ratio
of at least 1, "almost the same" one near 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.lab.claims import Claim
from tidegate.lab.comparisons import Table
from tidegate.lab.configuration import EXACT
from tidegate.lab.figures import Figure, Findings, Record, Run, Scale
from tidegate.lab.kwon2011_grid import (
    ALL_ORDERS,
    EP,
    OTHERS,
    OURS,
    PAPER,
    RECENT,
    SETTINGS,
    ep_claims,
    grid,
    shown,
    tables_by,
    value_claims,
    versus_best,
)

MEMORIES = (100, 200, 300, 400, 500)
SKEWS = (0.0, 0.5, 1.0, 1.5, 2.0)
RATES = (10.0, 12.5, 16.7, 25.0)
NUMBERS = (3, 4, 5, 6, 7)
SPREADS = (15.0, 20.0, 25.0, 30.0, 35.0)
MEMORY = 500

_MANY_ORDERS = (
    "with all 325 orders nearly every pattern is as productive as the others, so patterns cannot "
    "tell tuples apart, while results need that the whole key is retained; EP keeps tuples of "
    "productive patterns whose keys have lost a tuple elsewhere"
)
_START = (
    "VALUE begins without knowledge, and memory holds so little of a window that few keys complete "
    "from which it could learn"
)


def alike(table: Table, figure: str, name: str, x: Any, why: str = "") -> Claim:
    """Whether the other algorithms do as random does."""
    row = table[x]
    claim = Claim(
        PAPER, figure, f"prob, output and random alike: least / greatest at {x}, {name}", 1.0,
        tolerance=0.15,
    )  # fmt: skip
    values = [row[each] for each in OTHERS]
    greatest = max(values)
    return claim.with_measured(min(values) / greatest if greatest else 1.0, why)


_DRAWN = (
    "our random draws a number when a tuple arrives and keeps high numbers until they expire; the "
    "paper's chooses anew at each eviction, which forgets the oldest sooner and does better here"
)


def along(argument: str, values: Sequence[Any]) -> Callable[[Scale], list[Run]]:
    """Runs for values of one argument of the streams."""

    def runs(scale: Scale) -> list[Run]:
        chosen = values[::2] if scale.quick else values
        return grid({value: ({argument: value}, MEMORY) for value in chosen}, scale)

    return runs


# --- Fig. 5 ------------------------------------------------------------------------------


def _runs_5(scale: Scale) -> list[Run]:
    memories = MEMORIES[::2] if scale.quick else MEMORIES
    return grid({memory: ({}, memory) for memory in memories}, scale)


def _read_5(records: list[Record], scale: Scale) -> Findings:
    tables = tables_by(records, "orders")
    claims = ep_claims(tables, "Fig. 5", "memory", _MANY_ORDERS)
    claims += [alike(table, "Fig. 5", name, MEMORY, _DRAWN) for name, table in tables.items()]
    claims += value_claims(tables, "Fig. 5", "memory", _START)
    drawn, rows, numbers = shown(tables, "orders", "memory per window, tuples")
    return Findings(claims, drawn, rows, [], [versus_best(tables, "memory"), *numbers])


_FEWER = "with skew the streams that frequent orders visit fill up, and fewer keys visit all"

# --- Fig. 6 ------------------------------------------------------------------------------


def _read_6(records: list[Record], scale: Scale) -> Findings:
    tables = tables_by(records, "orders")
    claims = []
    for name, table in tables.items():
        rises = Claim(
            PAPER, "Fig. 6", f"EP improves with skew: at 2 / at 0, {name}", 1.1, "at least"
        )
        flat = Claim(PAPER, "Fig. 6", f"random does not: at 2 / at 0, {name}", 1.0, tolerance=0.2)
        few = _FEWER if name == ALL_ORDERS else "20 orders are told apart without skew already"
        claims.append(rises.with_measured(table[2.0][EP] / table[0.0][EP], few))
        last = table[2.0]["random"] / table[0.0]["random"]
        claims.append(flat.with_measured(last, _FEWER))
    claims += value_claims(tables, "Fig. 6", "skew", _START)
    drawn, rows, numbers = shown(tables, "orders", "Zipf skew of the orders")
    return Findings(claims, drawn, rows, [], [versus_best(tables, "skew"), *numbers])


# --- Fig. 7 ------------------------------------------------------------------------------


_RATE = (
    "the gap between the visits of a key is counted in tuples, so a higher rate only makes the "
    "window hold more tuples, of which the same memory keeps a smaller part"
)


def _read_7(records: list[Record], scale: Scale) -> Findings:
    tables = tables_by(records, "orders")
    claims = ep_claims(tables, "Fig. 7", "rates", _MANY_ORDERS)
    for name, table in tables.items():
        rises = Claim(
            PAPER, "Fig. 7", f"EP improves with the rate: at 16.7 / at 10, {name}", 1.0, "at least"
        )
        flat = Claim(
            PAPER, "Fig. 7", f"the others stay: random at the largest rate / at 10, {name}", 1.0,
            tolerance=0.15,
        )  # fmt: skip
        claims.append(rises.with_measured(table[16.7][EP] / table[10.0][EP], _RATE))
        last = table[max(table)]["random"] / table[10.0]["random"]
        claims.append(flat.with_measured(last, _RATE))
    claims += value_claims(tables, "Fig. 7", "rates", _START)
    drawn, rows, numbers = shown(tables, "orders", "tuples per second of each stream")
    notes = [
        "The paper's EP falls above 16.7 because its machine could not keep up; here a run takes "
        "as long as it takes."
    ]
    return Findings(claims, drawn, rows, notes, [versus_best(tables, "rate"), *numbers])


# --- Fig. 8 ------------------------------------------------------------------------------


def _read_8(records: list[Record], scale: Scale) -> Findings:
    tables = tables_by(records, "orders")
    claims = ep_claims(tables, "Fig. 8", "numbers of streams", _MANY_ORDERS)
    claims += value_claims(tables, "Fig. 8", "numbers of streams", _START)
    drawn, rows, numbers = shown(tables, "orders", "streams")
    notes = [
        "20 of the orders are 20 of 15 with 3 streams, and of 13,699 with 7: the share of keys "
        "that visit all streams is the same."
    ]
    return Findings(claims, drawn, rows, notes, [versus_best(tables, "streams"), *numbers])


# --- Fig. 9 ------------------------------------------------------------------------------

_TIMED = (EXACT, OURS, EP, RECENT, "prob", "output")
_LONG, _SHORT = 80_000, 5_000
_SMALL = "the policies' shares of the time are small beside the probe, and the machine was busy"
_PLACES = (
    "here a pattern is a row of an array and only patterns of retained tuples stand in the "
    "queue, so 64 of them cost little more than 4; the probe, which fails earlier with more "
    "streams, is in the time too"
)


def _runs_9(scale: Scale) -> list[Run]:
    tuples = _SHORT if scale.quick else _LONG
    few = Scale(quick=True, data=scale.data)  # three seeds are enough for times
    memories = {f"M {m}": ({"tuples": tuples}, m) for m in (100, 300, 500)}
    numbers = {f"n {n}": ({"tuples": tuples, "streams": n}, MEMORY) for n in (3, 5, 7)}
    return grid(memories | numbers, few, {ALL_ORDERS: {}}, _TIMED)


def _read_9(records: list[Record], scale: Scale) -> Findings:
    tuples = _SHORT if scale.quick else _LONG
    panels = {"M": "by memory per window, 5 streams", "n": "by streams, memory 500"}
    timed = []
    for record in records:
        kind, number = str(record["x"]).split()
        streams = int(number) if kind == "n" else 5
        took = 1e6 * record["seconds"] / (streams * tuples)
        timed.append({**record, "panel": panels[kind], "x": int(number), "micro": took})
    tables = tables_by(timed, "panel", "micro")
    by_memory, by_number = (tables[panel] for panel in panels.values())
    claims = []
    for other in ("prob", "output"):
        quicker = Claim(
            PAPER, "Fig. 9", f"EP takes less time per tuple: EP / {other} at memory 500", 1.0,
            "at most", timed=True,
        )  # fmt: skip
        ratio = by_memory[500][EP] / by_memory[500][other]
        claims.append(quicker.with_measured(ratio, _SMALL))
    grows = Claim(
        PAPER, "Fig. 9", "EP grows with the streams: at 7 / at 3", 1.0, "at least", timed=True
    )
    claims.append(grows.with_measured(by_number[7][EP] / by_number[3][EP], _PLACES))
    micro = "microseconds per tuple"
    drawn, rows, numbers = shown(tables, "panel", "memory, or streams", micro, apart=True)
    notes = [
        "Times are those of the whole join, the probe included; the paper times decisions alone. "
        "Its value-based algorithms search all values, ours move the groups of one key, so the "
        "differences are small."
    ]
    return Findings(claims, drawn, rows, notes, numbers)


# --- Fig. 10 -----------------------------------------------------------------------------


def _runs_10(scale: Scale) -> list[Run]:
    spreads = SPREADS[::2] if scale.quick else SPREADS
    places: Mapping[Any, tuple[dict[str, Any], int]] = {
        spread: ({"keys": "normal", "spread": spread}, MEMORY) for spread in spreads
    }
    return grid(places, scale, {ALL_ORDERS: {}})


def _read_10(records: list[Record], scale: Scale) -> Findings:
    tables = tables_by(records, "orders")
    table = tables[ALL_ORDERS]
    ahead = Claim(
        PAPER, "Fig. 10", "value-based ahead at small variance: least of prob, output / EP at 15",
        1.0, "at least",
    )  # fmt: skip
    near = Claim(
        PAPER, "Fig. 10", "alike at large variance: best of prob, output / EP at 35", 1.0,
        tolerance=0.5,
    )  # fmt: skip
    small, large = table[15.0], table[35.0]
    why = (
        "results are products of five counts, so who keeps the frequent keys is ahead by orders of "
        "magnitude at any variance of the figure"
    )
    claims = [
        ahead.with_measured(min(small["prob"], small["output"]) / small[EP], why),
        near.with_measured(max(large["prob"], large["output"]) / large[EP], why),
    ]
    claims += value_claims(
        tables, "Fig. 10", "variance",
        "which keys are frequent has to be learned, and PROB takes counts at their word at once",
    )  # fmt: skip
    drawn, rows, numbers = shown(tables, "orders", "standard deviation of the keys")
    notes = ['"Variance" 15 to 35 is read as the standard deviation; results are counted only.']
    return Findings(claims, drawn, rows, notes, [versus_best(tables, "deviation"), *numbers])


def _figure(
    number: int, title: str, states: str, runs: Callable[[Scale], list[Run]], read: Any
) -> Figure:
    return Figure(PAPER, f"Fig. {number}", title, states, SETTINGS, runs, read)


FIGURES = (
    _figure(
        5, "Memory size", "EP significantly outperforms the others at all memory sizes; these show "
        "almost the same performance.", _runs_5, _read_5,
    ),
    _figure(
        6, "Skew of the orders", "EP improves as the skew of the orders grows; the others do not.",
        along("skew", SKEWS), _read_6,
    ),
    _figure(
        7, "Arrival rate", "EP is ahead at all rates and improves up to 16.7 tuples per second; "
        "the others stay almost the same.", along("rate", RATES), _read_7,
    ),
    _figure(
        8, "Number of streams", "EP is ahead for 3 to 7 streams.",
        along("streams", NUMBERS), _read_8,
    ),
    _figure(
        9, "Processing time", "EP takes much less time per tuple than the value-based algorithms; "
        "its time grows with the number of streams.", _runs_9, _read_9,
    ),
    _figure(
        10, "Normally distributed keys", "Value-based algorithms are ahead at small variance, and "
        "all become similar as it grows.", _runs_10, _read_10,
    ),
)  # fmt: skip
