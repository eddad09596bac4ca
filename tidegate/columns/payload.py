"""The columns that tuples carry along: stored as they came, gathered only for output.

Law: a row has an *address* of its own from the moment it is appended until it is moved or dies;
the rows of a push have the highest. Once a push is settled, the store shares no memory with the
pushed table, what is held is at most 1 + `slack` of the bytes of the rows alive, plus a few KB per
column, and `nbytes` is what is held.

Nothing changes before everything that can fail is done: `settle` only plans (`settling`), `accept`
takes the plan into use, and `forget_push` undoes what was appended since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.columns.pages import return_unused_pages
from tidegate.columns.picking import picked
from tidegate.columns.segments import Addresses, Segment, Sources
from tidegate.columns.settling import Plan, Settling
from tidegate.columns.sizes import fixed_row_size, held_bytes
from tidegate.columns.storage import Codec, empty_table

SLACK = 1 / 8  # of the bytes alive: how much dead payload may be held
MOST_DIE = 2  # times the rows alive: of a larger push only the rows that are left are copied
LARGEST_SEGMENT = 1 << 30  # bytes: Arrow's plain strings end at 2 GB in one array
RELEASED = 1 << 19  # bytes that may be unused before the pools are asked to return their pages


class Settlement(NamedTuple):
    """What `settle` has planned: the store takes it by `accept`, the caller by its addresses."""

    moved: NDArray[np.int64]  # positions in the array of alive addresses; none where it is empty
    addresses: Addresses  # their new addresses
    plan: Plan
    codecs: list[Codec]
    categories_used: int
    alive: int


class Payload:
    """The stored rows of one stream.

    Example
    -------
    >>> import numpy as np, pyarrow as pa
    >>> payload = Payload(pa.schema({"x": pa.int64()}))
    >>> base = payload.append(pa.table({"x": [7, 8, 9]}))
    >>> payload.gather(np.array([base + 2, base])).column("x").to_pylist()
    [9, 7]
    >>> alive = np.array([base + 1])
    >>> settlement = payload.settle(len(alive), base + 1, lambda: alive)
    >>> payload.accept(settlement)
    >>> alive[settlement.moved] = settlement.addresses
    >>> payload.gather(alive).column("x").to_pylist()
    [8]
    """

    def __init__(self, schema: pa.Schema, slack: float = SLACK, is_tight: bool = False) -> None:
        """`is_tight`: pages are returned to the system as soon as an eighth is unused."""
        self.schema = schema
        self._is_tight = is_tight
        self._slack = slack
        self._codecs = [Codec(kind) for kind in schema.types]
        names = [str(at) for at in range(len(schema))]
        storage = pa.schema(zip(names, [codec.storage for codec in self._codecs], strict=True))
        self._kinds = storage.types
        self._row_size = fixed_row_size(storage)
        self._segments: list[Segment] = []  # what has settled, in order of address
        self._pushed: list[Segment] = []  # rows of the push that is under way
        self._sources: Sources | None = None  # all segments, once somebody has asked
        self._next = 0
        self._before: tuple[int, list[pa.Array]] = (0, [])
        self._categories_used = 0  # bytes, when they were last cleaned
        self._alive = 0  # rows, when the last push was settled
        self._known_dead = (0, 0.0)  # rows and bytes, when the rows alive were last looked at
        self._in_order = True
        self._in_use = 0  # bytes, at most since pages were last returned

    @property
    def end(self) -> int:
        """The address that the next row will get."""
        return self._next

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self._all())

    @property
    def mean_row_bytes(self) -> float:
        """Of all rows stored, dead ones included."""
        if self._row_size is not None:
            return self._row_size
        return sum(segment.nbytes for segment in self._all()) / max(1, self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that are held."""
        arrays = [array for segment in self._all() for array in segment.all_arrays()]
        return held_bytes([*arrays, *_category_values(self._codecs)])

    def _all(self) -> list[Segment]:
        return self._segments + self._pushed

    # --- a push ---------------------------------------------------------------------------

    def append(self, table: pa.Table, kept: NDArray[np.bool_] | None = None) -> int:
        """Take the rows of a push, or those of `kept`; returns the address of the first."""
        if not self._pushed:
            self._before = (self._next, _category_values(self._codecs))
        base = self._next
        self._sources = None
        mask = None if kept is None else pa.array(kept)
        step = max(1, int(table.num_rows * LARGEST_SEGMENT / max(table.nbytes, 1)))
        packs = table.num_rows <= MOST_DIE * self._alive
        for begin in range(0, table.num_rows, step):
            part = None if mask is None else mask.slice(begin, step)
            arrays = self._encoded(table.slice(begin, step), part)
            rows = len(arrays[0]) if arrays else 0
            if rows:
                pushed = Segment(self._next, rows, self._kinds, arrays)
                self._pushed += pushed.in_parts(max(self._alive, rows)) if packs else [pushed]
                self._next += rows
        return base

    def _encoded(self, table: pa.Table, mask: pa.Array | None) -> list[pa.Array]:
        arrays = []
        for codec, column in zip(self._codecs, table.columns, strict=True):
            chunks = [codec.encoded(chunk) for chunk in column.chunks]
            array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
            arrays.append(array if mask is None else array.filter(mask))
        return arrays

    def pushed_sizes(self) -> NDArray[np.int64]:
        """Bytes of each row of the push, in order of address."""
        sizes = [np.rint(segment.row_sizes()).astype(np.int64) for segment in self._pushed]
        return np.concatenate(sizes) if sizes else np.zeros(0, np.int64)

    def forget_push(self) -> None:
        """Undo what was appended since the last settlement."""
        if self._pushed:
            self._next, values = self._before
            self._pushed = []
            self._sources = None
            _set_categories(self._codecs, values)

    def store(self, table: pa.Table) -> int:
        """Append a table all of whose rows live, and settle; returns the first address."""
        base = self.append(table)
        self.accept(self.settle(self.rows, 0, lambda: np.arange(base, self._next)))
        return base

    # --- settling -------------------------------------------------------------------------

    def settle(
        self, alive_rows: int, alive_from: int, alive: Callable[[], Addresses]
    ) -> Settlement:
        """Plan what is kept of the rows after a push; nothing changes yet.

        Parameters
        ----------
        alive_rows
            How many rows are alive.
        alive_from
            No row before this address is alive, as long as rows were given in order of arrival
            and none was moved before one that came earlier.
        alive
            The addresses of all rows alive, in the order in which they are to be stored. Asked
            only if too many dead rows may stand among those alive.
        """
        settling = Settling(self._all(), self._row_size, self._slack, self._next, self._in_order)
        plan = settling.plan(alive_rows, alive_from, alive, self._known_dead)
        codecs, used = self._codecs, self._categories_used
        held = held_bytes(_category_values(codecs))
        if held > used and held - used > self._slack / 2 * plan.held + 4096:
            codecs = [Codec(kind) for kind in self.schema.types]
            recoded = [segment.recoded(self._codecs, codecs) for segment in plan.segments]
            plan = plan._replace(segments=recoded)
            used = held_bytes(_category_values(codecs))
        return Settlement(plan.moved, plan.addresses, plan, codecs, used, alive_rows)

    def accept(self, settlement: Settlement) -> None:
        """Take a plan into use; the caller writes down the new addresses."""
        staying = set(map(id, settlement.plan.segments))
        dropped = sum(s.held for s in self._segments if id(s) not in staying)
        self._segments = settlement.plan.segments
        self._pushed = []
        self._sources = None
        self._next = settlement.plan.end
        self._known_dead = settlement.plan.known_dead
        self._in_order = settlement.plan.in_order
        self._alive = settlement.alive
        self._codecs = settlement.codecs
        self._categories_used = settlement.categories_used
        self._return_pages(dropped)

    def _return_pages(self, dropped: int) -> None:
        """Give memory back to the system when much more was in use than is now.

        Old and new segments are there at once while a plan is made.
        """
        held = sum(segment.held for segment in self._segments)
        self._in_use = max(self._in_use, held + dropped)
        if self._in_use > (9 / 8 * held if self._is_tight else 4 * held) + RELEASED:
            self._in_use = held
            return_unused_pages()

    # --- reading --------------------------------------------------------------------------

    def gather(self, addresses: Addresses, columns: Sequence[int] | None = None) -> pa.Table:
        """The rows at these addresses, in this order; all columns or some."""
        wanted = list(range(len(self._codecs)) if columns is None else columns)
        schema = pa.schema([self.schema.field(at) for at in wanted])
        if len(addresses) == 0 or not wanted:
            return empty_table(schema)
        if self._sources is None:
            self._sources = Sources(self._all())
        arrays = picked(self._sources, addresses, wanted)
        decoded = [self._codecs[at].decoded(a) for at, a in zip(wanted, arrays, strict=True)]
        return pa.Table.from_arrays(decoded, schema=schema)


def _category_values(codecs: Sequence[Codec]) -> list[pa.Array]:
    return [found.values for codec in codecs for found in codec.all_categories()]


def _set_categories(codecs: Sequence[Codec], values: Sequence[pa.Array]) -> None:
    found = [categories for codec in codecs for categories in codec.all_categories()]
    for categories, given in zip(found, values, strict=True):
        categories.values = given
