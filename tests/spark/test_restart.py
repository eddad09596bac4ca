"""A query that stops, or is killed, and goes on gives the rows of one that never stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from spark.doomed_job import LEDGER, NAMES, NO_EMPTY_BATCHES, exact, joined
from spark.feeds import Feed, random_batches

from tidegate.cli import run
from tidegate.offline.repair import repair
from tidegate.spark import metrics, read_state, window_join

TESTS = Path(__file__).parents[1]
SECONDS_TO_LIVE = 300.0
BATCHES = 6


Moment = Callable[[Path, int], bool]


def kill_driver(feed: Feed, cores: int, streams: int, moment: Moment, first: int) -> None:
    """Let a process of its own go on with the query, and kill it -9, JVM and all, at a moment of a
    micro-batch, `first` or a later one.

    It is stopped before it is killed, so the moment is not over when it dies; if it was over when
    it stopped, it goes on to the next one.
    """
    checkpoint = feed.root / "checkpoint-disturbed"
    came = False
    with (feed.root / "log").open("w") as log:
        job = subprocess.Popen(
            [sys.executable, "-m", "spark.doomed_job", str(feed.root), str(cores), str(streams)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + SECONDS_TO_LIVE
        while not came and job.poll() is None and time.monotonic() < deadline:
            now = [batch for batch in range(first, BATCHES) if moment(checkpoint, batch)]
            if now:
                os.killpg(job.pid, signal.SIGSTOP)
                came = moment(checkpoint, now[0])
                os.killpg(job.pid, signal.SIGKILL if came else signal.SIGCONT)
            else:
                time.sleep(0.002)
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert came, (feed.root / "log").read_text()[-3000:]


def began(folder: Path, batch: int) -> bool:
    """A micro-batch is on its way: its rows are chosen, and it is not done."""
    return (folder / "offsets" / str(batch)).exists() and not is_done(folder, batch)


def state_written(folder: Path, batch: int) -> bool:
    """A micro-batch has written the state of a bucket, and is not done."""
    state = folder / "state" / "0" / "0" / f"{batch + 1}.changelog"
    return state.exists() and not is_done(folder, batch)


def is_done(folder: Path, batch: int) -> bool:
    return (folder / "commits" / str(batch)).exists()


@pytest.mark.parametrize("streams", [2, 3])
def test_killed_drivers(feed: Feed, streams: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Stopped after two micro-batches; killed in the fourth on one core (two streams), or in the
    fifth on three cores (three streams), or later if that one was too quick.

    The later sessions ask for 5 partitions: a checkpoint keeps its own, and so its buckets. Its
    ledger has what it lost, whatever was written and never committed.
    """
    feed.spark.conf.set(*NO_EMPTY_BATCHES)
    names = NAMES[:streams]
    batches = {name: random_batches(seed, BATCHES) for seed, name in enumerate(names)}
    for name, tables in batches.items():
        feed.write(name, tables[:2])
    shed = feed.root / LEDGER
    feed.start(joined(feed, streams, ledger=shed), "disturbed").awaitTermination()
    for name, tables in batches.items():
        feed.write(name, tables[2:], first=2)
    if streams == 2:
        kill_driver(feed, 1, streams, began, 3)
    else:
        kill_driver(feed, 3, streams, state_written, 4)
    disturbed = feed.run(joined(feed, streams, ledger=shed), "disturbed")
    undisturbed = feed.run(joined(feed, streams), "undisturbed")
    ids = ["id", *(f"id_{name}" for name in names[1:])]
    assert len(undisturbed.rows) > 100
    assert disturbed.pairs(*ids) == undisturbed.pairs(*ids)
    assert max(disturbed.pairs(*ids).values()) == 1
    lost = pa.concat_tables(repair(shed, feed.root / "checkpoint-disturbed").results())
    repaired = Counter(zip(*(lost.column(name).to_pylist() for name in ids), strict=True))
    assert lost.num_rows > 100
    everything = feed.run(exact(feed, streams), "exact").pairs(*ids)
    assert disturbed.pairs(*ids) + repaired == everything
    # The counters went on, each row once, in the two buckets of the checkpoint.
    counted = {name: metrics(run.query) for name, run in (("d", disturbed), ("u", undisturbed))}
    assert list(counted["d"].buckets) == [0, 1]
    assert counted["d"].total["rows_read"] == streams * BATCHES * 80
    for name in ("rows_in", "rows_out", "evicted", "refused", "expired", "too_late", "alive"):
        assert counted["d"].total[name] == counted["u"].total[name]
    # What Spark keeps is what the metrics say, and can be read without the query.
    checkpoint = str(feed.root / "checkpoint-disturbed")
    stored = read_state(feed.spark, checkpoint)
    assert sum(bucket.meta.stats["rows_read"] for bucket in stored) == streams * BATCHES * 80
    assert all(bucket.origin["memory"] == "70 tuples" for bucket in stored)
    logged = [bucket.rows(stream) for bucket in stored for stream in range(streams)]
    assert sum(table.num_rows for table in logged if table is not None) == streams * BATCHES * 80
    # The command line says the same.
    assert run(["state", checkpoint, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["join"]["memory"] == "70 tuples"
    assert said["total"].items() <= counted["d"].total.items()
    assert len(said["buckets"]) == 2
    assert run(["state", checkpoint, "--operator", "7"]) == 2
    assert "operator 7" in capsys.readouterr().err


def test_another_join_is_refused(feed: Feed) -> None:
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(seed, batches=1))
    left, right = (feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
    joined = window_join(left, right, on="k", time="ts", within="20 s")
    feed.run(joined, "query")
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(seed, batches=1), first=1)
    changed = window_join(left, right, on="k", time="ts", within="21 s")
    with pytest.raises(
        StreamingQueryException, match=r"within was 20 seconds and is now 21 seconds;"
    ) as raised:
        feed.start(changed, "query").awaitTermination()
    said = str(raised.value)
    assert said.index("within was") < min(said.index("Traceback"), 400)
