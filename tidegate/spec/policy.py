"""Policies as constructors: each name with the parameters it takes.

Law: `PARAMETERS` is the one list of policies. A name that is added to it is accepted by every spec
and listed by `tidegate.policies()`. A constructor checks what it is given at once and returns a
`Policy`, which is frozen, equals every other that means the same and comes back from JSON inside
its spec. Names with a hyphen have an underscore here (`until_expiry`).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tidegate.spec.options import Policy, explained
from tidegate.spec.plain import SpecError
from tidegate.spec.units import (
    Window,
    nearest_hint,
    parse_window,
    require_integer,
    require_name,
    require_number,
)

Statistics = Literal["window", "retained", "faded"]
Form = Literal["additive", "multiplicative", "cumulative"]

STATISTICS = ("window", "retained", "faded")
FORMS = ("additive", "multiplicative", "cumulative")

# The policies: name -> the parameters it takes; the constructors below say what they mean.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "random": (),
    "recent": (),
    "until-expiry": (),
    "prob": ("frequencies", "statistics"),
    "output": (),
    "simp": (),
    "simpprob": ("statistics",),
    "dimpprob": ("statistics",),
    "dgl": ("decay", "gain", "statistics"),
    "age": ("curve", "bucket"),
    "arrival-order": ("fade",),
    "value": ("frequencies", "curve", "bucket"),
    "auto": (),
    "uniform": ("fraction", "margin", "matches"),
    "eq-cluster": (),
    "pps-cluster": (),
    "priority": ("form", "alpha", "beta", "delta", "statistics"),
}
# A family of policies, which means nothing without its form: only the constructor makes one.
FAMILIES = ("priority",)
# Those that keep a random sample of the join, with a weight for each result.
SAMPLING = ("uniform", "eq-cluster", "pps-cluster")


def policy_names() -> tuple[str, ...]:
    """The names that `JoinSpec(policy=...)` takes."""
    return tuple(name for name in PARAMETERS if name not in FAMILIES)


def is_sampling(policy: Policy) -> bool:
    """Does a join with this policy give a random sample, whose results have weights?"""
    return policy.name in SAMPLING


def with_bucket(policy: Policy, streams: Sequence[str], windows: Sequence[Window]) -> Policy:
    """Cut the windows into as many buckets as a given curve has numbers, where none is given."""
    curve = policy.get("curve")
    if curve is None or policy.get("bucket") is not None:
        return policy
    curves: list[Any] = [
        curve.get(name) if isinstance(curve, Mapping) else curve for name in streams
    ]
    if not all(isinstance(numbers, tuple) and numbers for numbers in curves):
        return policy  # Whoever uses the policy says what is wrong with the curve.
    widths = {
        name: _width(window, len(numbers))
        for name, window, numbers in zip(streams, windows, curves, strict=True)
    }
    return Policy.of(policy.name, **dict(policy.parameters), bucket=widths)


def _width(window: Window, buckets: int) -> int | datetime.timedelta:
    width = max(1, -(-window.size // buckets))
    return datetime.timedelta(microseconds=width) if window.kind == "duration" else width


def choose_policy(policy: Any) -> Policy:
    """Return what a spec's `policy` means: a known name, or any object that says what it is."""
    if isinstance(policy, str):
        return Policy(require_name(policy, policy_names(), "policy"))
    if isinstance(policy, Policy):
        return policy
    if not isinstance(getattr(policy, "name", None), str) or not hasattr(policy, "to_dict"):
        raise SpecError(
            f"policy {policy!r} is not a policy; give a policy object with a name and to_dict(), "
            f"or a name. Known: {', '.join(policy_names())}"
        )
    return Policy.from_dict(policy.to_dict())


@explained()
def random() -> Policy:
    """Chance: what is retained is a uniform sample of the window."""
    return Policy.of("random")


@explained()
def recent() -> Policy:
    """The newest stay."""
    return Policy.of("recent")


@explained()
def until_expiry() -> Policy:
    """First come, first served: what is retained stays until it expires."""
    return Policy.of("until-expiry")


@explained()
def prob(
    frequencies: Mapping[str, Mapping[Any, float]] | None = None, statistics: Statistics = "window"
) -> Policy:
    """Keep the keys that are frequent on the opposite stream (srivastava2004, section 3.3).

    Parameters
    ----------
    frequencies
        Shares by stream and key where they are known; otherwise they are counted.
    statistics
        Count over the full "window", over the "retained" tuples, or over all with old ones "faded".
    """
    return _checked("prob", frequencies=frequencies, statistics=statistics)


