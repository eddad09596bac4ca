"""Random cases for the join of n streams: few times and few keys, so that edges are common.

A case is a spec and its pushes as lists of dicts. Every stream has its own window, of time or of
counts; keys have one or two columns, with NULL and NaN among their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from naive_many import Push

import tidegate as tg

KEYS = (1, 1, 2, 2, 3, None, float("nan"))
WEIGHTS = (1.0, 2.0, 0.5, 4.0)
BAD_WEIGHTS = (None, 0.0, -1.0, float("nan"))


@dataclass(frozen=True)
class ManyCase:
    spec: tg.JoinSpec
    pushes: tuple[Push, ...]


def names_of(streams: int) -> tuple[str, ...]:
    return tuple(f"s{number}" for number in range(1, streams + 1))


def many_case(
    seed: int, streams: int, rows: int = 5, budget: bool = False, **options: Any
) -> ManyCase:
    """`rows` is the most that one stream sends; `options` override what is drawn."""
    random = Random(seed)
    names = names_of(streams)
    columns = random.choice((1, 1, 2))
    ordered = random.random() < 0.5
    drawn: dict[str, Any] = {
        "on": [f"k{c}" for c in range(columns)],
        "time": "ts",
        "streams": names,
        "within": {name: window(random) for name in names},
        "importance": random.choice((None, "weight")),
        "output_importance": random.choice(("min", "max", "sum", "product", "mean")),
        "ties": random.choice(("arrival", "instant")),
        "lateness": 0 if ordered else random.randint(0, 3),
        "seed": random.randint(0, 99),
        **(budget_of(random, names, rows) if budget else {}),
    }
    spec = tg.JoinSpec(**{**drawn, **options})
    pushes = random.randint(1, 4)
    tables: list[dict[str, list[Any]]] = [{} for _ in range(pushes)]
    for name in names:
        for _ in range(random.randint(0 if streams < 6 else 1, rows)):
            time = random.randint(0, 7)
            push = time * pushes // 8
            if not ordered:  # pushes overlap in time, and the clock still goes on
                push = random.randrange(pushes)
                time += 3 * push
            tables[push].setdefault(name, []).append(row(random, time, columns))
    watermarks: list[Any] = [None] * pushes
    if not ordered and random.random() < 0.3:
        watermarks = [random.choice((None, *range(12))) for _ in range(pushes)]
    return ManyCase(spec, tuple(map(Push, tables, watermarks)))


def window(random: Random) -> Any:
    return tg.rows(random.randint(0, 4)) if random.random() < 0.3 else random.randint(0, 6)


def row(random: Random, time: int, columns: int) -> dict[str, Any]:
    keys = {f"k{c}": random.choice(KEYS[: 7 if c == 0 else 3]) for c in range(columns)}
    good = random.random() < 0.95
    weight = random.choice(WEIGHTS if good else BAD_WEIGHTS)
    return {"ts": None if random.random() < 0.03 else time, "weight": weight, **keys}


def budget_of(random: Random, names: tuple[str, ...], rows: int) -> dict[str, Any]:
    memory = random.randint(0, len(names) * rows // 2)
    split: Any = random.choice(("even", "shared", "explicit"))
    if split == "explicit":
        split = dict.fromkeys(names, 0)
        for _ in range(memory):
            split[random.choice(names)] += 1
    return {"memory": memory, "split": split, "policy": "recent"}
