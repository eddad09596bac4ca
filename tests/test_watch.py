"""The page: what it shows, to whom, and that a real browser draws it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import tidegate as tg
from tidegate.cli import run
from tidegate.watch.exposition import HELP, LOSS_HELP
from tidegate.watch.log import LogReader, LogWriter
from tidegate.watch.numbers import MOST_SAMPLES, History, Reading
from tidegate.watch.server import Page

STATS = {
    "rows_in": 5000, "rows_in_left": 3000, "rows_out": 700, "memory_rows": 90, "evicted": 400,
    "refused": 30, "too_late": 2, "rejected": 1, "expired": 4000, "recall": 0.8125,
    "recall_low": 0.79, "recall_high": 0.83,
}  # fmt: skip
SPEC = tg.JoinSpec(on="k", time="t", within=9, memory=100)
BEGAN = time.time() + 86_400  # later than any test: its numbers are never old


def reading(number: int = 1, **changes: Any) -> Reading:
    stats = {**STATS, "rows_in": 1000 * number}
    usual = {"budget": 100, "title": "orders <b>", "streams": ("left", "right")}
    return Reading(BEGAN + number, stats, **{**usual, **changes})


def readings() -> Iterator[Reading]:
    number = 0
    while True:
        number += 1
        yield reading(number, hot_keys=[("k1", 0.25)])


@pytest.fixture
def page() -> Iterator[Page]:
    source = readings()
    curve = [{"memory": m, "recall": m / 200, "low": m / 210, "high": m / 190} for m in (20, 180)]
    page = Page(History(lambda: next(source), curve))
    yield page
    page.close()


def fetch(page: Page, path: str, **headers: str) -> str:
    request = urllib.request.Request(page.url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def test_numbers(page: Page) -> None:
    first = json.loads(fetch(page, "numbers.json"))
    second = json.loads(fetch(page, "numbers.json"))
    assert first["samples"][0]["rows_per_second"] is None
    assert second["samples"][-1]["rows_per_second"] == pytest.approx(1000.0)
    assert second["shed"] == {"evicted": 400, "refused": 30, "too_late": 2, "rejected": 1}
    assert second["samples"][-1]["recall"] == 0.8125
    assert second["hot_keys"] == [["k1", 0.25]]


def test_prometheus(page: Page) -> None:
    text = fetch(page, "metrics")
    assert 'tidegate_recall{query="",join="orders <b>",bucket="0"} 0.8125' in text
    assert "# TYPE tidegate_recall gauge" in text
    assert 'tidegate_stream_rows_in_total{query="",join="orders <b>",bucket="0",stream="left"}' in (
        text
    )
    assert "Rows rejected: recall" not in text


def test_for_this_machine_only(page: Page) -> None:
    for path, headers, status in (("", {"Host": "evil.example"}, 403), ("etc", {}, 404)):
        with pytest.raises(urllib.error.HTTPError) as error:
            fetch(page, path, **headers)
        assert error.value.code == status
        error.value.close()
    assert page.url.startswith("http://127.0.0.1:")


def test_a_port_that_is_taken(page: Page) -> None:
    port = int(page.url.rsplit(":", 1)[1].strip("/"))
    with pytest.raises(tg.TidegateError, match="give another"):
        Page(History(lambda: None), port)


def test_nothing_from_outside(page: Page) -> None:
    text = fetch(page, "")
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.findall(r'(?:src|href)="(?!data:)', text)


def test_history_is_bounded() -> None:
    source = readings()
    history = History(lambda: next(source))
    for _ in range(5 * MOST_SAMPLES):
        history.update()
    seconds = [sample["seconds"] for sample in history.page()["samples"]]
    assert MOST_SAMPLES / 2 <= len(seconds) <= MOST_SAMPLES + 1
    assert seconds == sorted(seconds)
    assert seconds[0] == BEGAN + 1
    assert seconds[-1] == BEGAN + 1 + 5 * MOST_SAMPLES


def test_the_dashboard_asks_for_numbers_that_there_are() -> None:
    board = json.loads(files("tidegate.watch").joinpath("grafana.json").read_text())
    names = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"tidegate_(\w+)", target["expr"])
    }
    assert len(names) > 12
    assert {name.removesuffix("_total") for name in names} <= {*HELP, *LOSS_HELP}


def test_a_log_that_grows(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", SPEC, "a with b")
    reader = LogReader(tmp_path / "log")
    assert reader.next() is None
    writer.add(STATS)
    assert reader.next() == reader.next()
    writer.add({**STATS, "rows_in": 6000}, done=True)
    found = [reader.next() for _ in range(3)]
    assert [(r.stats["rows_in"], r.done) for r in found if r] == [
        (5000, False), (6000, True), (6000, True)
    ]  # fmt: skip
    (tmp_path / "other").write_text("what?\n")
    with pytest.raises(tg.TidegateError, match="not the log"):
        LogReader(tmp_path / "other")


def test_a_log_that_begins_again(tmp_path: Path) -> None:
    """The next join writes the same file, be it shorter or longer by now; or it is not there."""
    path, history = tmp_path / "log", None
    for rows in ([1000, 2000], [10], [5, 15, 25, 35]):
        writer = LogWriter(path, SPEC, "a with b")
        history = history or History(LogReader(path).next)
        for count in rows:
            writer.add({"rows_in": count}, done=count == 35)
            history.update()
        assert [sample["rows_in"] for sample in history.page()["samples"]][-len(rows) :] == rows
        rates = [sample["rows_per_second"] or 0 for sample in history.page()["samples"]]
        assert min(rates) >= 0
    assert history is not None
    path.unlink()
    assert history.page()["samples"][-1]["rows_in"] == 35


def test_what_a_page_cannot_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log"
    LogWriter(path, SPEC, "a with b").add({"rows_in": 1})
    page = Page(History(LogReader(path).next))
    try:
        assert json.loads(fetch(page, "numbers.json"))["samples"]
        path.write_text("not a log\n")
        with pytest.raises(urllib.error.HTTPError) as raised:
            fetch(page, "numbers.json")
        assert raised.value.code == 500
        assert "is not the log of" in raised.value.read().decode()
    finally:
        page.close()


def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        parquet.write_table(
            pa.table({"t": range(300), "k": [n % 9 for n in range(300)]}), f"{name}.parquet"
        )
    words = ["a.parquet", "b.parquet", "--on", "k", "--time", "t", "--within", "50"]
    assert run(["join", *words, "--memory", "20", "--policy", "random", "--log", "log", "-q"]) == 0
    curve = ["--memory", "10,50", "--policies", "random", "--json", "-q", "--no-optimum"]
    capsys.readouterr()
    assert run(["whatif", *words, *curve]) == 0
    Path("curve.json").write_text(capsys.readouterr().out)
    served: list[int] = []
    watching = ["watch", "log", "--seconds", "8", "--curve", "curve.json", "--port", "0", "--json"]
    thread = threading.Thread(target=lambda: served.append(run(watching)))
    thread.start()
    url = None
    while url is None and thread.is_alive():
        time.sleep(0.2)  # what is written while it reads is lost
        found = re.search(r'"url": "(.*)"', capsys.readouterr().out)
        url = found and found[1]
    with urllib.request.urlopen(f"{url}numbers.json", timeout=30) as answer:
        page = json.loads(answer.read())
    assert page["done"]
    assert page["samples"][-1]["rows_in"] == 600
    assert [point["memory"] for point in page["curve"]] == [10, 50]
    thread.join()
    assert served == [0]
    assert run(["watch", "nowhere"]) == 2
    assert "is not a file" in capsys.readouterr().err


def browser() -> str:
    """Debian's chromium, installed where it is missing; without it the test is skipped."""
    found = shutil.which("chromium")
    if found is None:
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            pytest.skip("chromium is missing, and apt cannot be used as root to install it")
        install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        for command in (["apt-get", "update"], install):
            done = subprocess.run(command, capture_output=True, timeout=600, check=False)
        found = shutil.which("chromium")
        if found is None:
            pytest.skip(f"chromium could not be installed: {done.stderr.decode()[-300:]}")
    return found


def test_in_a_real_browser(page: Page, tmp_path: Path) -> None:
    command = [
        browser(), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1140,900",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000",
    ]  # fmt: skip
    environment = {**os.environ, "HOME": str(tmp_path)}
    shown = subprocess.run(
        [*command, "--dump-dom", page.url],
        capture_output=True, text=True, timeout=300, check=True, env=environment,
    ).stdout  # fmt: skip
    assert "orders &lt;b&gt;" in shown
    for name, text in (
        ("recall", "81.3 %"), ("interval", "79.0 % to 83.0 %"), ("memory", "90"),
        ("budget", "of 100 tuples"), ("results", "700"), ("state", "running"),
    ):  # fmt: skip
        assert re.search(rf'id="{name}">([^<]*)<', shown)[1] == text  # type: ignore[index]
    rate = re.search(r'id="rate">([^<]*)<', shown)
    assert rate is not None
    assert rate[1] == "1,000"
    for chart in ("recall", "memory", "rate", "curve"):
        drawn = shown.split(f'id="chart-{chart}"')[1].split("</svg>")[0]
        assert "polyline" in drawn
        assert "NaN" not in drawn
    assert "<td>evicted</td>" in shown
    assert "<td>k1</td>" in shown
