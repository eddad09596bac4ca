"""What a stored state was made for, field by field.

Law: state is never read for another join than it was written for. Two specs that mean the same have
the same description, however they were written; where they differ, the error names the fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

import pyarrow as pa

from tidegate.spec import JoinSpec, Theta, TidegateError


def describe(spec: JoinSpec, schemas: Sequence[pa.Schema]) -> dict[str, str]:
    """Describe a join by field, in normal form."""
    described = {
        "streams": spec.streams,
        "on": tuple(map(_predicate, spec.predicates)),
        "time": spec.time_columns,
        "within": spec.windows,
        "lateness": spec.lateness_window,
        "memory": spec.memory_bytes if spec.memory_rows is None else spec.memory_rows,
        "split": spec.split_rows or spec.split_shares or spec.split,
        "policy": spec.policy_choice,
        "importance": spec.importance_columns,
        "output_importance": spec.output_importance,
        "index": spec.index_kinds,
        "cpu": None if spec.cpu is None else spec.cpu.to_dict(),
        "ties": spec.ties,
        "bad_rows": spec.bad_rows,
        "seed": spec.seed,
    }
    fields = {name: repr(value) for name, value in described.items()}
    for name, schema in zip(spec.streams, schemas, strict=True):
        fields[f"columns of {name!r}"] = ", ".join(f"{f.name} {f.type}" for f in schema)
    return fields


def fingerprint(origin: Mapping[str, str]) -> str:
    """A short name for a description."""
    return hashlib.sha256(json.dumps(dict(origin), sort_keys=True).encode()).hexdigest()[:32]


def explain_change(stored: Mapping[str, str], asked: Mapping[str, str]) -> TidegateError:
    """The error for state that was made for another join."""
    changed = [
        f"{name} was {stored.get(name)} and is now {asked.get(name)}"
        for name in sorted({*stored, *asked})
        if stored.get(name) != asked.get(name)
    ]
    return TidegateError(
        f"the checkpoint belongs to another join: {'; '.join(changed)}; go back to that, "
        "or start from a new checkpoint location"
    )


def _predicate(predicate: Any) -> Any:
    """A predicate that prints alike in every process: functions by name and code."""
    if not isinstance(predicate, Theta):
        return predicate
    function = getattr(predicate.function, "py_func", predicate.function)
    name = getattr(function, "__qualname__", type(function).__name__)
    code = getattr(function, "__code__", None)
    body = "" if code is None else _body(code)
    return ("theta", name, hashlib.sha256(body.encode()).hexdigest()[:12], predicate.columns)


def _body(code: CodeType) -> str:
    """What a function does. A function inside it would print its address, never twice the same."""
    constants = [_constant(constant) for constant in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _constant(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return _body(constant)
    # `x in {"a", "b"}` holds a set, and sets of texts print in another order in each process.
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
