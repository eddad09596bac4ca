"""What one access costs in each structure: the weight factors P and I of kang2003, as data.

Law: weights say how they were made (`name`), in which unit their costs are, and of what shape the
structures were that they were measured on. The cost model reads nothing else about a machine.

The paper's weights are those of its equation 7. It does not say their unit. Weights of this machine
(`calibrate`) are in CPU seconds per access, and know what the paper leaves out: a cost per
operation beside the cost per access, and what results and arrivals cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Shape = Literal["paper", "engine"]
NOTHING: Mapping[str, float] = {"N": 0.0, "H": 0.0, "B": 0.0, "T": 0.0}


@dataclass(frozen=True)
class Weights:
    """Weight factors by structure letter.

    name
        How they were made: "paper", "here".
    search, update
        P_d and I_d: cost of one access while searching, and while inserting or invalidating.
    per_search, per_update
        Cost of an operation beside its accesses; an update is an insertion and an invalidation.
    per_match
        Cost of a tuple that a search finds and that becomes a result.
    per_arrival
        What every arrival costs under any pair.
    band_scan
        How many times as much an access of a nested loop costs in a band join.
    saved
        What an arrival costs less under a pair that the engine treats as a special case.
    unit
        Unit of a cost; "s" for CPU seconds, "" where the unit is not known.
    shape
        Which count of accesses the weights belong to: equations 3 to 6 with fixed sizes ("paper"),
        or what the engine's structures really compare ("engine").
    bucket_size, node_size
        Tuples in a hash bucket (0: follows from the number of keys), entries in a tree node.
    structures
        The structures that are chosen from. The paper leaves B+trees out of its choice, since they
        take more memory than T-trees at about the same speed (section 5.1).
    made
        What is worth knowing about the measurement, as plain values.
    """

    name: str
    search: Mapping[str, float]
    update: Mapping[str, float]
    per_search: Mapping[str, float] = field(default_factory=lambda: dict(NOTHING))
    per_update: Mapping[str, float] = field(default_factory=lambda: dict(NOTHING))
    per_match: Mapping[str, float] = field(default_factory=lambda: dict(NOTHING))
    per_arrival: float = 0.0
    band_scan: float = 1.0
    saved: Mapping[str, float] = field(default_factory=dict)
    unit: str = ""
    shape: Shape = "paper"
    bucket_size: float = 10.0
    node_size: int = 100
    structures: str = "NHBT"
    made: Mapping[str, Any] = field(default_factory=dict)


# Of a machine that was not calibrated: what `tidegate plan --calibrate` found on an AMD EPYC,
# rounded. A choice needs ratios of costs, which differ less between machines than costs do.
TYPICAL = Weights(
    name="typical",
    search={"N": 6.3e-9, "H": 36e-9, "B": 6.4e-9, "T": 5.1e-9},
    update={"N": 1.9e-9, "H": 11e-9, "B": 9.0e-9, "T": 8.0e-9},
    per_search={"N": 0.0, "H": 13e-9, "B": 0.0, "T": 0.0},
    per_update={"N": 0.9e-9, "H": 5.5e-9, "B": 0.0, "T": 0.0},
    per_match={"N": 22e-9, "H": 22e-9, "B": 18e-9, "T": 19e-9},
    per_arrival=69e-9,
    band_scan=1.7,
    saved={"HH": 31e-9},
    unit="s",
    shape="engine",
    bucket_size=0.0,
    node_size=64,
)

PAPER = Weights(
    name="paper",
    search={"N": 3e-4, "H": 5.5e-4, "B": 2.6e-4, "T": 2.6e-4},
    update={"N": 1e-4, "H": 7.8e-4, "B": 2.6e-4, "T": 2.7e-4},
    structures="NHT",
    made={"by": "kang2003, equation 7", "machine": "Athlon XP 1533 MHz, Java 1.4.0"},
)