@explained()
def output() -> Policy:
    """Keep the keys that have produced most results."""
    return Policy.of("output")


@explained()
def simp() -> Policy:
    """Importance (ojewole2006, section 4.3.1)."""
    return Policy.of("simp")


@explained()
def simpprob(statistics: Statistics = "window") -> Policy:
    """Importance x matches in the opposite window, at arrival (ojewole2006, section 4.3.2)."""
    return _checked("simpprob", statistics=statistics)


@explained()
def dimpprob(statistics: Statistics = "window") -> Policy:
    """Importance x matches in the opposite window, kept current (ojewole2006, section 4.3.3)."""
    return _checked("dimpprob", statistics=statistics)


@explained()
def dgl(decay: float = 0.99, gain: float = 0.1, statistics: Statistics = "window") -> Policy:
    """Importance, raised by each match, decayed by each arrival that is none (section 4.3.4).

    Parameters
    ----------
    decay
        Factor for each arrival on the opposite stream that a tuple does not match; above 0, at
        most 1.
    gain
        What a match adds, in units of importance x matches in the window x share of life left.
    statistics
        As for `prob`.
    """
    return _checked("dgl", decay=decay, gain=gain, statistics=statistics)


@explained()
def age(curve: Any = None, bucket: Any = None) -> Policy:
    """The best rate of results still ahead at a tuple's age (srivastava2004, section 3.2).

    Parameters
    ----------
    curve
        Results per tuple in each bucket of ages, youngest first; one list, or one by stream. None
        learns the curve from a small share of the tuples.
    bucket
        The width of a bucket: a duration, an integer, or one by stream. None cuts the window into
        as many buckets of equal width as the curve has numbers, or into 20 where it is learned.

    >>> age(curve=[1, 1, 2, 1], bucket=1).get("curve")
    (1, 1, 2, 1)
    """
    return _checked("age", curve=curve, bucket=bucket)


@explained()
def arrival_order(fade: int | None = 1024) -> Policy:
    """Keep the tuples whose key has been on such streams as lead to results (EP of kwon2011).

    Which streams had the key of a tuple when it came is its existence pattern; it is worth the
    results per tuple of its pattern, and nothing if all streams had the key already.

    Parameters
    ----------
    fade
        What a pattern has shown is halved when it counts so many tuples, 2 or more; so it follows
        streams that change. None never forgets, as the paper does.
    """
    if fade == 1024:
        return Policy.of("arrival-order")
    return _checked("arrival-order", fade=0 if fade is None else fade)


@explained()
def value(
    frequencies: Mapping[str, Mapping[Any, float]] | None = None,
    curve: Any = None,
    bucket: Any = None,
) -> Policy:
    """Expected output importance: rate of the key x rate ahead at its age x importance of a match.

    All three are learned; `frequencies`, `curve` and `bucket` as in `prob` and `age` where known.
    """
    return _checked("value", frequencies=frequencies, curve=curve, bucket=bucket)


@explained()
def auto() -> Policy:
    """What measures best while the join runs: `value`, until another one is clearly ahead."""
    return Policy.of("auto")


@explained()
def uniform(
    fraction: float | None = None,
    margin: float = 2.0,
    matches: float | Mapping[str, float] | None = None,
) -> Policy:
    """Every result is in the sample with the same probability, independently (srivastava2004, 4.2).

    A tuple is kept until the last of its results that the sample wants. That takes a guess of how
    many it will have: results beyond the guess are never sampled, which is a bias. `eq_cluster` and
    `pps_cluster` have none.

    Parameters
    ----------
    fraction
        The probability; above 0, at most 1. None lets it follow the memory. Where a given fraction
        does not fit into the memory, later results of retained tuples get a smaller one, and a
        larger weight.
    margin
        How many standard deviations (of a Poisson number) the guess lies above the mean; 0 or
        more. More costs memory, less makes the bias greater.
    matches
        The mean number of results that a tuple waits for, one number or one by stream: the age
        model, for streams such as orders and their parts, whose keys are new each time. None
        takes the matches in the opposite window: the frequency model.
    """
    return _checked("uniform", fraction=fraction, margin=margin, matches=matches)


@explained()
def eq_cluster() -> Policy:
    """Tuples are retained by chance, with all their results (srivastava2004, section 4.3)."""
    return Policy.of("eq-cluster")


@explained()
def pps_cluster() -> Policy:
    """The same, each tuple with a probability proportional to the matches that it can expect."""
    return Policy.of("pps-cluster")


