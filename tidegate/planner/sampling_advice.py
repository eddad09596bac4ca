"""Which sampling policy estimates an aggregate best, from samples of the streams.

srivastava2004, section 4.3.2 names what matters: how well the number of results of a tuple can be
guessed, how much clusters differ, and their sizes. All three show on samples of both streams, so
the errors themselves are computed and the smallest wins. With r the residual of a result (1 for a
count, x for a sum, x - mean for an average) and clusters c of the results that a tuple waits for:

    uniform       (1/p - 1) sum r^2            p: the fraction that fits the memory (theorem 4.2)
    eq-cluster    sum (1/pi - 1) (sum r)^2     pi = memory / tuples in full windows
    pps-cluster   the same                     pi proportional to expected matches, capped at 1

Law: `uniform` is not recommended where it would miss more than MOST_MISSED of the results, because
tuples have more of them than expected: that error does not shrink with memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.result_schema import schema_of
from tidegate.columns.intake import to_arrow
from tidegate.planner.sample import keys_of, moments_of
from tidegate.sample.aggregate import AVG, COUNT, Aggregate, parse
from tidegate.sample.asked import not_a_number
from tidegate.sample.fraction import FrequencyModel, largest_fraction
from tidegate.sample.inclusion import inclusion_probabilities
from tidegate.spec import Equal, JoinSpec, TidegateError

Floats = NDArray[np.float64]
MOST_MISSED = 0.02
MARGIN = 2.0  # standard deviations, as `tidegate.uniform` takes by default
UNSEEN = 0.5  # matches of a key that was not seen yet, as `pps-cluster` takes


@dataclass(frozen=True)
class SamplingAdvice:
    """The recommended policy, and what it follows from.

    policy
        "uniform", "eq-cluster" or "pps-cluster".
    errors
        The expected standard error of each, as a share of the aggregate over the samples.
    missed
        The share of the results that `uniform` would miss.
    size_variation
        Standard deviation / mean of the sizes of clusters.
    """

    aggregate: str
    policy: str
    errors: Mapping[str, float]
    missed: float
    size_variation: float

    @property
    def sentence(self) -> str:
        """The advice in words."""
        errors = ", ".join(f"{name} {error:.1%}" for name, error in self.errors.items())
        said = f"{self.policy} for {self.aggregate} (expected error: {errors})"
        if self.missed > MOST_MISSED:
            said += f"; uniform would miss {self.missed:.0%} of the results"
        return said


@dataclass(frozen=True)
class _Clusters:
    """Of each tuple of a stream: its results, those expected, and sums of residuals over them."""

    sizes: Floats
    expected: Floats
    sums: Floats
    squares: Floats
    held: float  # tuples in a full window


def sampling_advice(
    streams: Mapping[str, Any], spec: JoinSpec, memory: float, aggregate: str
) -> SamplingAdvice:
    """Recommend a sampling policy for an aggregate of a join, from samples of its streams."""
    wanted = parse(aggregate)
    _check(spec, memory)
    tables = [to_arrow(streams[name], name) for name in spec.streams]
    _, keys = keys_of(tables, spec)
    times = [moments_of(t[c], c) for t, c in zip(tables, spec.time_columns, strict=True)]
    values = _values(tables, spec, wanted)
    lines = [_line(keys[s], times[s], values[s]) for s in (0, 1)]
    both = [_clusters(lines, spec, stream, centre=0.0) for stream in (0, 1)]
    results = sum(float(each.sizes.sum()) for each in both)
    if results == 0:
        raise TidegateError("the samples have no result in common; give longer samples")
    total = sum(float(each.sums.sum()) for each in both)
    centre = total / results if wanted.function == AVG else 0.0
    if centre:
        both = [_clusters(lines, spec, stream, centre) for stream in (0, 1)]
    scale = abs(total) or 1.0
    errors = {
        name: float(np.sqrt(variance)) / scale
        for name, variance in _variances(both, memory).items()
    }
    sizes = np.concatenate([each.sizes for each in both if each.sizes.any()])
    guesses = [np.ceil(c.expected + MARGIN * np.sqrt(c.expected + 1.0)) for c in both]
    beyond = [np.maximum(0.0, c.sizes - g).sum() for c, g in zip(both, guesses, strict=True)]
    missed = float(sum(beyond)) / results
    allowed = [name for name in errors if name != "uniform" or missed <= MOST_MISSED]
    return SamplingAdvice(
        aggregate=aggregate,
        policy=min(allowed, key=lambda name: (round(errors[name], 6), name != "eq-cluster")),
        errors=errors,
        missed=missed,
        size_variation=float(sizes.std() / sizes.mean()),
    )


def _check(spec: JoinSpec, memory: float) -> None:
    if len(spec.streams) != 2 or not any(isinstance(p, Equal) for p in spec.predicates):
        raise TidegateError("sampling is planned for equality joins of two streams")
    if any(window.kind == "rows" for window in spec.windows):
        raise TidegateError("sampling is planned for time windows; this join counts rows")
    if not memory > 0:
        raise TidegateError(f"memory {memory:g} holds no tuple, so there is no sample; give more")


def _values(tables: list[pa.Table], spec: JoinSpec, wanted: Aggregate) -> list[Floats | None]:
    """The column of the aggregate, at the stream that has it."""
    found: list[Floats | None] = [None, None]
    if wanted.function == COUNT:
        return found
    labels = schema_of(spec.streams, [table.schema for table in tables]).names
    if wanted.column not in labels[:-1]:
        raise TidegateError(
            f"the results have no column {wanted.column!r}; they have {', '.join(labels)}"
        )
    place = labels.index(wanted.column)
    width = tables[0].num_columns
    stream = int(place >= width)
    column = tables[stream].column(place - stream * width)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise not_a_number(wanted, kind)
    found[stream] = np.nan_to_num(np.asarray(column.cast(pa.float64()).to_pandas(), np.float64))
    return found


def _line(keys: Floats, times: Floats, values: Any) -> tuple[Floats, Floats, Any]:
    """The rows that can be joined, by key and time."""
    good = ~np.isnan(keys) & ~np.isnan(times)
    order = np.lexsort((times[good], keys[good]))
    kept = None if values is None else values[good][order]
    return keys[good][order], times[good][order], kept


def _clusters(lines: list[Any], spec: JoinSpec, stream: int, centre: float) -> _Clusters:
    keys, times, own = lines[stream]
    other_keys, other_times, other = lines[1 - stream]
    lengths = [w.size / (1e6 if w.kind == "duration" else 1) for w in spec.windows]
    begin = min(times.min(initial=0.0), other_times.min(initial=0.0))
    width = max(times.max(initial=0.0), other_times.max(initial=0.0)) - begin + 1.0
    width += 2.0 * sum(lengths)
    places = other_keys * width + (other_times - begin)
    at = keys * width + (times - begin) + sum(lengths)
    places = places + sum(lengths)
    # Of equal times the first stream comes first: its tuples wait for those of the second.
    after: Literal["left", "right"] = "left" if stream == 0 else "right"
    first = np.searchsorted(places, at, after)
    last = np.searchsorted(places, at + lengths[stream], "right")
    before = np.searchsorted(places, at - lengths[1 - stream], "left")
    sizes = (last - first).astype(np.float64)
    ratio = lengths[stream] / lengths[1 - stream] if lengths[1 - stream] else 1.0
    expected = (first - before) * ratio
    if own is not None:
        sums, squares = sizes * (own - centre), sizes * (own - centre) ** 2
    elif other is not None:
        run = np.concatenate([[0.0], np.cumsum(other - centre)])
        run_of_squares = np.concatenate([[0.0], np.cumsum((other - centre) ** 2)])
        sums, squares = run[last] - run[first], run_of_squares[last] - run_of_squares[first]
    else:
        sums, squares = sizes, sizes
    span = float(np.ptp(times)) if len(times) else 0.0
    held = len(times) * min(1.0, lengths[stream] / span) if span else float(len(times))
    return _Clusters(sizes, np.asarray(expected, np.float64), sums, squares, held)


def _variances(both: list[_Clusters], memory: float) -> dict[str, float]:
    tuples = [np.full(len(c.sizes), c.held / max(1, len(c.sizes))) for c in both]
    models = [
        FrequencyModel(number, cluster.sizes) for number, cluster in zip(tuples, both, strict=True)
    ]
    fraction = largest_fraction(memory, models)
    sums = np.concatenate([c.sums for c in both])
    expected = np.concatenate([c.expected for c in both]) + UNSEEN
    numbers = np.concatenate(tuples)
    variances = {"uniform": (1.0 / max(fraction, 1e-12) - 1.0) * sum(c.squares.sum() for c in both)}
    for name, size in (("eq-cluster", np.ones(len(expected))), ("pps-cluster", expected)):
        chance = inclusion_probabilities(size, memory, numbers)
        variances[name] = ((1.0 / chance - 1.0) * sums**2).sum()
    return {name: float(variance) for name, variance in variances.items()}
