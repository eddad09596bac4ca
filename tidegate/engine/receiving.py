"""A join that receives rows: what comes in is checked, encoded, counted and lined up.

Law: what is wrong with a push is found before its first row is stored; a row that cannot be joined
is counted, with a few examples, and its payload is not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.batching import arrivals_of, by_time, kept_rows, select
from tidegate.binding.binding import Binding, Encoded
from tidegate.columns.storage import declared
from tidegate.compiled.scratch import Scratch
from tidegate.engine.examples import row_of
from tidegate.engine.miniature import Miniature
from tidegate.engine.probes import Probe
from tidegate.engine.running import RunningJoin
from tidegate.engine.searching import with_search
from tidegate.loss.ledger_files import Files
from tidegate.spec import JoinSpec, TidegateError
from tidegate.state import byte_budget
from tidegate.windows.arrivals import Arrivals

EXAMPLES_KEPT = 3


class ReceivingJoin(RunningJoin):
    """What a join knows of the rows that came, and how they become arrivals."""

    def __init__(
        self,
        spec: JoinSpec,
        probe: Probe,
        ledger: str | Path | Files | None,
        miniature: Miniature | None,
    ) -> None:
        super().__init__(spec, probe, ledger, miniature)
        self._schemas = [None] * len(spec.streams)
        self._rows_in = [0] * len(spec.streams)
        self._rejected: list[Counter[str]] = [Counter() for _ in spec.streams]
        self._examples: list[dict[str, Any]] = []

    def _stream(self, name: str) -> int:
        if name not in self.spec.streams:
            raise TidegateError(
                f"{name!r} is not a stream of this join; its streams are "
                f"{', '.join(map(repr, self.spec.streams))}"
            )
        return self.spec.streams.index(name)

    def _encode(self, binding: Binding, stream: int, table: pa.Table) -> Encoded:
        try:
            return binding.encode(stream, table)
        except pa.ArrowInvalid as error:
            raise TidegateError(
                f"a join column of stream {self.spec.streams[stream]!r} does not fit the type in "
                f"which the streams are compared ({str(error).splitlines()[0]}); cast the columns "
                "to one type before the join"
            ) from error

    def _binding_with(self, schemas: Mapping[int, pa.Schema]) -> Binding:
        """The binding that also fits these schemas; the one in use if nothing is new."""
        merged = list(self._schemas)
        for stream, schema in schemas.items():
            known = merged[stream]
            if known is not None and known.equals(schema, check_metadata=True):
                continue  # what has been declared stays as it is
            schema = declared(schema, self.spec.streams[stream])
            if known is None:
                merged[stream] = schema
            elif not known.equals(schema):
                raise TidegateError(
                    f"stream {self.spec.streams[stream]!r} changed its columns from "
                    f"({_listed(known)}) to ({_listed(schema)}); push the same columns each time"
                )
        if merged == self._schemas:
            return self._binding
        binding = Binding(self.spec, merged)
        binding.check_follows(self._binding)
        return binding

    def _refuse_bad_rows(
        self, given: Mapping[int, pa.Table], encoded: Mapping[int, Encoded]
    ) -> None:
        if self.spec.bad_rows != "fail":
            return
        for stream, part in encoded.items():
            for reason, mask in part.rejected.items():
                row = int(np.flatnonzero(mask)[0])
                raise TidegateError(
                    f"row {row} of stream {self.spec.streams[stream]!r} cannot be joined "
                    f"({reason.replace('_', ' ')}): {row_of(given[stream], row)}; "
                    "nothing of this push was taken; bad_rows='count' drops and counts such rows"
                )

    def _arrivals(
        self, given: Mapping[int, pa.Table], encoded: Mapping[int, Encoded], scratch: Scratch
    ) -> Arrivals | None:
        """Store the payload of the rows that can be joined, and line them up."""
        parts: dict[int, Encoded] = {}
        rows: list[NDArray[np.int64]] = []
        sizes = [np.zeros(0, np.int64)]
        for stream in sorted(given):
            table, part = given[stream], encoded[stream]
            flags = with_search(
                part.matchable, self._searches, self.spec.seed, stream, self._rows_in[stream]
            )
            if self._miniature is not None:
                flags = self._miniature.flags(flags, table)
            part = part._replace(matchable=flags)
            self._rows_in[stream] += table.num_rows
            kept = kept_rows(part)
            payload = self._payloads[stream]
            assert payload is not None
            base = payload.append(table, kept)
            if kept is not None:
                self._count_rejected(stream, table, part)
                part = select(part, kept)
            part, address, disorder = by_time(part, base)
            self._disorder[stream] = max(self._disorder[stream], disorder)
            if self._state.gate[0].by_bytes and len(address):
                sizes.append(byte_budget.charges(payload.pushed_sizes()[address - base]))
            parts[stream] = part
            rows.append(address)
        if not any(len(address) for address in rows):
            return None
        nothing = select(part, np.zeros(0, np.int64))
        complete = [parts.get(stream, nothing) for stream in range(len(self.spec.streams))]
        return arrivals_of(complete, rows, np.concatenate(sizes), scratch)

    def _count_rejected(self, stream: int, table: pa.Table, part: Encoded) -> None:
        if self._ledger is not None:
            self._ledger.reject(stream, table, part.rejected, self._binding)
        seen = np.zeros(table.num_rows, np.bool_)
        for reason, mask in part.rejected.items():
            mask = mask & ~seen
            seen |= mask
            self._rejected[stream][reason] += int(mask.sum())
            room = EXAMPLES_KEPT - sum(1 for e in self._examples if e["reason"] == reason)
            for row in np.flatnonzero(mask)[: max(0, room)]:
                example = row_of(table, int(row))
                name = self.spec.streams[stream]
                self._examples.append({"stream": name, "reason": reason, "row": example})


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
