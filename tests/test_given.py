"""Public functions refuse what is no spec or no streams in one sentence that says what to give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tidegate as tg

TABLE = pa.table({"k": [1], "t": [1]})
SPEC = tg.JoinSpec(on="k", time="t", within=1, memory=2)
FACES: dict[str, Callable[[Any, Any], Any]] = {
    "join": tg.join,
    "optimum": tg.optimum,
    "regret": tg.regret,
    "whatif": tg.whatif,
    "plan": tg.plan,
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("streams", [[TABLE, TABLE], TABLE, "left.parquet"])
def test_streams_without_names_are_refused(face: str, streams: Any) -> None:
    with pytest.raises(tg.TidegateError, match=f"^{face} was given .*; give a dict by stream name"):
        FACES[face](streams, SPEC)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("spec", [{"on": "k"}, "k", 5])
def test_what_is_no_spec_is_refused(face: str, spec: Any) -> None:
    with pytest.raises(tg.TidegateError, match=r"^spec is \w+; give a tidegate.JoinSpec"):
        FACES[face]({"left": TABLE, "right": TABLE}, spec)


def test_a_ledger_is_a_folder() -> None:
    with pytest.raises(tg.TidegateError, match=r"^ledger is int; give the path of a folder$"):
        tg.JoinEngine(SPEC, ledger=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("watched", [{"sentinel": 0.02}, {"target": "recall >= 0.9"}])
def test_what_watches_a_join_is_no_part_of_what_could_have_been(watched: dict[str, Any]) -> None:
    spec = tg.JoinSpec(on="k", time="t", within=1, memory=20_000, **watched)
    streams = {"left": TABLE, "right": TABLE}
    assert tg.optimum(streams, spec).size == 1
    assert tg.regret(streams, spec).policy["size"] == 1
