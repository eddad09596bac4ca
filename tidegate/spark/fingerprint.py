"""What a stored state was made for, field by field, in the user's words.

Law: state is never read for another join than it was written for. Two specs that mean the same have
the same description, however they were written, and two that do not have different ones: a unit, a
number that a function closes over and the type of a key are all in the text. Where descriptions
differ, the error names the fields.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from types import CodeType, ModuleType
from typing import Any

import pyarrow as pa

from tidegate.spec import (
    Band,
    Equal,
    InnerProduct,
    JoinSpec,
    Overlap,
    Policy,
    Predicate,
    Theta,
    TidegateError,
)
from tidegate.spec import policy as constructors
from tidegate.spec.plain import microseconds_of
from tidegate.spec.units import bytes_text, duration_text, parse_window, window_text

# A description is for people: what is longer is cut, and stands for the rest by its hash.
LONGEST_TEXT = 300
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def describe(
    spec: JoinSpec,
    schemas: Sequence[pa.Schema],
    in_pool: bool = False,
    has_ledger: bool = False,
) -> dict[str, str]:
    """Describe a join by field, in normal form. The size of a pool may change, its unit not."""
    described = {
        "streams": ", ".join(map(repr, spec.streams)),
        "on": " and ".join(map(_predicate, spec.predicates)),
        "time": _by_stream(spec, [repr(name) for name in spec.time_columns]),
        "within": _by_stream(spec, [window_text(window) for window in spec.windows]),
        "lateness": window_text(spec.lateness_window),
        "memory": _pooled(spec) if in_pool else _memory(spec),
        "split": _split(spec),
        "policy": _policy(spec.policy_choice),
        "importance": _by_stream(spec, [repr(name) for name in spec.importance_columns or ()]),
        "output_importance": spec.output_importance,
        "index": _by_stream(spec, list(spec.index_kinds)),
        "cpu": _cpu(spec),
        "ties": spec.ties,
        "bad_rows": spec.bad_rows,
        "seed": str(spec.seed),
    }
    if spec.sentinel is not None:
        described["sentinel"] = _value(spec.sentinel)
    if spec.miniatures is not None:
        described["miniatures"] = _value(spec.miniatures)
    if spec.target_share is not None:
        described["target"] = f"{spec.target_share.name} >= {spec.target_share.share!r}"
    if has_ledger:
        described["ledger"] = "kept"
    for name, schema in zip(spec.streams, schemas, strict=True):
        described[f"columns of {name!r}"] = ", ".join(f"{f.name!r} {f.type}" for f in schema)
    return {name: _bounded(text) for name, text in described.items()}


def fingerprint(origin: Mapping[str, str]) -> str:
    """A short name for a description."""
    return hashlib.sha256(json.dumps(dict(origin), sort_keys=True).encode()).hexdigest()[:32]


def explain_change(stored: Mapping[str, str], asked: Mapping[str, str]) -> TidegateError:
    """The error for state that was made for another join."""
    changed = [n for n in sorted({*stored, *asked}) if stored.get(n) != asked.get(n)]
    if set(changed) == {"buckets"}:
        return TidegateError(
            f"the checkpoint has {stored['buckets']} buckets and this join would have "
            f"{asked['buckets']}; give window_join buckets={stored['buckets']} to go on, or start "
            "from a new checkpoint location"
        )
    said = [
        f"{name} was {stored.get(name, 'not set')} and is now {asked.get(name, 'not set')}"
        for name in changed
    ]
    return TidegateError(
        f"the checkpoint belongs to another join: {'; '.join(said)}; go back to that, "
        "or start from a new checkpoint location"
    )


def _by_stream(spec: JoinSpec, texts: Sequence[str]) -> str:
    """One text where all streams have the same, else each with its stream."""
    if not texts:
        return "none"
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(f"{text} for {name!r}" for name, text in zip(spec.streams, texts, strict=True))


def _memory(spec: JoinSpec) -> str:
    if spec.memory_rows is not None:
        return f"{spec.memory_rows} tuples"
    return "none" if spec.memory_bytes is None else bytes_text(spec.memory_bytes)


def _pooled(spec: JoinSpec) -> str:
    return f"a pool in {'tuples' if spec.memory_bytes is None else 'bytes'}"


def _split(spec: JoinSpec) -> str:
    if spec.split_rows is not None:
        return _by_stream(spec, [f"{count} tuples" for count in spec.split_rows])
    if spec.split_shares is not None:
        return _by_stream(spec, [f"the share {share!r}" for share in spec.split_shares])
    return str(spec.split)


def _cpu(spec: JoinSpec) -> str:
    if spec.cpu is None:
        return "none"
    windows = [
        f"{field} {'auto' if window is None else window_text(window)}"
        for field, window in spec.cpu.windows.items()
    ]
    numbers = [
        f"{field} {_value(getattr(spec.cpu, field))}"
        for field in ("comparisons_per_second", "share_of_core", "boost", "sample")
        if getattr(spec.cpu, field) is not None
    ]
    if spec.cpu.keep_up:
        numbers.insert(0, f"keep_up, interval {_value(spec.cpu.interval_seconds)}")
    names = [f"{field} {getattr(spec.cpu, field)}" for field in ("direction", "order")]
    if spec.cpu.search is not None:
        names.append(f"search {_value(spec.cpu.search)}")
    return ", ".join([*numbers, *windows, *names])


def _policy(policy: Policy) -> str:
    """A policy with all of its parameters, those that were left out by their defaults."""
    full = policy
    if policy.name in constructors.PARAMETERS:
        make = getattr(constructors, policy.name.replace("-", "_"))
        full = make(**dict(policy.parameters))
    shown = [f"{name}={_parameter(name, value)}" for name, value in full.parameters]
    return f"{policy.name}({', '.join(shown)})" if shown else policy.name


def _parameter(name: str, value: Any) -> str:
    if name != "bucket":
        return _value(value)
    if isinstance(value, Mapping):
        return _value({stream: _parameter(name, width) for stream, width in value.items()})
    return window_text(parse_window(value, name, counts=False))


def _value(value: Any) -> str:
    """A value as text: equal values alike, and a number never like the text of its digits."""
    if isinstance(value, datetime.timedelta):
        return duration_text(microseconds_of(value))
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))  # 5 and 5.0 are the same wish
    if isinstance(value, Mapping):
        pairs = sorted(f"{_value(key)}: {_value(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def _bounded(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}... ({hashlib.sha256(text.encode()).hexdigest()[:12]})"


def _predicate(predicate: Predicate) -> str:
    """A predicate, alike in every process: functions by name and by what they do."""
    if isinstance(predicate, Theta):
        return _theta(predicate)
    columns = " and ".join(dict.fromkeys(map(repr, predicate.columns)))
    if isinstance(predicate, Equal):
        return columns.replace(" and ", " = ") if len(set(predicate.columns)) > 1 else columns
    if isinstance(predicate, Band):
        return f"band on {columns} from {_value(predicate.low)} to {_value(predicate.high)}"
    kinds = {Overlap: "overlap", InnerProduct: "inner product"}
    return f"{kinds[type(predicate)]} on {columns} of at least {_value(predicate.at_least)}"


def _theta(predicate: Theta) -> str:
    function = getattr(predicate.function, "py_func", predicate.function)
    name = getattr(function, "__qualname__", type(function).__name__)
    body = hashlib.sha256(_function(function, ()).encode()).hexdigest()[:12]
    return f"the function {name} ({body}) of {_value(predicate.columns)}"


def _function(function: Any, inside: tuple[Any, ...]) -> str:
    """What a function does: its code, and every value that is compiled into it."""
    function = getattr(function, "py_func", function)
    code = getattr(function, "__code__", None)
    if code is None or function in inside:
        return repr(getattr(function, "__qualname__", type(function).__name__))
    inside = (*inside, function)
    closed = [_captured(cell.cell_contents, inside) for cell in function.__closure__ or ()]
    names = _names(code)
    outside = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for module in [value for value in outside.values() if isinstance(value, ModuleType)]:
        # `settings.LIMIT` is compiled in as a constant too.
        found = {f"{module.__name__}.{name}": getattr(module, name, None) for name in names}
        outside |= {name: value for name, value in found.items() if isinstance(value, _PLAIN)}
    used = {name: _captured(value, inside) for name, value in sorted(outside.items())}
    defaults = _captured((function.__defaults__, function.__kwdefaults__), inside)
    return repr((_body(code), closed, used, defaults))


def _captured(value: Any, inside: tuple[Any, ...]) -> str:
    """A value that a function reads, as text that is the same in every process."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return repr([_captured(item, inside) for item in value])
    if isinstance(value, Mapping):
        return repr(sorted((repr(key), _captured(item, inside)) for key, item in value.items()))
    if isinstance(value, ModuleType):
        return value.__name__
    if hasattr(value, "tobytes"):  # numpy's arrays and numbers
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return f"{getattr(value, 'dtype', '')} {getattr(value, 'shape', '')} {digest}"
    if hasattr(value, "__code__") or hasattr(value, "py_func"):
        return _function(value, inside)
    return getattr(value, "__qualname__", type(value).__name__)


def _names(code: CodeType) -> set[str]:
    """The names that a function, and the functions inside it, read."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _body(code: CodeType) -> str:
    """What a function does. A function inside it would print its address, never twice the same."""
    constants = [_constant(constant) for constant in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _constant(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return _body(constant)
    # `x in {"a", "b"}` holds a set, and sets of texts print in another order in each process.
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
