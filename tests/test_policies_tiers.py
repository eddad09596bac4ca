"""Victims come from all tiers of a queue, and are those of the slow twin.

Law: the same as in `test_policies`, with a near tier of two entries. Compiled code keeps the
constant it was compiled with, so only the run as plain Python shows it.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_policies import FEW, POLICIES, check_victims, shed_cases

from tidegate.shed import tiers

STANDING = ["simp", "prob", "simpprob", "dgl", "value"]  # in queues, by tuple or by key


@pytest.mark.nojit
@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") != "1", reason="shown as plain Python")
@pytest.mark.parametrize("name", STANDING)
@settings(max_examples=FEW)
@given(data=st.data())
def test_fast_equals_slow_in_small_tiers(name: str, data: st.DataObject) -> None:
    case = data.draw(shed_cases(data.draw(st.sampled_from(POLICIES[name]))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "NEAR", 2)
        patch.setattr(tiers, "_FILL", 1)
        check_victims(case)
