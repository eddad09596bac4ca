"""The columns of a result, from the spec and the schemas of the streams.

Law: a result has the columns of the streams in order (a name that is taken gets the stream's name
as suffix), `_importance` and, of a sampled join, `_weight`. No engine is needed to know them. While
the columns of a stream are not known, nor are those of results, and there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidegate.binding.binding import Binding
from tidegate.columns.storage import declared
from tidegate.spec import JoinSpec
from tidegate.spec.policy import is_sampling

_OWN = ("_importance", "_weight")


def bind(spec: JoinSpec, schemas: Mapping[str, pa.Schema]) -> Binding:
    """Check the columns of the streams against the spec; a stream may be missing."""
    known = [declared(schemas[s], s) if s in schemas else None for s in spec.streams]
    binding = Binding(spec, known)
    for window in spec.windows:
        binding.in_units(window, "within")
    binding.in_units(spec.lateness_window, "lateness")
    return binding


def result_schema(spec: JoinSpec, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The schema of the results of a join of such streams.

    Example
    -------
    >>> import pyarrow as pa, tidegate as tg
    >>> columns = pa.schema({"t": pa.int64(), "k": pa.string()})
    >>> spec = tg.JoinSpec(on="k", time="t", within=10)
    >>> result_schema(spec, {"left": columns, "right": columns}).names
    ['t', 'k', 't_right', 'k_right', '_importance']
    """
    is_sampled = is_sampling(spec.policy_choice)
    return schema_of(spec.streams, bind(spec, schemas).schemas, is_sampled)


def schema_of(
    streams: Sequence[str], schemas: Sequence[pa.Schema | None], is_sampled: bool = False
) -> pa.Schema:
    """The same from schemas that were checked already."""
    if None in schemas:
        return pa.schema([])
    fields: list[pa.Field] = []
    taken = set(_OWN)
    for name, schema in zip(streams, schemas, strict=True):
        for field in schema or ():
            label = field.name
            while label in taken:
                label = f"{label}_{name}"
            taken.add(label)
            fields.append(field.with_name(label))
    own = _OWN if is_sampled else _OWN[:1]
    return pa.schema([*fields, *[pa.field(name, pa.float64()) for name in own]])
