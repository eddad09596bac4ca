"""What the user asks for: `JoinSpec`, validated at once, frozen, with a JSON round trip.

The law: a spec that exists is valid in itself (only the data can still disagree with it), never
changes, and equals every other spec that asks for the same join, however either was written. The
fields keep what the user wrote; the cached properties (`predicates`, `windows`, ...) give the same
in normal form, as tuples in stream order, and are all that the engine reads.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn

from tidegate.spec.cpu import Cpu
from tidegate.spec.options import (
    ComparedByMeaning,
    Policy,
    explained,
    field_names,
    fields_to_plain,
    freeze_fields,
    read_split,
    refuse_unknown,
)
from tidegate.spec.plain import SpecError, TidegateError, from_plain
from tidegate.spec.policy import choose_policy, policy_names, with_bucket
from tidegate.spec.predicates import (
    INDEX_KINDS,
    Band,
    Equal,
    IndexKind,
    InnerProduct,
    Overlap,
    Predicate,
    Term,
    Theta,
    band,
    check_index,
    index_serves,
    inner_product,
    overlap,
    per_stream,
    require_column,
    resolve_terms,
    theta,
)
from tidegate.spec.target import Target, read_target
from tidegate.spec.units import (
    Rows,
    Window,
    parse_bytes,
    parse_window,
    require_integer,
    require_name,
    require_number,
    rows,
)

__all__ = [
    "INDEX_KINDS", "POLICY_NAMES", "Band", "Cpu", "Equal", "IndexKind", "InnerProduct", "JoinSpec",
    "Overlap", "Policy", "Predicate", "Rows", "SpecError", "Term", "Theta", "TidegateError",
    "Window", "band", "index_serves", "inner_product", "overlap", "rows", "theta",
]  # fmt: skip

SPEC_VERSION = 1
MOST_STREAMS = 16
MOST_MEMORY = 2**62  # tuples or bytes
POLICY_NAMES = policy_names()

OutputImportance = Literal["min", "max", "sum", "product", "mean"]
Ties = Literal["arrival", "instant"]
BadRows = Literal["count", "fail"]

_LITERALS: dict[str, tuple[str, ...]] = {
    "output_importance": ("min", "max", "sum", "product", "mean"),
    "ties": ("arrival", "instant"),
    "bad_rows": ("count", "fail"),
}


# What people try who know other joins, and what is to be said to them.
NO_SUCH_OPTION = {
    "how": "joins are inner so far, so leave it out",
    "window": "the window is within=, such as within='10 minutes'",
    "key": "the columns that must be equal are on=, such as on='id'",
    "keys": "the columns that must be equal are on=, such as on='id'",
    "left_on": "columns of different names are on={'left': 'a', 'right': 'b'}",
    "right_on": "columns of different names are on={'left': 'a', 'right': 'b'}",
}


@explained(**NO_SUCH_OPTION)
@dataclass(frozen=True, eq=False, kw_only=True)
class JoinSpec(ComparedByMeaning):
    """A window join, as the user asks for it.

    Options marked *per stream* take one value for all streams or a dict by stream name.

    on
        *Per stream.* A column name for equality, `band`, `overlap`, `inner_product`, `theta`, or
        a list of these, all of which must hold. NULL never equals NULL.
    time
        *Per stream.* The event time column: timestamps, dates or integers.
    within
        *Per stream.* The window W: a tuple meets tuples of other streams that are up to W later,
        **both ends inclusive**. A duration ("10 minutes", timedelta) for timestamps, an integer
        for integer times, or `rows(n)`: the last n tuples of the stream. 0 is allowed.
    streams
        The names of the streams, 2 to 16. More than two are joined on equal columns.
    memory
        None for the exact join, else the most that is ever retained (**inclusive**): a number of
        tuples, or a size ("200 MB" is 200,000,000 bytes, "200 MiB" is 209,715,200).
    split
        How memory is shared: "even", "auto" (planned), "shared" (one pool), or numbers, *per
        stream* or as a list in stream order: integers are tuples that sum to at most `memory`,
        floats are shares that sum to 1.
    policy
        What is forgotten at capacity: a name from `tidegate.policies()`, or a policy object.
    importance
        *Per stream.* The column of a tuple's importance; None counts every tuple as 1.
    output_importance
        A result's importance from those of its tuples: "min", "max", "sum", "product", "mean".
    index
        *Per stream.* "auto", "nested-loop" (serves every predicate), "hash" (equality), "btree"
        or "ttree" (equality, band), "inverted" (overlap, inner product above 0).
    cpu
        None, or `Cpu(comparisons_per_second=...)`: every tuple is retained and joined with the part
        of the opposite window that pays. For time windows, ties="arrival", and any index but
        trees; "auto" takes none of them then.
    sentinel
        None, or the share of `memory` that a sample of tuples gets which is never shed (0.02 is
        usual): `stats()` then says the recall of the join while it runs, with an interval. For two
        streams, equal columns and time windows.
    miniatures
        None, or the share of `memory` for small copies of the join over a sample of its keys, each
        with a part of the memory: `retention_curve()` then says which recall other memories would
        give. For equal columns and time windows.
    target
        None, or the share of the results to keep, such as "recall >= 0.95" or "importance >= 0.9":
        the join then uses the least memory that keeps it, and `memory` at most. Takes a sentinel
        and miniatures, 0.02 and 0.05 of the memory in use unless they are given.
    lateness
        How far behind the clock a tuple may come and still be joined, **inclusive**; a duration
        or an integer, as `within`; 0 fits both.
    ties
        "arrival": tuples of equal time come one after the other, in stream order. "instant": they
        arrive together, their pairs are always produced, then tuples are admitted and evicted.
    bad_rows
        "count" drops and counts rows that cannot be joined; "fail" stops with an error.
    seed
        An integer from 0 to 2**63 - 1 that fixes every random choice.

    Example
    -------
    >>> from tidegate.spec import JoinSpec
    >>> spec = JoinSpec(on="ad_id", time="ts", within="10 minutes", memory="200 MB")
    >>> spec.windows[0]
    Window(kind='duration', size=600000000)
    >>> spec.memory_bytes
    200000000
    >>> spec == spec.replace(within={"left": "600 s", "right": "10 min"})
    True
    >>> JoinSpec.from_json(spec.to_json()) == spec
    True
    """

    on: Any
    time: str | Mapping[str, str]
    within: Any
    streams: tuple[str, ...] = ("left", "right")
    memory: int | str | None = None
    split: Any = "auto"
    policy: Any = "auto"
    importance: str | Mapping[str, str] | None = None
    output_importance: OutputImportance = "min"
    index: str | Mapping[str, str] = "auto"
    cpu: Cpu | None = None
    sentinel: float | None = None
    miniatures: float | None = None
    target: str | None = None
    lateness: Any = 0
    ties: Ties = "arrival"
    bad_rows: BadRows = "count"
    seed: int = 0

    def __post_init__(self) -> None:
        freeze_fields(self)
        _check_streams(self.streams)
        if self.cpu is not None and not isinstance(self.cpu, Cpu):
            raise SpecError(f"cpu {self.cpu!r} is not a CPU budget; give None or tidegate.Cpu(...)")
        if self.cpu is not None:
            self.cpu.search_of(self.streams)
        for name in ("sentinel", "miniatures"):
            share = getattr(self, name)
            if share is not None and not 0 < require_number(share, name) <= 0.5:
                raise SpecError(
                    f"{name} {share!r} is not a share of the memory; give more than 0 and at most "
                    "0.5, such as 0.02, or None"
                )
        for field, known in _LITERALS.items():
            require_name(getattr(self, field), known, field)
        if not 0 <= require_integer(self.seed, "seed") < 2**63:
            raise SpecError(f"seed {self.seed!r} is out of range; give 0 to 2**63 - 1")
        # Computing the normal form is the rest of the validation.
        hash(self)
        _check_time_kinds(self)
        if len(self.streams) > 2:
            _check_many(self)

    @cached_property
    def predicates(self) -> tuple[Predicate, ...]:
        """The terms of `on`, each with its columns in stream order."""
        return resolve_terms(self.on, self.streams)

    @cached_property
    def time_columns(self) -> tuple[str, ...]:
        """The event time column of each stream."""
        return self._columns("time", self.time)

    @cached_property
    def importance_columns(self) -> tuple[str, ...] | None:
        """The importance column of each stream, or None where every tuple counts 1."""
        return None if self.importance is None else self._columns("importance", self.importance)

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The window of each stream, durations in microseconds."""
        values = per_stream("within", self.within, self.streams)
        windows = [
            parse_window(value, self._where("within", name))
            for name, value in zip(self.streams, values, strict=True)
        ]
        if any(window.kind == "duration" for window in windows):
            # Zero is the same in every unit, so it goes with the durations of other streams.
            zero = Window("integer", 0)
            windows = [Window("duration", 0) if w == zero else w for w in windows]
        return tuple(windows)

    @cached_property
    def lateness_window(self) -> Window:
        """`lateness` in normal form; none at all is the integer 0, which fits any time column."""
        window = parse_window(self.lateness, "lateness", counts=False)
        return window if window.size else Window("integer", 0)

    @cached_property
    def index_kinds(self) -> tuple[IndexKind, ...]:
        """The index of each stream, "auto" where it is left to the engine."""
        kinds = per_stream("index", self.index, self.streams)
        for name, kind in zip(self.streams, kinds, strict=True):
            where = self._where("index", name)
            check_index(require_name(kind, INDEX_KINDS, where), self.predicates, where)
        return kinds

    @cached_property
    def memory_rows(self) -> int | None:
        """The budget as a number of tuples, None where it is in bytes or there is none."""
        if self.memory is None or isinstance(self.memory, str):
            return None
        allowed = "None, a number of tuples or a size such as '200 MB'"
        count = require_integer(self.memory, "memory", allowed)
        if count < 0:
            raise SpecError(f"memory {count} is negative; give {allowed}")
        if count > MOST_MEMORY:
            raise SpecError(f"memory {count} is more than any machine has; give {allowed}")
        return count

    @cached_property
    def memory_bytes(self) -> int | None:
        """The budget in bytes, None where it is a number of tuples or there is none."""
        if not isinstance(self.memory, str):
            return None
        count = parse_bytes(self.memory, "memory")
        if count > MOST_MEMORY:
            raise SpecError(f"memory {self.memory!r} is more than any machine has; give less")
        return count

    @cached_property
    def split_rows(self) -> tuple[int, ...] | None:
        """The tuples of each stream where `split` gives integers, else None."""
        return self._split[0]

    @cached_property
    def split_shares(self) -> tuple[float, ...] | None:
        """The share of memory of each stream where `split` gives floats, else None."""
        return self._split[1]

    @cached_property
    def policy_choice(self) -> Policy:
        """The policy as a name with parameters; a given curve without a bucket gets its own."""
        return with_bucket(choose_policy(self.policy), self.streams, self.windows)

    @cached_property
    def target_share(self) -> Target | None:
        """The target in normal form, None where there is none."""
        return None if self.target is None else read_target(self.target)

    def replace(self, **changes: Any) -> JoinSpec:
        """Return a copy with some fields changed, validated again."""
        refuse_unknown(changes, field_names(self), "JoinSpec")
        return dataclasses.replace(self, **changes)

    def unwatched(self) -> JoinSpec:
        """The same join without all that measures what it loses."""
        return self.replace(sentinel=None, miniatures=None, target=None)

    def to_json(self) -> str:
        """Write the spec as JSON text, as the user wrote it."""
        known = self.policy if isinstance(self.policy, str) else choose_policy(self.policy)
        plain = fields_to_plain(self, policy=known)
        return json.dumps({"version": SPEC_VERSION, **plain}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> JoinSpec:
        """Read what `to_json` wrote; optional fields that are missing take their defaults.

        The function of a theta predicate is imported by its name: read only specs you trust.
        """
        plain = _read_object(text)
        refuse_unknown(plain, ("version", *field_names(cls)), "the spec's JSON")
        version = plain.pop("version", None)
        if version != SPEC_VERSION:
            raise SpecError(
                f"the spec's JSON has version {version!r}; this tidegate reads "
                f'"version": {SPEC_VERSION}'
            )
        missing = [name for name in ("on", "time", "within") if name not in plain]
        if missing:
            raise SpecError(f"the spec's JSON lacks {', '.join(map(repr, missing))}; add it")
        return cls(**{key: from_plain(value) for key, value in plain.items()})

    def _columns(self, field: str, value: Any) -> tuple[str, ...]:
        names = per_stream(field, value, self.streams)
        return tuple(require_column(name, field) for name in names)

    def _where(self, field: str, stream: str) -> str:
        differs = isinstance(getattr(self, field), Mapping)
        return f"{field} of stream {stream!r}" if differs else field

    @cached_property
    def _split(self) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None]:
        return read_split(self.split, self.streams, self.memory, self.memory_rows)

    @cached_property
    def _normal_form(self) -> tuple[Any, ...]:
        named_split = self.split if isinstance(self.split, str) else None
        return (
            self.streams, self.predicates, self.time_columns, self.windows, self.lateness_window,
            self.memory_rows, self.memory_bytes, named_split, self.split_rows, self.split_shares,
            self.policy_choice, self.importance_columns, self.output_importance, self.index_kinds,
            self.cpu, self.sentinel, self.miniatures, self.target_share, self.ties, self.bad_rows,
            self.seed,
        )  # fmt: skip

    def _meaning(self) -> tuple[Any, ...]:
        return self._normal_form


