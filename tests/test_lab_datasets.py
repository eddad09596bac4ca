"""Recorded data: the joins have the match structure that their notes say."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.lab.contenders import contenders, missing, missing_note
from tidegate.lab.datasets import JOINS, VARIABLE, file_digest, folder_of, missing_files
from tidegate.lab.datasets import recorded_streams as streams_of
from tidegate.lab.figures import Scale
from tidegate.lab.measure import measure
from tidegate.lab.recorded import FIGURES, SHARES

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="module")
def data() -> Path:
    folder = Path(os.environ.get(VARIABLE) or BESIDE)
    if not folder.is_dir() or missing_files(folder):
        pytest.skip(f"no recorded data: {VARIABLE} names no folder that has it")
    return folder


def _exact(name: str, data: Path) -> tuple[dict[str, pa.Table], tg.JoinResult]:
    streams = streams_of(name, str(data))
    return streams, tg.join(streams, tg.JoinSpec(**JOINS[name].spec))


@pytest.mark.parametrize("name", sorted(JOINS))
def test_streams_come_in_order_with_positive_importance(name: str, data: Path) -> None:
    streams = streams_of(name, str(data))
    assert tuple(streams) == tuple(JOINS[name].spec["streams"])
    for table in streams.values():
        times = table["ts"].to_numpy()
        assert table.num_rows > 1_000
        assert (np.diff(times) >= np.timedelta64(0)).all()
        assert (table["importance"].to_numpy() > 0).all()


def test_most_trips_end_within_half_an_hour(data: Path) -> None:
    _, result = _exact("bike-trips", data)
    ages = result.table["ts_end"].to_numpy() - result.table["ts"].to_numpy()
    trips = streams_of("bike-trips", str(data))["start"].num_rows
    assert (ages <= np.timedelta64(30, "m")).sum() / trips == pytest.approx(0.948, abs=0.005)


def test_html_and_images_of_a_host_meet_soon(data: Path) -> None:
    streams, result = _exact("nasa-host", data)
    assert min(table.num_rows for table in streams.values()) > 5_000
    born, met = (result.table[name].to_numpy() for name in ("ts", "ts_images"))
    ages = (met - born)[met >= born]
    assert (ages <= np.timedelta64(1, "m")).mean() > 0.3


def test_a_penalty_comes_after_sixty_days(data: Path) -> None:
    _, result = _exact("fines-penalty", data)
    ages = result.table["ts_second"].to_numpy() - result.table["ts"].to_numpy()
    assert (ages == np.timedelta64(60, "D")).mean() > 0.9


def test_every_share_of_memory_is_kept(data: Path) -> None:
    runs = FIGURES[0].runs(Scale(quick=True, data=data))
    chosen = [run for run in runs if run.labels["join"] == "fines-sent"]
    assert {run.labels["x"] for run in chosen} == {None, *SHARES}
    for run in chosen[:3]:
        found = measure(run.configuration, str(data))
        assert found["memory_rows"] < 0 or found["memory_rows_peak"] <= found["memory_rows"]


def test_a_folder_is_named_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert folder_of() is None
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert folder_of() == tmp_path
    assert missing_files(tmp_path) == sorted({join.file for join in JOINS.values()})
    with pytest.raises(tg.TidegateError, match="does not exist"):
        folder_of(tmp_path / "nowhere")
    with pytest.raises(tg.TidegateError, match="did you mean 'nasa-url'"):
        streams_of("nasa-urls", str(tmp_path))


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"one")
    (tmp_path / "c").write_bytes(b"two")
    first, same, other = (file_digest(tmp_path / name) for name in "abc")
    assert first == same != other


def test_what_a_version_lacks_is_named() -> None:
    assert [each.policy for each in contenders(("random", "no-such-policy"))] == ["random"]
    assert missing(("random", "no-such-policy")) == ["no-such-policy"]
    assert "no-such-policy" in missing_note(("random", "no-such-policy"))[0]
    assert missing_note(("random", "simp")) == []
