"""`tidegate.plan`: the recommended indexes, what a join will cost and hold, and what less would do.

Law: a plan is data. All of it follows from a workload and weights; where a number needs what was
not given (a selectivity, weights in seconds) it is None, and `notes` say what to give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.costs.choice import choose
from tidegate.costs.machine import weights_of
from tidegate.costs.state_bytes import KEY_AND_TIME_BYTES, MEASURED
from tidegate.costs.structures import index_of, pairs
from tidegate.costs.weights import Weights
from tidegate.costs.workload import Workload
from tidegate.planner.crossover import Winner, winners
from tidegate.planner.quadrants import Allocation, allocate_resources, allocation, splits
from tidegate.spec import TidegateError
from tidegate.spec.given import by_name, check_spec

if TYPE_CHECKING:
    from tidegate.planner.sampling_advice import SamplingAdvice
    from tidegate.spec import JoinSpec

SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.1)
STREAMS = ("left", "right")


@dataclass(frozen=True)
class Plan:
    """What to expect of a join before it runs.

    best, costs
        The recommended pair of structures, and the cost per unit of time of every pair (letters N
        nested loop, H hash, B B+tree, T T-tree; the first is on the first window).
    indexes
        The same as the option `index` of a `JoinSpec`.
    output_rate
        Results per unit of time with enough memory and CPU; None without keys or selectivity.
    state_rows, state_bytes
        What both windows hold; `bytes_from` says where the bytes come from.
    cpu_per_second
        CPU seconds per unit of time; None unless the weights are in seconds.
    allocation
        What each stream gets under the given `memory` and `service_rate`; `apply` gives a spec that
        obeys it.
    scarcer
        Rows of `resource`, `share`, `amount`, `output_share` and `equal_share`: the results that
        are left with less memory or CPU, divided as planned and equally.
    winners
        The cheapest pair as the load moves from the second stream to the first.
    sampling
        Which sampling policy estimates the given `aggregate` best, and how well; None without one.
    """

    workload: Workload
    weights: Weights
    streams: tuple[str, str]
    best: str
    cost: float
    costs: Mapping[str, float]
    considered: str
    indexes: Mapping[str, str]
    output_rate: float | None
    state_rows: float
    state_bytes: int
    bytes_from: str
    cpu_per_second: float | None
    allocation: Allocation
    scarcer: Sequence[Mapping[str, Any]]
    winners: Sequence[Winner]
    time_unit: str = "second"
    sampling: SamplingAdvice | None = None
    notes: Sequence[str] = field(default_factory=tuple)

    def __repr__(self) -> str:
        from tidegate.planner.plan_view import text

        return text(self)

    def _repr_html_(self) -> str:
        from tidegate.planner.plan_view import html

        return html(self)

    def apply(self, spec: JoinSpec) -> JoinSpec:
        """The join as planned: its indexes, and of what is scarce what each stream gets.

        Scarce memory is divided between the windows, and which tuples are kept is drawn at random,
        as is which of them search where CPU is scarce: so results are a random subset (kang2003,
        section 5.2).

        >>> import tidegate as tg
        >>> spec = tg.JoinSpec(on="key", time="t", within=10)
        >>> found = plan(windows=(100, 200), rates=(80, 20), service_rate=20, memory=150)
        >>> obeying = found.apply(spec)
        >>> obeying.memory, obeying.split, obeying.cpu.search
        (150, (0, 150), {'left': 0.25, 'right': 0.0})
        """
        from tidegate.planner.obeying import obeying

        return obeying(spec, self.streams, self.indexes, self.allocation)

    def chart(self) -> dict[str, Any]:
        """The plan as a Vega-Lite specification; needs altair."""
        from tidegate.planner.plan_view import chart

        return chart(self)


def plan(
    streams: Mapping[str, Any] | None = None,
    spec: JoinSpec | None = None,
    *,
    windows: Sequence[float] | None = None,
    rates: Sequence[float] | None = None,
    keys: Sequence[float] | None = None,
    selectivity: float | None = None,
    predicate: str = "equality",
    weights: str | Weights = "auto",
    structures: str | None = None,
    memory: float | None = None,
    service_rate: float | None = None,
    least_rates: Sequence[float] = (0.0, 0.0),
    row_bytes: float | None = None,
    bucket_size: float | None = None,
    node_size: int | None = None,
    aggregate: str | None = None,
) -> Plan:
    """Plan a join from rates and windows, or from samples of its streams.

    Parameters
    ----------
    streams, spec
        Samples by stream and the join they are of; then rates, windows, keys and selectivity are
        measured.
    windows, rates
        Tuples in each full window, and arrivals per unit of time.
    keys, selectivity
        Distinct keys in each window, or the share of all pairs that match.
    predicate
        "equality" or "band".
    weights
        "paper", "here" (`tidegate plan --calibrate`), "auto" for those of this machine if it has
        any, or a `Weights`.
    structures
        Letters of NHBT to choose from; by default those of the weights.
    memory, service_rate
        Scarce resources: tuples in both windows, and tuples per unit of time that may search.
    least_rates
        Searches per unit of time that each stream gets in any case.
    row_bytes
        Bytes of a row as it comes; by default a key and a time.
    bucket_size, node_size
        Tuples in a hash bucket and entries in a tree node, with the paper's weights.
    aggregate
        What is to be estimated from a sampled join, such as "avg(price)": which sampling policy is
        best for it. Needs samples of the streams, and `memory`.

    >>> plan(windows=(9500, 500), rates=(2, 998), weights="paper").best
    'TN'
    """
    chosen = weights_of(weights)
    time_unit, names = "second", STREAMS
    if streams is not None or spec is not None:
        given = {"windows": windows, "rates": rates, "keys": keys, "selectivity": selectivity}
        workload, measured_bytes, time_unit, names = _measured(streams, spec, given)
        row_bytes = measured_bytes if row_bytes is None else row_bytes
    else:
        workload = _told(
            windows, rates, keys, selectivity, predicate, bucket_size, node_size
        )  # fmt: skip
    _check_resources(memory, service_rate, row_bytes)
    bytes_each = KEY_AND_TIME_BYTES if row_bytes is None else row_bytes
    choice = choose(workload, chosen, structures, bytes_each)
    advice = None if aggregate is None else _advice(streams, spec, memory, aggregate)
    return Plan(
        workload=workload,
        weights=chosen,
        streams=names,
        best=choice.pair,
        cost=choice.cost,
        costs=choice.costs,
        considered=choice.considered,
        indexes=index_of(choice.pair, names),
        output_rate=workload.output_rate,
        state_rows=workload.rows,
        state_bytes=choice.bytes,
        bytes_from=MEASURED,
        cpu_per_second=choice.cost if chosen.unit == "s" else None,
        allocation=allocate_resources(workload, service_rate, memory, least_rates),
        scarcer=scarcer(workload),
        winners=winners(workload, chosen, pairs(choice.considered)),
        time_unit=time_unit,
        sampling=advice,
        notes=tuple(_notes(workload, chosen, choice.pair, choice.costs, row_bytes)),
    )


def _told(
    windows: Any, rates: Any, keys: Any, selectivity: Any, predicate: str, bucket: Any, node: Any
) -> Workload:
    if windows is None or rates is None:
        missing = "windows" if windows is None else "rates"
        raise TidegateError(
            f"{missing} are missing; give windows and rates, or samples of both streams"
        )
    return Workload(windows, rates, keys, selectivity, predicate, bucket, node)


def _measured(
    streams: Mapping[str, Any] | None, spec: JoinSpec | None, given: Mapping[str, Any]
) -> tuple[Workload, float, str, tuple[str, str]]:
    from tidegate.planner.sample import sample_of

    if streams is None or spec is None:
        raise TidegateError("samples need both: the streams, and the spec of their join")
    check_spec(spec)
    by_name(streams, "plan")
    twice = [name for name, value in given.items() if value is not None]
    if twice:
        raise TidegateError(
            f"{twice[0]} are measured on the samples; give either samples or {twice[0]}, not both"
        )
    sample = sample_of(streams, spec)
    names = (spec.streams[0], spec.streams[1])
    return sample.workload, sample.row_bytes, sample.time_unit, names


def _advice(
    streams: Mapping[str, Any] | None, spec: JoinSpec | None, memory: float | None, aggregate: str
) -> SamplingAdvice:
    from tidegate.planner.sampling_advice import sampling_advice

    if streams is None or spec is None or memory is None:
        raise TidegateError(
            "a sampling policy is chosen from samples of both streams and a memory; give both, or "
            "no aggregate"
        )
    return sampling_advice(streams, spec, memory, aggregate)


def _check_resources(memory: Any, service_rate: Any, row_bytes: Any) -> None:
    for name, value, unit in (
        ("memory", memory, "tuples"),
        ("service rate", service_rate, "tuples per unit of time"),
        ("row bytes", row_bytes, "bytes"),
    ):
        if value is not None and not (isinstance(value, int | float) and 0 <= value < float("inf")):
            raise TidegateError(f"{name} is {value!r}; give {unit}, a number of 0 or more")


def scarcer(workload: Workload) -> list[dict[str, Any]]:
    """What is left of the results with less memory, and with less CPU (section 5.2)."""
    rows = []
    for resource, whole in (("memory", workload.rows), ("cpu", sum(workload.rates))):
        most = workload.windows if resource == "memory" else workload.rates
        for share in SHARES:
            amount = share * whole
            equal = splits(most, most, amount)["equal"]
            if resource == "memory":
                best = allocate_resources(workload, memory=amount)
                even = allocation(workload, workload.rates, equal, memory=amount)
            else:
                best = allocate_resources(workload, service_rate=amount)
                even = allocation(workload, equal, workload.windows, service_rate=amount)
            rows.append(
                {
                    "resource": resource,
                    "share": share,
                    "amount": amount,
                    "output_share": best.output_share,
                    "equal_share": even.output_share,
                }
            )
    return rows


def _notes(
    workload: Workload, weights: Weights, best: str, costs: Mapping[str, float], row_bytes: Any
) -> list[str]:
    notes = []
    cheapest = min(costs, key=lambda pair: costs[pair])
    if costs[cheapest] < costs[best] and weights.name == "paper":
        notes.append(
            f"{cheapest} would cost {costs[cheapest]:.4g}: the paper leaves B+trees out of its "
            "choice, since they take more memory; structures NHBT let them compete"
        )
    if weights.unit != "s":
        notes.append(
            "the paper does not say the unit of its costs; for CPU seconds run: tidegate plan "
            "--calibrate, then use weights here"
        )
    if workload.sigma is None:
        notes.append("the output rate needs keys or a selectivity")
    if row_bytes is None:
        notes.append(f"bytes are for rows of a key and a time ({KEY_AND_TIME_BYTES} bytes)")
    return notes
