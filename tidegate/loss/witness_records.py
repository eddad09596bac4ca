"""A sentinel's numbers as the compiled code sees them.

Law: between two pushes a sentinel holds at most `most` witnesses. Inside a push the roster also
lists those that came and went in it, so that the results of the join can still be credited to them.
"""

from __future__ import annotations

import numpy as np

# A tuple of the sample, and its results in this push: all that exist, and those the join gave out.
# Each result is divided by the probability with which its tuple was in the sample at that moment.
WITNESS = np.dtype(
    [
        ("time", np.int64),
        ("code", np.int64),  # of its key
        ("address", np.int64),  # of its row in the join's store; NOWHERE if the join has shed it
        ("importance", np.float64),
        ("draw", np.float64),  # in [0, 1): it is in the sample while this is below the rate
        ("rate", np.float64),  # the smallest since it came: the probability of being in the sample
        ("rate_at_first", np.float64),  # of this push
        ("exact", np.float64),
        ("kept", np.float64),
        ("exact_worth", np.float64),  # sums of importance
        ("kept_worth", np.float64),
        ("count", np.float64),  # the tuple itself, if it came in this push
        ("stream", np.int32),
        ("first_change", np.int32),  # number of the first change of the rate that it saw in a push
        ("older", np.int32),  # the next of its bucket
        ("dead", np.int32),
    ]
)

# The one record of a sentinel.
SENTINEL = np.dtype(
    [
        ("rate", np.float64),  # the share of tuples that are taken into the sample
        ("most", np.int64),  # witnesses
        ("held", np.int64),
        ("taken", np.int64),  # tuples that could match and were not too late
        ("peak", np.int64),  # the most that were ever held
        ("listed", np.int64),  # entries of the roster in use
        ("changes", np.int64),  # of the rate, in this push
        ("check_at", np.int64),  # when it is next looked at whether the sample may grow
        ("longest", np.int64),  # window
        ("clock", np.int64),
        ("watermark", np.int64),
        ("external", np.int64),
        ("lateness", np.int64),
        ("has_importance", np.int64),
        ("combine", np.int64),
        ("seed", np.uint64),
    ]
)

# A change of the rate inside a push: it holds after the arrival at this place.
CHANGE = np.dtype(
    [("time", np.int64), ("stream", np.int64), ("place", np.int64), ("rate", np.float64)]
)

NOWHERE = -1
NOBODY = -1
MOST_CHANGES = 256  # in one push; only the first half may be rises
