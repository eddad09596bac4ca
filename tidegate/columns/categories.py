"""The categories of one categorical column, gathered from all pushes.

Law: a stored row holds the number of its category; a category keeps its number until `reset`. Each
category is held once, whatever the dictionaries of the pushes repeat, and in the order in which
they came (so that a list that only grows at its end keeps its order).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Convert = Callable[[pa.Array], pa.Array]


class Categories:
    """The list of categories of one column, in stored form."""

    def __init__(self, kind: pa.DataType) -> None:
        self.values = pa.array([], kind)

    def encoded(self, array: pa.Array, convert: Convert, only_used: bool) -> pa.Array:
        """The numbers of the categories of a dictionary array; new ones are appended."""
        numbers, dictionary = array.indices, array.dictionary
        if only_used:
            used = pc.unique(numbers.drop_null())
            numbers = pc.index_in(numbers, value_set=used)
            dictionary = convert(dictionary).take(used)
        else:
            dictionary = convert(dictionary)
        mapping = self._numbers_of(dictionary)
        return numbers.cast(pa.int32()) if mapping is None else mapping.take(numbers)

    def decoded(self, array: pa.Array, kind: pa.DataType, convert: Convert) -> pa.Array:
        """The dictionary array of these numbers."""
        numbers = array.cast(kind.index_type)
        values = convert(self.values)
        return pa.DictionaryArray.from_arrays(numbers, values, ordered=kind.ordered)

    def _numbers_of(self, given: pa.Array) -> pa.Array | None:
        """The number of each given category (NULL for NULL); None if they are 0, 1, 2 ..."""
        known = len(self.values)
        same = min(known, len(given))
        if not given.null_count and given.slice(0, same).equals(self.values.slice(0, same)):
            if len(given) > known:
                self.values = _own(given)
            return None
        found = pc.index_in(given, value_set=self.values)
        new = pc.and_(found.is_null(), given.is_valid())
        count = int(pc.sum(new).as_py() or 0)
        if count:
            self.values = pa.concat_arrays([self.values, given.filter(new)])
        places = np.cumsum(new.to_numpy(zero_copy_only=False)) - 1 + known
        fresh = pa.array(places, pa.int32(), mask=~given.is_valid().to_numpy(zero_copy_only=False))
        return pc.if_else(new, fresh, found)

    def reset(self, values: pa.Array) -> None:
        """Take another list, whose numbers the caller has put into all rows."""
        self.values = values


def _own(values: pa.Array) -> pa.Array:
    """A copy that keeps nothing of the giver's memory."""
    return pa.concat_arrays([values])
