"""What `uniform` promises: every result equally likely, independently, in the memory of a theorem.

Law: chi-square numbers are divided by their degrees of freedom, so 1 is what chance gives. The same
numbers of `eq-cluster`, whose results are included together, show that they can tell.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.side_by_side import Row, compared
from tidegate.sample.fraction import AgeModel, FrequencyModel

FRACTION = 0.3
ROWS, KEYS, WITHIN = 200, 8, 20
# Ages at which the partners of a tuple come. Even ones are those of the frequency model.
AGES = {"theorem 4.2": (10, 20, 30, 40), "theorem 4.3": (1, 2, 20, 40)}
WINDOW, STEP = 40, 20  # memory is looked at after each step


# --- which results are included ------------------------------------------------------------


def uniform_rows(quick: bool) -> list[Row]:
    samples = 400 if quick else 2000
    uniform = _included(tg.uniform(fraction=FRACTION, margin=30), 1000, samples)
    counts, results = uniform.sum(axis=0), uniform.shape[1]
    spread = samples * FRACTION * (1 - FRACTION)
    chi_square = float(((counts - samples * FRACTION) ** 2).sum() / spread)
    clusters = _included(tg.eq_cluster(), 25, samples)
    return [
        compared(f"uniform: chi-square of {results} results", chi_square / results, 1.0, "x"),
        compared("uniform: chi-square of pairs of results", _of_pairs(uniform), 1.0, "x"),
        compared("eq-cluster: chi-square of pairs of results", _of_pairs(clusters), 1.0, "x"),
    ]


def _included(policy: tg.Policy, memory: int, samples: int) -> NDArray[np.bool_]:
    """[sample, result]: is it there?"""
    rng = np.random.default_rng(9)
    tables = {
        name: pa.table(
            {
                "t": np.sort(rng.integers(0, ROWS, ROWS)),
                "k": rng.integers(0, KEYS, ROWS),
                f"row_{name}": np.arange(ROWS),
            }
        )
        for name in ("left", "right")
    }
    spec = tg.JoinSpec(on="k", time="t", within=WITHIN)
    place = np.full((ROWS, ROWS), -1)
    exact = tg.join(tables, spec).table
    place[exact["row_left"], exact["row_right"]] = np.arange(exact.num_rows)
    found = np.zeros((samples, exact.num_rows), np.bool_)
    for seed in range(samples):
        table = tg.join(tables, spec.replace(policy=policy, seed=seed, memory=memory)).table
        found[seed, place[table["row_left"], table["row_right"]]] = True
    return found


def _of_pairs(included: NDArray[np.bool_]) -> float:
    """The squared correlation of two results, times the samples: 1 by chance, mean over all pairs.

    Results that were always or never included say nothing.
    """
    share = included.mean(axis=0)
    varies = (share > 0.05) & (share < 0.95)
    standard = (included - share)[:, varies] / np.sqrt(share * (1 - share))[varies]
    squares = (standard.T @ standard) ** 2 / len(standard)
    pairs = squares[np.triu_indices(len(squares), 1)]
    return float(pairs.mean())


# --- memory ------------------------------------------------------------------------------


def memory_rows(quick: bool) -> list[Row]:
    tuples = 6_000 if quick else 48_000  # then a mean is known to about 3 %, or 1 %
    rows = []
    for theorem, ages in AGES.items():
        for fraction in (0.1, 0.5):
            model: FrequencyModel | AgeModel = AgeModel(1.0, ages)
            if theorem == "theorem 4.2":
                model = FrequencyModel([float(WINDOW)], [float(len(ages))])
            held, expected = _held(ages, fraction, tuples), model.expected_memory(fraction)
            rows.append(compared(f"memory: {theorem}, p = {fraction}", held, expected, "tuples"))
    return rows


def _held(ages: tuple[int, ...], fraction: float, tuples: int) -> float:
    """Tuples retained on average after the first window, one of which comes in a unit of time."""
    rng = np.random.default_rng(4)
    born = np.repeat(np.arange(tuples), len(ages))
    moments = born + np.tile(ages, tuples)
    order = np.lexsort((rng.random(len(moments)), moments))
    tables = {
        "left": pa.table({"t": np.arange(tuples), "k": np.arange(tuples)}),
        "right": pa.table({"t": moments[order], "k": born[order]}),
    }
    spec = tg.JoinSpec(
        on="k", time="t", within={"left": WINDOW, "right": 0}, memory=100_000,
        policy=tg.uniform(fraction, margin=0, matches=len(ages)),
    )  # fmt: skip
    engine = tg.JoinEngine(spec, {name: table.schema for name, table in tables.items()})
    held = []
    for begin in range(0, tuples, STEP):
        piece = {}
        for name, table in tables.items():
            first, stop = np.searchsorted(table["t"].to_numpy(), (begin, begin + STEP))
            piece[name] = table.slice(first, stop - first)
        engine.push(piece)
        if begin > WINDOW:
            held.append(engine.stats()["alive_left"])
    return float(np.mean(held))
