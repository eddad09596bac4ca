"""Keys of Spark DataFrames as hashes, computed in the JVM.

Law: keys that are equal have equal hashes, on whichever stream and of whatever numeric types.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from tidegate.spec import Equal, JoinSpec


def route_hash(spec: JoinSpec, stream: int, schemas: Sequence[T.StructType]) -> Column:
    """The 64-bit hash that decides a row's way, computed in the JVM.

    Rows whose key has a NULL match nothing; they go by their time, lest they all meet in one place.
    """
    schema = schemas[stream]
    keys = []
    for predicate in spec.predicates:
        if isinstance(predicate, Equal):
            fields = [s[name] for s, name in zip(schemas, predicate.columns, strict=True)]
            keys.append(_comparable(predicate.columns[stream], fields))
    if not keys:
        names = [field.name for field in schema.fields if _hashable(field.dataType)]
        return F.xxhash64(*[quoted(name) for name in names])
    missing = keys[0].isNull()
    for key in keys[1:]:
        missing = missing | key.isNull()
    return F.when(missing, F.xxhash64(quoted(spec.time_columns[stream]))).otherwise(
        F.xxhash64(*keys)
    )


def quoted(name: str) -> Column:
    """The column with exactly this name, dots and backticks included."""
    return F.col("`" + name.replace("`", "``") + "`")


def _comparable(name: str, fields: Sequence[T.StructField]) -> Column:
    """A key in the type that all streams share, since equal values must have equal hashes."""
    types = {type(field.dataType) for field in fields}
    column = quoted(name)
    if types <= {T.ByteType, T.ShortType, T.IntegerType, T.LongType}:
        return column.cast("long")
    if all(issubclass(kind, T.NumericType) for kind in types):
        return column.cast("double")
    return column


def _hashable(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return all(_hashable(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _hashable(kind.elementType)
    return isinstance(kind, T.AtomicType) and not isinstance(kind, T.VariantType)
