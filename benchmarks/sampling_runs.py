"""Sampled joins with many seeds: the streams, their truths, and what the samples say of them.

Law: the same streams are sampled again and again, only the seed differs, and no two settings share
a seed: their errors are independent. `STREAMS=1` in the environment gives other streams of the same
kinds and other seeds, so that what was chosen with some can be checked with others.

| streams | |
|---|---|
| repeated | 30 keys, all as frequent |
| skew | Zipf's law |
| drift | the same, and every third of the stream other keys are the frequent ones |
| bursts | the same, half of the tuples in a tenth of the time: the hard budget evicts many |
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tidegate as tg

KINDS = ("repeated", "skew", "drift", "bursts")
KEYS, GROUPS = 30, 3
OTHER = int(os.environ.get("STREAMS", "0"))
COLUMNS = ["g", "k", "x", "x_b", "_weight"]
AGGREGATES = ("count(*)", "sum(x)", "avg(x_b)")  # the last of another stream than the second
COUNT, SUM, AVERAGE = AGGREGATES
TOGETHER = 100  # samples that are estimated in one call, grouped by seed

Floats = NDArray[np.float64]


class Setting(NamedTuple):
    """Streams, a join of them and its memory."""

    streams: int
    rows: int
    within: int
    memory: int
    skew: float  # of "skew", "drift" and "bursts": Zipf's exponent

    @property
    def names(self) -> tuple[str, ...]:
        return tuple("abcd"[: self.streams])


TWO = Setting(streams=2, rows=1200, within=40, memory=30, skew=1.3)
# Results of more streams are products, in which few keys are all there is if they are skewed.
THREE = Setting(streams=3, rows=800, within=24, memory=45, skew=0.6)
FOUR = Setting(streams=4, rows=600, within=24, memory=72, skew=0.4)


def tables_of(kind: str, setting: Setting) -> dict[str, pa.Table]:
    """Streams of a kind; x differs from tuple to tuple, g is a group of its key."""
    rng = np.random.default_rng(KINDS.index(kind) + 10 * setting.streams + 1000 * OTHER)
    rows, numbers = setting.rows, np.arange(setting.rows)
    skew = 0.0 if kind == "repeated" else setting.skew
    shares = 1.0 / np.arange(1, KEYS + 1) ** skew
    tables = {}
    for name in setting.names:
        key = rng.choice(KEYS, rows, p=shares / shares.sum())
        if kind == "drift":
            key = (key + numbers * 3 // rows) % KEYS
        times = rng.integers(0, rows, rows)
        if kind == "bursts":
            crowded = rng.random(rows) < 0.5
            times = np.where(crowded, times // 100 * 100 + times % 10, times)
        tables[name] = pa.table(
            {"t": np.sort(times), "k": key, "x": rng.normal(100, 30, rows), "g": key % GROUPS}
        )
    return tables


class Asked(NamedTuple):
    """An aggregate, of all results or of a group, and the truth."""

    aggregate: str
    by: str | None  # "g", or "k" for the many small groups of one key each
    group: int | None
    truth: float

    @property
    def label(self) -> str:
        return self.aggregate + ("" if self.by is None else f", {self.by} = {self.group}")


class Answers:
    """What so many samples said of a question."""

    def __init__(self) -> None:
        self.estimates: list[Floats] = []
        self.covered = self.known = 0

    def add(self, answer: pa.Table, truth: float) -> None:
        estimate, low, high = (
            answer.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
            for name in ("estimate", "low", "high")
        )
        self.estimates.append(estimate)
        is_known = ~np.isnan(low)
        self.known += int(is_known.sum())
        self.covered += int(((low <= truth) & (truth <= high)).sum())


class Case(NamedTuple):
    """A sampling policy on streams of a kind."""

    name: str
    policy: tg.Policy
    kind: str
    setting: Setting
    first_seed: int

    @property
    def label(self) -> str:
        streams = {2: "", 3: ", three streams", 4: ", four streams"}[self.setting.streams]
        return f"{self.name}, {self.kind}{streams}"

    def exact(self) -> pa.Table:
        return tg.join(tables_of(self.kind, self.setting), self.spec()).table

    def spec(self) -> tg.JoinSpec:
        setting = self.setting
        return tg.JoinSpec(on="k", time="t", within=setting.within, streams=setting.names)

    def samples(self, begin: int, end: int) -> Iterator[pa.Table]:
        """The samples of these seeds, some together, with their seed as a column."""
        tables, spec = tables_of(self.kind, self.setting), self.spec()
        for first in range(begin, end, TOGETHER):
            found = []
            for seed in range(first, min(end, first + TOGETHER)):
                sampled = spec.replace(
                    memory=self.setting.memory, policy=self.policy, seed=self.first_seed + seed
                )
                table = tg.JoinEngine(sampled).push(tables).select(COLUMNS)
                found.append(table.append_column("seed", pa.array(np.full(table.num_rows, seed))))
            yield pa.concat_tables(found)


def questions(exact: pa.Table) -> list[Asked]:
    """Of all results, of each group and of each key."""
    found = []
    for by in (None, "g", "k"):
        for group in (None,) if by is None else np.unique(exact[by].to_numpy()).tolist():
            at = exact[by].to_numpy() == group if by is not None else np.full(len(exact), True)
            x, other = (exact[name].to_numpy()[at] for name in ("x", "x_b"))
            truths = (float(len(x)), float(x.sum()), float(other.mean()))
            found += [Asked(a, by, group, t) for a, t in zip(AGGREGATES, truths, strict=True)]
    return found


def answers_of(case: Case, begin: int, end: int) -> dict[Asked, Answers]:
    """Estimate everything from the samples of these seeds."""
    found = {asked: Answers() for asked in questions(case.exact())}
    for table in case.samples(begin, end):
        said = {
            (aggregate, by): tg.estimate(
                table, aggregate, by=["seed", *([] if by is None else [by])]
            )
            for aggregate in AGGREGATES
            for by in (None, "g", "k")
        }
        for asked, answers in found.items():
            answer = said[asked.aggregate, asked.by]
            if asked.by is not None:
                answer = answer.filter(pa.array(answer[asked.by].to_numpy() == asked.group))
            answers.add(answer, asked.truth)
    return found


def judged_of(case: Case, samples: int) -> dict[Asked, Answers]:
    """Of what `tidegate.join` returns, whose stats show what `uniform` missed."""
    found = {asked: Answers() for asked in questions(case.exact()) if asked.by != "k"}
    tables, spec = tables_of(case.kind, case.setting), case.spec()
    for seed in range(samples):
        sampled = spec.replace(
            memory=case.setting.memory, policy=case.policy, seed=case.first_seed + seed
        )
        result = tg.join(tables, sampled)
        said = {(a, by): tg.estimate(result, a, by=by) for a in AGGREGATES for by in (None, "g")}
        for asked, answers in found.items():
            answer = said[asked.aggregate, asked.by]
            if asked.by is not None:
                answer = answer.filter(pa.array(answer[asked.by].to_numpy() == asked.group))
            answers.add(answer, asked.truth)
    return found


def counts_of(case: Case, begin: int, end: int) -> Floats:
    """The estimated numbers of results alone."""
    found = np.zeros(end - begin)
    for table in case.samples(begin, end):
        np.add.at(found, table["seed"].to_numpy() - begin, table["_weight"].to_numpy())
    return found


def z_of(estimates: Floats, truth: float) -> float:
    """How many standard errors of their mean estimates are off."""
    error = float(np.std(estimates)) / math.sqrt(len(estimates))
    return (float(np.mean(estimates)) - truth) / error


class Measured(NamedTuple):
    case: Case
    seeds: int
    answers: dict[Asked, Answers]
    cpu: float  # seconds

    def estimates(self, aggregate: str) -> tuple[Floats, float]:
        """Of all results, with the truth."""
        for asked, answers in self.answers.items():
            if asked.aggregate == aggregate and asked.by is None:
                estimates = np.concatenate(answers.estimates)
                assert len(estimates) == self.seeds  # no sample was empty
                return estimates, asked.truth
        raise KeyError(aggregate)

    @property
    def z(self) -> float:
        return z_of(*self.estimates(COUNT))

    @property
    def summary(self) -> str:
        """One line while others are still measured."""
        shares = [
            f"{answers.covered / max(1, answers.known):.3f} of {answers.known}"
            for asked, answers in self.answers.items()
            if asked.by != "k"
        ]
        return f"{self.case.label}, z {self.z:+.2f}, covered {', '.join(shares)}"


def cases(policies: dict[str, Any]) -> list[Case]:
    """All settings of these policies; `uniform` has two streams only, four streams take long."""
    found: list[Case] = []
    for setting, kinds in ((TWO, KINDS), (THREE, KINDS), (FOUR, ("repeated",))):
        for kind in kinds:
            for name, policy in policies.items():
                if setting.streams == 2 or not name.startswith("uniform"):
                    seed = 1_000_000 * (len(found) + 100 * OTHER)
                    found.append(Case(name, policy, kind, setting, seed))
    return found