@explained()
def priority(
    form: Form,
    alpha: float = 1.0,
    beta: float = 1.0,
    delta: float | None = None,
    statistics: Statistics = "window",
) -> Policy:
    """The general priorities of ojewole2006, section 3.2, of importance, matches and arrival time.

    Parameters
    ----------
    form
        "additive": alpha imp + beta m + delta time. "multiplicative": imp^alpha m^beta time^delta.
        "cumulative": alpha imp (1 + beta m) at arrival, then as `dgl` with gain beta, decay delta.
    alpha, beta, delta
        0 or more; delta is 0 by default, for "cumulative" 0.99.
    statistics
        As for `prob`. m is kept current; time counts windows since the first tuple, from 1 on.
    """
    fallback = 0.99 if form == "cumulative" else 0.0
    delta = fallback if delta is None else delta
    return _checked(
        "priority", form=form, alpha=alpha, beta=beta, delta=delta, statistics=statistics
    )


def _checked(name: str, **parameters: Any) -> Policy:
    given = {key: value for key, value in parameters.items() if value is not None}
    policy = Policy.of(name, **given)
    check(policy)
    return policy


def check(policy: Policy) -> None:
    """Refuse a parameter that the policy does not take or that is out of its range."""
    known = PARAMETERS.get(policy.name, ())
    for name, _ in policy.parameters:
        if name not in known:
            hint = nearest_hint(name, known) if known else "it takes none"
            raise SpecError(f"policy {policy.name!r} has no parameter {name!r}; {hint}")
    where = f"policy {policy.name!r}:"
    if "statistics" in known:
        require_name(policy.get("statistics", "window"), STATISTICS, f"{where} statistics")
    if policy.name == "priority":
        require_name(policy.get("form"), FORMS, f"{where} form")
    fraction = policy.get("fraction")
    if fraction is not None and not 0 < require_number(fraction, f"{where} fraction") <= 1:
        raise SpecError(f"{where} fraction {fraction!r} is none; give above 0, at most 1")
    told = policy.get("matches")
    for number in told.values() if isinstance(told, Mapping) else () if told is None else (told,):
        if require_number(number, f"{where} matches") < 0:
            raise SpecError(f"{where} matches {number!r} is negative; give 0 or more")
    for name in ("gain", "alpha", "beta", "delta", "decay", "margin"):
        number = policy.get(name)
        if number is not None and require_number(number, f"{where} {name}") < 0:
            raise SpecError(f"{where} {name} {number!r} is negative; give 0 or more")
    fades = policy.get("decay") if policy.name == "dgl" else policy.get("delta")
    if policy.name == "dgl" or policy.get("form") == "cumulative":
        if fades is not None and not 0 < fades <= 1:
            raise SpecError(f"{where} a decay of {fades!r} is no decay; give above 0, at most 1")
    fade = policy.get("fade")
    if fade is not None and require_integer(fade, f"{where} fade") != 0 and fade < 2:
        raise SpecError(f"{where} fade {fade!r} is below 2; give 2 or more, or None")
    _check_curve(policy, where)
    _check_frequencies(policy, where)


def _check_curve(policy: Policy, where: str) -> None:
    curve, bucket = policy.get("curve"), policy.get("bucket")
    for part in curve.values() if isinstance(curve, Mapping) else () if curve is None else (curve,):
        if not isinstance(part, tuple) or not part or len(part) > 1000:
            raise SpecError(f"{where} curve {part!r} is no curve; give a list of 1 to 1000 numbers")
        for number in part:
            if require_number(number, f"{where} curve") < 0:
                raise SpecError(f"{where} curve has the negative number {number!r}; give 0 or more")
    widths = bucket.values() if isinstance(bucket, Mapping) else (bucket,)
    for width in widths:
        if width is not None and parse_window(width, f"{where} bucket", counts=False).size == 0:
            raise SpecError(f"{where} bucket {width!r} is 0; give more than 0")


def _check_frequencies(policy: Policy, where: str) -> None:
    frequencies = policy.get("frequencies")
    if frequencies is None:
        return
    if not isinstance(frequencies, Mapping) or not all(
        isinstance(shares, Mapping) for shares in frequencies.values()
    ):
        raise SpecError(f"{where} frequencies is not a dict by stream of dicts by key")
    for shares in frequencies.values():
        for share in shares.values():
            if require_number(share, f"{where} frequencies") < 0:
                raise SpecError(f"{where} frequencies has the negative share {share!r}")
