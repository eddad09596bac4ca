"""Joins over recorded data, which the user has in a folder of his own.

Law: the folder is given, by argument or by the variable TIDEGATE_DATA, and never guessed; a file's
content is part of the configuration of every result that comes from it. What a tuple is worth is
our choice, stated with each join: the records have no such column.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from tidegate.spec import TidegateError
from tidegate.spec.units import nearest_hint

VARIABLE = "TIDEGATE_DATA"

Streams = dict[str, pa.Table]


@dataclass(frozen=True)
class RecordedJoin:
    """One join over recorded data.

    file
        Its file inside the folder.
    streams
        Makes the two streams from the file's table, and from that of the other file.
    spec
        The options of the join, without budget and policy.
    waiting
        The stream whose tuples wait in memory, or None if both do.
    about
        What is joined and what counts as important, for people.
    """

    file: str
    streams: Callable[..., Streams]
    spec: Mapping[str, Any]
    waiting: str | None
    about: str
    other_file: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """One file, or one per stream."""
        return (self.file,) if self.other_file is None else (self.file, self.other_file)


def folder_of(given: str | Path | None = None) -> Path | None:
    """The folder with the recorded data, or None where nobody named one."""
    named = given if given is not None else os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        raise TidegateError(f"the data folder '{named}' does not exist; give an existing one")
    return folder


def missing_files(folder: Path | None) -> list[str]:
    """The files of the joins that the folder lacks."""
    wanted = sorted({join.file for join in JOINS.values()})
    return [name for name in wanted if folder is None or not (folder / name).is_file()]


def file_digest(*paths: Path) -> str:
    """What stands for the content of files in a configuration."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=2)
def recorded_streams(name: str, folder: str, rows: int | None = None) -> Streams:
    """The streams of a recorded join; `rows` keeps only the first rows of a file."""
    known = {**JOINS, **MORE_JOINS}
    if name not in known:
        raise TidegateError(f"recorded join {name!r} is not known; {nearest_hint(name, known)}")
    join = known[name]
    tables = [parquet.read_table(Path(folder) / file) for file in join.files]
    return join.streams(*(table if rows is None else table.slice(0, rows) for table in tables))


def _by_time(table: pa.Table) -> pa.Table:
    return table.take(pc.sort_indices(table, sort_keys=[("ts", "ascending")]))


def _requests(table: pa.Table, column: str, pattern: str, key: str) -> pa.Table:
    """Requests whose host or url fits, by time; importance is the size of the answer."""
    chosen = table.filter(pc.match_substring_regex(table[column], pattern, ignore_case=True))
    kilobytes = pc.max_element_wise(pc.divide(chosen["bytes"].cast(pa.float64()), 1_000.0), 0.1)
    return _by_time(pa.table({"ts": chosen["ts"], "key": chosen[key], "importance": kilobytes}))


def _nasa_by_url(table: pa.Table) -> Streams:
    return {
        "public": _requests(table, "host", r"\.(gov|edu)$", "url"),
        "commercial": _requests(table, "host", r"\.(com|net)$", "url"),
    }


def _nasa_by_host(table: pa.Table) -> Streams:
    return {
        "pages": _requests(table, "url", r"\.html?$", "host"),
        "images": _requests(table, "url", r"\.(gif|jpg|jpeg|xbm)$", "host"),
    }


def _trips(table: pa.Table, key: Mapping[str, str], order: tuple[str, str]) -> Streams:
    """Starts and ends of trips; a trip of a casual customer is worth five of a subscriber's."""
    casual = pc.equal(table["subscription_type"], "Customer")
    importance = pc.if_else(casual, 5.0, 1.0)
    events = {
        name: _by_time(
            pa.table({"ts": table[f"{name}_date"], "key": table[column], "importance": importance})
        )
        for name, column in key.items()
    }
    return {name: events[name] for name in order}


def _fines(table: pa.Table, first: str, second: str) -> Streams:
    """Two steps of a case. Only the first has an amount; the second counts as 1."""
    streams = {}
    for name, activity in (("first", first), ("second", second)):
        rows = table.filter(pc.equal(table["activity"], activity))
        amount = pc.fill_null(pc.max_element_wise(rows["amount"], 1.0), 1.0)
        worth = amount if name == "first" else pa.array(np.ones(len(rows)))
        streams[name] = _by_time(
            pa.table({"ts": rows["timestamp"], "key": rows["case_id"], "importance": worth})
        )
    return streams


def _logged(left: pa.Table, right: pa.Table) -> Streams:
    """Two logs with a key, a time in microseconds and an amount."""
    names = ("ts", "key", "importance")
    tables = [table.select(["t", "k", "imp"]).rename_columns(names) for table in (left, right)]
    return {"first": _by_time(tables[0]), "second": _by_time(tables[1])}


