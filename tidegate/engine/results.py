"""Results as tables: from the addresses that a driver wrote to the columns of the rows.

Law: a result is complete and true. Its columns are those of `result_schema`; where keys are
compared by a hash, the keys themselves are compared here, and what only looked equal is dropped and
not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.binding.result_schema import schema_of
from tidegate.columns.encoding import family, plain_array
from tidegate.columns.payload import Payload
from tidegate.columns.storage import some_rows
from tidegate.compiled.layout import Records
from tidegate.compiled.scratch import Scratch
from tidegate.estimators.importance import of_ones
from tidegate.spec.policy import is_sampling
from tidegate.state.join_state import DEPARTURE, RESULTS, Output

OUTPUT_ROOM = 1 << 18
SMALL_ROOM = 1 << 16  # the same under a budget in bytes, where this room should not outweigh it
PIECE_BYTES = 1 << 25  # of the rows of one piece, about; fewer rows where they are wide
_SAME_BITS = ("integer", "date", "timestamp", "timestamp with time zone")


class Results:
    """Makes the result tables of one engine."""

    def __init__(self, binding: Binding, payloads: Sequence[Payload | None]) -> None:
        self._sampled = is_sampling(binding.spec.policy_choice)
        self.schema = schema_of(binding.spec.streams, binding.schemas, self._sampled)
        self._binding = binding
        self._payloads = payloads
        self._importance = np.zeros(0)
        self._columns = self._columns_to_gather()

    def _columns_to_gather(self) -> list[list[int]]:
        """Of each stream; a key that has the bits of the first stream's key is left out."""
        schemas = self._binding.schemas
        columns = [list(range(len(schema or ()))) for schema in schemas]
        key = self._binding.key
        if key is None or not key.exact or None in schemas:
            return columns
        kinds = [
            schema.field(at).type if schema is not None else None
            for schema, at in zip(schemas, self._key_places(), strict=True)
        ]
        if family(kinds[0]) in _SAME_BITS and not pa.types.is_dictionary(kinds[0]):
            for stream, at in enumerate(self._key_places()):
                if stream > 0 and kinds[stream] == kinds[0]:
                    columns[stream].remove(at)
        return columns

    def _key_places(self) -> list[int]:
        """Where the (first) key column stands in each stream."""
        names = self._binding.key_columns[0]
        return [
            -1 if schema is None else schema.get_field_index(name)
            for schema, name in zip(self._binding.schemas, names, strict=True)
        ]

    def room(self, scratch: Scratch) -> Output:
        """Where a driver writes results; its pages are used again and again."""
        streams = len(self._payloads)
        size = OUTPUT_ROOM if self._binding.spec.memory_bytes is None else SMALL_ROOM
        return Output(
            rows=scratch.array("rows of results", streams * size, np.int64).reshape(streams, size),
            importance=scratch.array("importance of results", size, np.float64),
            weight=scratch.array("weight of results", size if self._sampled else 1, np.float64),
            left=np.empty((0, DEPARTURE), np.int64),
            worth=np.empty(0),
            filled=np.zeros(2, np.int64),
        )

    def drain(self, output: Output, gate: Records) -> Iterator[pa.Table]:
        """The results so far as tables of bounded size; the output is empty then.

        `gate` is the record of the join: its options, and its counts of results.
        """
        count = int(output.filled[RESULTS])
        output.filled[RESULTS] = 0
        width = sum(p.mean_row_bytes for p in self._payloads if p is not None)
        step = max(1, min(count, int(PIECE_BYTES / max(width, 1.0))))
        for begin in range(0, count, step):
            yield self._piece(output, begin, min(begin + step, count), gate)

    def _piece(self, output: Output, begin: int, end: int, gate: Records) -> pa.Table:
        parts = self._gathered([rows[begin:end] for rows in output.rows])
        columns = [column for part in parts for column in part]
        if gate.has_importance:
            importance = output.importance[begin:end].copy()
        else:
            importance = self._same_importance(end - begin, gate.combine)
        columns.append(pa.array(importance))
        if self._sampled:
            weight = output.weight[begin:end].copy() if gate.limited else np.ones(end - begin)
            columns.append(pa.array(weight))
        table = pa.Table.from_arrays(columns, schema=self.schema)
        return self._without_false_matches(table, parts, importance, gate)

    def _gathered(self, rows: Sequence[NDArray[np.int64]]) -> list[list[pa.ChunkedArray]]:
        """The columns of each stream at these addresses, one list per stream."""
        parts: list[list[pa.ChunkedArray]] = []
        for payload, wanted, addresses in zip(self._payloads, self._columns, rows, strict=True):
            assert payload is not None
            part = list(payload.gather(addresses, wanted).columns)
            if len(wanted) < len(payload.schema):
                places = self._key_places()
                part.insert(places[len(parts)], parts[0][places[0]])
            parts.append(part)
        return parts

    def _same_importance(self, count: int, combine: int) -> NDArray[np.float64]:
        """The importance of results where every tuple counts as 1: one array for all tables."""
        if len(self._importance) < count:
            self._importance = np.full(count, of_ones(combine, len(self._payloads)))
            self._importance.flags.writeable = False
        return self._importance[:count]

    def _without_false_matches(
        self,
        table: pa.Table,
        parts: Sequence[Sequence[pa.ChunkedArray]],
        importance: NDArray[np.float64],
        gate: Records,
    ) -> pa.Table:
        """Where keys are hashed, drop results whose codes are equal but whose keys are not."""
        key = self._binding.key
        if key is None or key.exact:
            return table
        same: Any = None
        for names, kind in zip(self._binding.key_columns, key.kinds, strict=True):
            first, *others = (
                plain_array(part[schema.get_field_index(name)], kind)
                for part, schema, name in zip(parts, self._binding.schemas, names, strict=True)
                if schema is not None
            )
            for other in others:
                equal = pc.equal(first, other)
                same = equal if same is None else pc.and_(same, equal)
        false = table.num_rows - (pc.sum(same).as_py() or 0)
        if false == 0:
            return table
        gate.results -= false
        gate.importance_out -= importance[~same.to_numpy(zero_copy_only=False)].sum()
        return some_rows(table, same)
