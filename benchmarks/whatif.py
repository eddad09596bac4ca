"""What-if: retention curves from a part of the tuples beside the replay of all, and its time.

Law: `ours` of an error is the mean distance between the recall that `tg.whatif` says with 1 % of
the results of each key and the recall of the full replay, over policies, memories and seeds;
`theirs` is the 0.01 that is the aim. Of coverage, `ours` is the share of 95 % intervals that hold
the recall of the full replay, and `theirs` 0.95. Of time, `ours` are the CPU seconds of one sampled
study (one seed: the sample and its replays) and `theirs` those of the full replays. Of the command,
`ours` are the seconds on the wall from two Parquet files of a million rows each to the answer, with
compiled code, and `theirs` the 60 that are the aim.

The streams have 5 million tuples each: keys with a steep popularity, the same with other keys
popular in the second half, and keys that live for a while (tuples of one stream follow those of the
other, some keys more than others).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.side_by_side import Row, compared
from tidegate import JoinSpec
from tidegate.planner.replays import Study

ROWS, QUICK_ROWS = 5_000_000, 500_000  # of each stream
SHARE, QUICK_SHARE = 0.01, 0.04
SAMPLES = 3
SEED = 1
POLICIES = ("random", "prob", "value")
MEMORIES = (0.05, 0.15, 0.4)  # of what the exact join holds
SKEW = 0.8
COMMAND_ROWS, COMMAND_SECONDS = 1_000_000, 60.0

Tables = dict[str, pa.Table]


def _table(moments: np.ndarray, keys: np.ndarray) -> pa.Table:
    return pa.table({"time": moments, "key": keys})


def _popular(rng: np.random.Generator, rows: int) -> np.ndarray:
    weights = 1.0 / np.arange(1, rows // 2 + 1) ** SKEW
    return np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(rows)).astype(np.int64)


def _skewed(rng: np.random.Generator, rows: int) -> Tables:
    return {name: _table(np.arange(rows), _popular(rng, rows)) for name in ("left", "right")}


def _drifting(rng: np.random.Generator, rows: int) -> Tables:
    """Other keys become popular halfway."""
    tables = {}
    for name in ("left", "right"):
        keys = _popular(rng, rows)
        keys[rows // 2 :] = (keys[rows // 2 :] + rows // 7) % (rows // 2)
        tables[name] = _table(np.arange(rows), keys)
    return tables


def _following(rng: np.random.Generator, rows: int) -> Tables:
    """Four tuples of a key on the left soon after it is born, some on the right a while later."""
    keys = rows // 4
    born = np.sort(rng.integers(0, rows, keys)).astype(np.float64)
    weights = rng.lognormal(0.0, 1.0, keys)
    parts = {
        "left": (np.repeat(np.arange(keys), 4), rows / 1_000),
        "right": (
            np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(4 * keys)),
            rows / 200,
        ),
    }
    tables = {}
    for name, (key, delay) in parts.items():
        moments = born[key] + rng.exponential(delay, len(key))
        order = np.argsort(moments, kind="stable")
        tables[name] = _table(moments[order].astype(np.int64), key[order])
    return tables


STREAMS = {"skewed": (_skewed, 100), "drifting": (_drifting, 100), "following": (_following, 50)}


def _measured(name: str, quick: bool, seed: int) -> list[Row]:
    make, windows = STREAMS[name]
    rows, share = (QUICK_ROWS, QUICK_SHARE) if quick else (ROWS, SHARE)
    tables = make(np.random.default_rng(seed), rows)
    spec = JoinSpec(on="key", time="time", within=rows // windows)
    began = time.process_time()
    full = Study.of(tables, spec, 1.0, "size")
    budgets = full.default_budgets(MEMORIES)
    asked = [(policy, budget) for policy in POLICIES for budget in budgets]
    truth = [full.row(policy, policy, budget)["recall"] for policy, budget in asked]
    of_all = time.process_time() - began
    errors, inside = [], []
    began = time.process_time()
    for sample in range(SAMPLES):
        some = Study.of(tables, spec.replace(seed=100 * seed + sample), share, "size")
        found = [
            row
            for policy in POLICIES
            for row in some.bounded([some.row(policy, policy, budget) for budget in budgets])
        ]
        for row, true in zip(found, truth, strict=True):
            errors.append((row["policy"], row["recall"] - true))
            inside.append(row["low"] <= true <= row["high"])
    of_some = (time.process_time() - began) / SAMPLES
    about = f"{name}, {2 * rows:,} tuples, {share:.0%}"
    return [
        *(
            compared(
                f"{about}: mean error of {policy}", _mean_error(errors, policy), 0.01, "recall"
            )
            for policy in POLICIES
        ),
        compared(
            f"{about}: mean error", float(np.mean([abs(e) for _, e in errors])), 0.01, "recall"
        ),
        compared(f"{about}: intervals that hold", float(np.mean(inside)), 0.95, "share"),
        compared(f"{about}: time", of_some, of_all, "CPU s"),
    ]


def _mean_error(errors: list[tuple[str, float]], policy: str) -> float:
    return float(np.mean([abs(error) for name, error in errors if name == policy]))


def _command() -> Row:
    """The whole command, as a user gives it."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder, f"{name}.parquet")) for name in ("left", "right")]
        for path, table in zip(
            paths, _skewed(np.random.default_rng(1), COMMAND_ROWS).values(), strict=True
        ):
            pq.write_table(table, path)
        words = [*paths, "--on", "key", "--time", "time", "--within", str(COMMAND_ROWS // 20)]
        seconds = []
        for _ in range(2):  # the first may have to compile
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "tidegate", "whatif", *words, "--json"],
                check=True,
                capture_output=True,
            )
            seconds.append(time.perf_counter() - began)
    rows = f"{COMMAND_ROWS:,} rows per side, all policies"
    return compared(f"tidegate whatif, {rows}", seconds[-1], COMMAND_SECONDS, "s")


def run(quick: bool = False, seed: int = SEED) -> list[Row]:
    """The command, and one table for each kind of streams; only the first, smaller, if quick."""
    names = list(STREAMS)[:1] if quick else list(STREAMS)
    return [_command(), *(row for name in names for row in _measured(name, quick, seed))]