def _sepsis(table: pa.Table, first: str, second: str) -> Streams:
    """Two kinds of events of a case; the age of the patient counts."""
    streams = {}
    for name, activity in (("first", first), ("second", second)):
        rows = table.filter(pc.equal(table["activity"], activity))
        age = pc.fill_null(pc.max_element_wise(rows["age"].cast(pa.float64()), 1.0), 1.0)
        columns = {"ts": rows["timestamp"], "key": rows["case_id"], "importance": age}
        streams[name] = _by_time(pa.table(columns))
    return streams


def _spec(streams: tuple[str, str], within: Any, **options: Any) -> dict[str, Any]:
    basic = {"streams": streams, "on": "key", "time": "ts", "importance": "importance"}
    return {**basic, "within": within, **options}


JOINS: Mapping[str, RecordedJoin] = {
    "nasa-url": RecordedJoin(
        "nasa_http.parquet",
        _nasa_by_url,
        _spec(("public", "commercial"), "10 minutes"),
        None,
        "requests from .gov and .edu meet requests from .com and .net for the same url within "
        "10 minutes; importance is the answer's size",
    ),
    "nasa-host": RecordedJoin(
        "nasa_http.parquet",
        _nasa_by_host,
        _spec(("pages", "images"), "10 minutes"),
        None,
        "html pages meet images for the same host within 10 minutes; importance is the answer's "
        "size",
    ),
    "bike-trips": RecordedJoin(
        "bike_trips.parquet",
        lambda table: _trips(table, {"start": "trip_id", "end": "trip_id"}, ("start", "end")),
        _spec(("start", "end"), {"start": "1 hour", "end": "0 s"}),
        "start",
        "the start of a trip waits up to 1 hour for its end; a casual customer counts 5, a "
        "subscriber 1",
    ),
    "bike-reuse": RecordedJoin(
        "bike_trips.parquet",
        lambda table: _trips(table, {"start": "bike_id", "end": "bike_id"}, ("end", "start")),
        _spec(("end", "start"), {"end": "6 hours", "start": "0 s"}),
        "end",
        "the end of a trip waits up to 6 hours for the next starts of the same bike; a casual "
        "customer counts 5, a subscriber 1",
    ),
    "fines-sent": RecordedJoin(
        "traffic_fines.parquet",
        lambda table: _fines(table, "Create Fine", "Send Fine"),
        _spec(
            ("first", "second"),
            {"first": "140 days", "second": "0 s"},
            output_importance="product",
        ),
        "first",
        "a fine waits up to 140 days until it is sent; importance is its amount",
    ),
    "fines-penalty": RecordedJoin(
        "traffic_fines.parquet",
        lambda table: _fines(table, "Insert Fine Notification", "Add penalty"),
        _spec(
            ("first", "second"), {"first": "90 days", "second": "0 s"}, output_importance="product"
        ),
        "first",
        "a notification waits up to 90 days for the penalty, which comes after 60 days; "
        "notifications have no amount, so all count 1",
    ),
}

_DAY = 24 * 60 * 60 * 1_000_000  # microseconds
_BOTH = ("first", "second")

# Joins that VALUE is measured on besides (`value`).
MORE_JOINS: Mapping[str, RecordedJoin] = {
    "loans": RecordedJoin(
        "loan_applications.parquet",
        _logged,
        _spec(_BOTH, 30 * _DAY),
        None,
        "events of a loan application meet events of its offers within 30 days; importance is the "
        "amount",
        "loan_offers.parquet",
    ),
    "loan-work": RecordedJoin(
        "loan_work_scheduled.parquet",
        _logged,
        _spec(_BOTH, {"first": 30 * _DAY, "second": 0}),
        "first",
        "scheduled work waits up to 30 days for its starts; importance is the amount",
        "loan_work_started.parquet",
    ),
    "dns": RecordedJoin(
        "dns_answers.parquet",
        _logged,
        _spec(_BOTH, {"first": 300_000_000, "second": 0}),
        "first",
        "an answer waits up to 300 seconds for connections; there is no importance",
        "tls_connections.parquet",
    ),
    "sepsis-triage": RecordedJoin(
        "sepsis.parquet",
        lambda table: _sepsis(table, "ER Triage", "LacticAcid"),
        _spec(_BOTH, "2 days"),
        None,
        "triage and lactic acid tests of a case within 2 days; importance is the patient's age",
    ),
    "sepsis-tests": RecordedJoin(
        "sepsis.parquet",
        lambda table: _sepsis(table, "Leucocytes", "CRP"),
        _spec(_BOTH, "3 days"),
        None,
        "two kinds of tests of a case within 3 days; importance is the patient's age",
    ),
}
