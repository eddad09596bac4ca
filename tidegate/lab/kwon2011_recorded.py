"""kwon2011, section 5.7: arrival-order patterns on recorded data, Fig. 11.

Law: the ClarkNet trace of the paper could not be had; another web server's stands in for it, and a
hospital's log beside it. Without the data nothing is measured and nothing is claimed.
"""

from __future__ import annotations

from tidegate.lab.configuration import EXACT, Configuration
from tidegate.lab.datasets import VARIABLE, folder_of
from tidegate.lab.figures import Figure, Findings, Record, Run, Scale
from tidegate.lab.kwon2011_grid import (
    PAPER,
    POLICIES,
    ep_claims,
    shown,
    tables_by,
    value_claims,
    versus_best,
)
from tidegate.lab.kwon2011_streams import RECORDED
from tidegate.lab.measure import RECORDED_MANY

# Tuples per window; from the last on nearly every policy finds all results.
MEMORIES = {"nasa-visits": (5, 10, 15, 20, 30, 40), "sepsis-steps": (1, 2, 3, 4, 6, 8)}


def _runs(scale: Scale) -> list[Run]:
    folder = folder_of(scale.data)
    found = []
    for name, memories in MEMORIES.items():
        if folder is None or not (folder / RECORDED[name].file).is_file():
            continue
        spec = dict(RECORDED[name].spec, split="even")
        for memory in memories[::2] if scale.quick else memories:
            for policy in (EXACT, *POLICIES):
                for seed in scale.seeds if policy == "random" else (0,):
                    made = Configuration(
                        RECORDED_MANY, {"name": name}, spec, policy, POLICIES.get(policy, {}),
                        memory * len(spec["streams"]), seed=seed,
                    )  # fmt: skip
                    labels = {"x": memory, "join": name, "policy": policy, "seed": seed}
                    found.append(Run(made, labels))
    return found


def _read(records: list[Record], scale: Scale) -> Findings:
    if not records:
        sentence = (
            "The recorded data is not here. Name its folder with --data, or in the variable "
            f"{VARIABLE}, to fill this figure."
        )
        return Findings(notes=[sentence])
    tables = tables_by(records, "join")
    why = (
        "visitors load the page and its images within seconds, so what counts is to keep the "
        "newest tuples, and the order says little"
    )
    claims = ep_claims(tables, "Fig. 11", "memory", why)
    few = (
        "some hundred results are too few to learn from: the first of them are lost while nothing "
        "is known"
    )
    claims += value_claims(tables, "Fig. 11", "memory", few)
    drawn, rows, numbers = shown(tables, "join", "memory per window, tuples", apart=True)
    notes = [f"{name}: {RECORDED[name].about}." for name in tables]
    return Findings(claims, drawn, rows, notes, [versus_best(tables, "memory"), *numbers])


FIGURES = (
    Figure(
        PAPER, "Fig. 11", "Recorded data",
        "On a web server's trace EP outperforms the others at all memory sizes; these are alike.",
        {
            "data": "NASA web server, August 1995, in place of ClarkNet; a hospital's sepsis cases",
            "streams": "4: a host's first visit of each page, the first of each step of a case",
            "window": "12 hours; 1 day",
            "memory": "per window, in tuples",
        },
        _runs, _read,
    ),
)  # fmt: skip
