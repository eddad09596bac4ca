"""The ledger of one bucket of a join on Spark: files of every push that was tried.

Law: what a push wrote counts iff the state of the bucket goes on from it. A push is a link from the
token of the state that it began with to the token of the state that it ends with (`spark.engines`),
and both stand in the name of a file that is written last. Pushes that failed, ran twice or were
never committed leave links from which nothing goes on, and `bucket_chain` leaves them out.

| file | what |
|---|---|
| `ledger.json` | the join |
| `query-ID/STREAM-b00003-000000012-TOKEN.parquet` | rows that left bucket 3 in micro-batch 12, and
rows that came in it and stay, as `alive`; a push that was taken in parts has `TOKEN-1` and more |
| `query-ID/b00003-000000012-PARENT-TOKEN.link` | the push is written as a whole: so many rows |
| `batch-00003-ID/...` | the same of a batch join; a folder for each time it was run |
| `batch-00003-ID/done` | it was joined to its end |
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from tidegate.loss.folders import Folder
from tidegate.loss.ledger_files import HEAD, head_text
from tidegate.spec import JoinSpec, TidegateError

QUERY, BATCH = "query-", "batch-"
DONE = "done"
TOKEN = 12  # characters of a token that stand in names


class Link(NamedTuple):
    """A push of a bucket: in which micro-batch, from which state, to which."""

    batch: int
    parent: str
    token: str


def rows_name(stream: str, bucket: int, link: Link, part: int = 0) -> str:
    """The file with the rows of a stream that a part of a push wrote."""
    suffix = f"-{part}" if part else ""
    return f"{stream}-b{bucket:05d}-{link.batch:09d}-{link.token[:TOKEN]}{suffix}.parquet"


def link_name(bucket: int, link: Link) -> str:
    """The file that says that a push is written."""
    return f"b{bucket:05d}-{link.batch:09d}-{link.parent[:TOKEN]}-{link.token[:TOKEN]}.link"


@dataclass
class BucketFiles:
    """Writes the ledger of a bucket into the folder of a run.

    `link` is the push under way. It is None while an engine is rebuilt from pushes that wrote their
    files when they came. An engine that reviews itself takes a push in `parts`.
    """

    where: str
    run: str
    bucket: int
    spec: JoinSpec  # of the join, not of the bucket
    link: Link | None = None
    holds_alive: bool = False
    _parts: Counter[str] = field(default_factory=Counter)  # of the push under way, by stream
    _rows: Counter[str] = field(default_factory=Counter)

    @property
    def holds_new(self) -> bool:
        """Rows that stay are written too, or the ledger would lack them until they leave."""
        return self.link is not None

    def open(self, spec: JoinSpec, pushes: int) -> None:
        """Write the head; refuse the folder of another join or query."""
        folder = Folder.of(self.where)
        folder.inside(self.run).make()
        head = head_text(self.spec, kind="buckets")
        there = folder.text(HEAD)
        if there is None:
            folder.write_text(HEAD, head)
        batch = self.run.startswith(BATCH)
        others = [
            name
            for name in folder.folders()
            if name != self.run and not (batch and name.startswith(BATCH))
        ]
        if others or there not in (None, head):
            raise TidegateError(
                f"ledger '{self.where}' belongs to another join or query; give an empty folder"
            )

    def begin_push(self, link: Link | None) -> None:
        """What is written from here on is of this push."""
        self.link, self._parts, self._rows = link, Counter(), Counter()

    def write(self, push: int, tables: Mapping[str, pa.Table]) -> None:
        """Write rows of the push under way."""
        if self.link is None:
            return
        folder = Folder.of(self.where).inside(self.run)
        for stream, table in tables.items():
            name = rows_name(stream, self.bucket, self.link, self._parts[stream])
            folder.write_table(name, table)
            self._parts[stream] += 1
            self._rows[stream] += table.num_rows

    def end_push(self) -> None:
        """All rows of the push under way are written: write its link."""
        if self.link is not None:
            folder = Folder.of(self.where).inside(self.run)
            folder.write_text(link_name(self.bucket, self.link), json.dumps(self._rows))
        self.begin_push(None)

    def write_alive(
        self,
        spec: JoinSpec,
        pushes: int,
        tables: Mapping[str, pa.Table],
        rows: Mapping[str, int] | None,
    ) -> None:
        """Nothing: rows that stay were written with the push that brought them."""

    def finish(self) -> None:
        """A batch join has joined the bucket to its end."""
        Folder.of(self.where).inside(self.run).write_text(DONE, "")
