"""What is promised works, and what does not work is not promised.

Law: wrong arguments get one sentence that names the nearest right one; there is one list of
policies; a policy, an option or a stream that is refused is named nowhere.
"""

from __future__ import annotations

import inspect
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate.spec import POLICY_NAMES, Cpu, JoinSpec, Policy, SpecError, policy, rows

REQUIRED: dict[str, Any] = {"on": "k", "time": "ts", "within": "10 minutes"}


def make(**changes: Any) -> JoinSpec:
    return JoinSpec(**(REQUIRED | changes))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: JoinSpec(windw=5, **REQUIRED),
            "JoinSpec has no option 'windw'; the window is wit",
        ),
        (lambda: JoinSpec(how="left", **REQUIRED), "no option 'how'; joins are inner so far"),
        (lambda: JoinSpec(memroy=5, **REQUIRED), "no option 'memroy'; did you mean 'memory'"),
        (lambda: JoinSpec(on="k"), r"missing a required argument: 'time'\); give on=, time=, wit"),
        (lambda: JoinSpec("k"), r"too many positional arguments\); give on=, time=, within="),
        (lambda: Cpu(comparisons=3), "Cpu has no option 'comparisons'; did you mean 'comparisons_"),
        (lambda: tidegate.dgl(dcay=0.9), r"tidegate\.dgl has no option 'dcay'; did you mean 'dec"),
        (lambda: tidegate.random(seed=1), r"tidegate\.random has no option 'seed'; it takes none"),
        (lambda: tidegate.priority(), r"tidegate\.priority .* 'form'\); give form="),
    ],
)
def test_wrong_arguments_get_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_constructors_keep_their_signatures() -> None:
    assert list(inspect.signature(tidegate.dgl).parameters) == ["decay", "gain", "statistics"]
    assert "within" in inspect.signature(JoinSpec).parameters


def test_one_list_of_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert POLICY_NAMES == tidegate.policies() == policy.policy_names()
    for name in policy.PARAMETERS:
        assert callable(getattr(tidegate, name.replace("-", "_")))
    with pytest.raises(SpecError, match="policy 'newest' is not known"):
        make(policy="newest")
    # A name in the one list is all that it takes.
    monkeypatch.setitem(policy.PARAMETERS, "newest", ())
    assert make(policy="newest").policy_choice == Policy("newest")
    assert "newest" in tidegate.policies()


@pytest.mark.parametrize("name", policy.PARAMETERS)
def test_every_listed_policy_works(name: str) -> None:
    chosen = tidegate.priority("additive") if name == "priority" else name
    tidegate.JoinEngine(make(policy=chosen, memory=5))


@pytest.mark.parametrize("make_policy", [tidegate.age, tidegate.value])
@pytest.mark.parametrize(
    ("within", "width"),
    [(30, 10), (31, 11), (0, 1), ("30 s", timedelta(seconds=10)), (rows(30), 10)],
)
def test_a_curve_without_a_bucket_covers_the_window(
    make_policy: Any, within: Any, width: Any
) -> None:
    spec = make(within=within, policy=make_policy(curve=[1, 2, 3]))
    told = make(
        within=within, policy=make_policy(curve=[1, 2, 3], bucket=spec.policy_choice.get("bucket"))
    )
    assert spec.policy_choice.get("bucket") == {"left": width, "right": width}
    assert spec == told
    assert JoinSpec.from_json(spec.to_json()) == spec
    uneven = make(within=within, policy=make_policy(curve={"left": [1], "right": [1, 2, 3]}))
    assert uneven.policy_choice.get("bucket")["right"] == width
    assert make(policy=make_policy()).policy_choice.get("bucket") is None


@pytest.mark.parametrize("make_policy", [tidegate.age, tidegate.value])
@pytest.mark.parametrize("numbers", [1, 3, 20, 50, 400])
@pytest.mark.parametrize("within", [30, rows(30)])
def test_a_curve_of_any_length_is_joined_by(make_policy: Any, numbers: int, within: Any) -> None:
    """Of 20 numbers and more, which an engine without their bucket had no room for."""
    table = pa.table({"k": [1, 2, 3] * 20, "t": range(60)})
    curve = [float(n % 7) for n in range(numbers)]
    spec = JoinSpec(on="k", time="t", within=within, memory=10, policy=make_policy(curve=curve))
    wide = max(1, -(-30 // numbers))
    told = spec.replace(policy=make_policy(curve=curve, bucket=wide))
    kept = [tidegate.join({"left": table, "right": table}, each) for each in (spec, told)]
    assert kept[0].table == kept[1].table
    assert kept[0].table.num_rows > 0


def test_the_package_is_typed_and_silent() -> None:
    assert (Path(tidegate.__file__).parent / "py.typed").is_file()
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("tidegate").handlers)


def test_a_stream_that_is_rejected_whole_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    table = pa.table({"k": [1, 2], "t": [1, 2], "w": [-1.0, -2.0]})
    spec = JoinSpec(on="k", time="t", within=5, importance={"left": "k", "right": "w"})
    with caplog.at_level(logging.WARNING, "tidegate"):
        tidegate.join({"left": table, "right": table}, spec)
    assert "all 2 rows of stream 'right' were rejected (importance)" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "tidegate"):
        tidegate.join({"left": table, "right": table}, spec.replace(importance=None))
    assert caplog.text == ""