def _read_object(text: str | bytes) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise SpecError(f"the spec's JSON has {constant}, which is not JSON; write a number")

    try:
        plain = json.loads(text, parse_constant=refuse)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"the spec is not JSON ({error}); give what to_json() wrote") from None
    if not isinstance(plain, dict):
        raise SpecError("the spec's JSON is not an object; give what to_json() wrote")
    return plain


def _check_streams(streams: Any) -> None:
    if not isinstance(streams, tuple):
        raise SpecError(f"streams {streams!r} is not a list of names; give two names")
    for name in streams:
        if not isinstance(name, str) or not name.strip():
            raise SpecError(
                f"streams {streams!r} has the name {name!r}; give texts that are not empty"
            )
        if streams.count(name) > 1:
            raise SpecError(
                f"streams {streams!r} has {name!r} twice; give each stream its own name"
            )
    if len(streams) < 2:
        raise SpecError(f"streams {streams!r} are fewer than 2; give two names")
    if len(streams) > MOST_STREAMS:
        raise SpecError(f"streams are {len(streams)}; give at most {MOST_STREAMS} names")


def _check_many(spec: JoinSpec) -> None:
    """More than two streams are joined on equal columns, through the hash index."""
    if not all(isinstance(predicate, Equal) for predicate in spec.predicates):
        raise SpecError(
            f"on has a predicate other than equality, which joins two streams only; join these "
            f"{len(spec.streams)} streams on equal columns"
        )
    for kind in spec.index_kinds:
        if kind not in ("auto", "hash"):
            raise SpecError(
                f"index {kind!r} serves joins of two streams; with {len(spec.streams)} streams "
                "give 'hash' or 'auto'"
            )


def _check_time_kinds(spec: JoinSpec) -> None:
    """Refuse durations beside integers: the time columns cannot be both."""
    given = {f"within of stream {n!r}": w for n, w in zip(spec.streams, spec.windows, strict=True)}
    given["lateness"] = spec.lateness_window
    for field, window in (spec.cpu.windows if spec.cpu else {}).items():
        if window is not None:
            given[f"cpu: {field}"] = window
    first_of: dict[str, str] = {}
    for where, window in given.items():
        if window.size and window.kind != "rows":
            first_of.setdefault(window.kind, where)
    if len(first_of) > 1:
        raise SpecError(
            f"{first_of['duration']} is a duration but {first_of['integer']} is an integer; give "
            "durations for timestamp columns or integers for integer columns, not both"
        )
