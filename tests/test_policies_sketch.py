"""Where a window holds more than is counted one by one, victims are those of the slow twin too.

Law: the same as in `test_policies`, with logs of a few tuples, so that nearly every window is
counted by a sketch. How soon it fades is a constant of compiled code, so fading is shown by the run
as plain Python.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_policies import FEW, MANY, check_victims, shed_cases

import tidegate as tg
from tidegate.shed import learning
from tidegate.state import shed_arrays

COUNTING = [
    "prob",
    "simpprob",
    "dimpprob",
    tg.priority("multiplicative"),
    tg.dgl(decay=1.0, gain=2.0),
]
PLAIN = os.environ.get("NUMBA_DISABLE_JIT") == "1"


def check(data: st.DataObject, policies: list[object]) -> None:
    case = data.draw(shed_cases(data.draw(st.sampled_from(policies))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shed_arrays, "LARGEST_LOG", data.draw(st.integers(1, 4)))
        if PLAIN:
            patch.setattr(learning, "SMALLEST_FADE", data.draw(st.integers(1, 4)))
        check_victims(case)


@settings(max_examples=MANY)
@given(data=st.data())
def test_fast_equals_slow_beyond_the_log(data: st.DataObject) -> None:
    check(data, COUNTING)


@pytest.mark.nojit
@settings(max_examples=FEW)
@given(data=st.data())
def test_fast_equals_slow_while_a_sketch_fades(data: st.DataObject) -> None:
    check(data, COUNTING[:-1])  # DGL's twin counts in fractions, and fading rounds
