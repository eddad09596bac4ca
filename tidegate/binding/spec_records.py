"""What the driver needs to know of a spec, as records.

Law: the compiled driver never reads a `JoinSpec`; whatever a spec can ask for is a number in one of
these records, so one compiled driver serves every spec.
"""

from __future__ import annotations

import numpy as np

from tidegate.estimators.importance import MAX, MEAN, MIN, PRODUCT, SUM

INDEX_CODES = {"nested-loop": 0, "hash": 1, "btree": 2, "ttree": 3, "inverted": 4}
NESTED_LOOP, HASH, BTREE, TTREE, INVERTED = range(5)

IMPORTANCE_CODES = {"min": MIN, "max": MAX, "sum": SUM, "product": PRODUCT, "mean": MEAN}

SERVED_BY_CODE = -1  # a tree keyed by the equality code; otherwise the number of a band

# The one record of a join: its options, and what it counts over all streams.
GATE = np.dtype(
    [
        ("has_equality", np.int64),
        ("has_importance", np.int64),
        ("combine", np.int64),  # IMPORTANCE_CODES
        ("tree_term", np.int64),
        ("lateness", np.int64),
        ("limited", np.int64),  # is there a budget?
        ("by_bytes", np.int64),
        ("policy", np.int64),
        ("seed", np.uint64),
        ("clock", np.int64),  # largest time taken so far
        ("watermark", np.int64),  # no tuple before this will be taken
        ("external", np.int64),  # the watermark is given with each push
        ("order", np.int64),  # of the next tuple; see `state.arrays.renumber`
        ("results", np.int64),
        ("importance_out", np.float64),
        ("only_counts", np.int64),  # results are counted, not written
        ("takes_late", np.int64),  # may tuples come out of order?
        ("reports_left", np.int64),  # tuples that leave are reported
        ("worth", np.float64),  # of the tuple that was last chosen to go, by the policy
    ]
)

BAND = np.dtype(
    [
        ("column", np.int64),  # of `values`
        ("is_float", np.int64),
        ("low", np.int64),
        ("high", np.int64),
        ("low_open", np.int64),  # no bound on this side (or one beyond all differences)
        ("high_open", np.int64),
        ("low_real", np.float64),
        ("high_real", np.float64),
    ]
)

SET_TERM = np.dtype([("weighted", np.int64), ("at_least", np.float64)])

THETA_TERM = np.dtype([("address", np.int64), ("column", np.int64)])
