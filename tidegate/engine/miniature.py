"""What makes an engine a small copy of a large one: a part of the tuples stands for all.

Law: a tuple that passes meets those that are retained, is counted by the estimators, and is not
retained itself. So keys keep their true rates while memory and results are those of a sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.windows.arrivals import PASSES


@dataclass(frozen=True)
class Miniature:
    """How an engine differs from one that sees all tuples.

    `stays` is a boolean column of each stream, false where a tuple passes; `log` is how many tuples
    of a full window are counted one by one before they are sketched, as many as stand for those of
    the large engine.
    """

    stays: str
    log: int

    def flags(self, matchable: NDArray[np.uint8], table: pa.Table) -> NDArray[np.uint8]:
        """What each row does when it arrives (`windows.arrivals`)."""
        stays = table.column(self.stays).to_numpy()
        return np.where(stays | (matchable == 0), matchable, PASSES).astype(np.uint8)
