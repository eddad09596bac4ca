"""Which files of a ledger of buckets count, and what stands in them.

Law: the pushes that count are one chain per bucket, from the empty state on. Where several pushes
were tried from the same state, the one that others go on from counts; at the end of the chain all
that were tried have the same rows, since engines are deterministic, and the last one is taken.
Links of a micro-batch that was never committed count only if nobody says so: `committed` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.loss.bucket_files import BATCH, DONE, QUERY, Link, link_name, rows_name
from tidegate.loss.folders import Folder
from tidegate.loss.ledger_files import ALIVE, ORDER, REASON
from tidegate.spec import TidegateError

_LINK = re.compile(r"b(\d+)-(\d+)-([0-9a-f]*)-([0-9a-f]+)\.link")


@dataclass(frozen=True)
class BucketLedger:
    """The pushes of a bucket that count, oldest first."""

    folder: Folder
    bucket: int
    links: tuple[Link, ...]
    names: frozenset[str]  # of the files in the folder

    def read(self, stream: str, columns: list[str] | None = None) -> pa.Table | None:
        """All rows of a stream, each once; None if there were none."""
        tables: list[pa.Table] = []
        for link in self.links:
            found = [self.folder.table(name, columns) for name in self._parts(stream, link)]
            written = self._written[link].get(stream, 0)
            if self._written[link] and written != sum(table.num_rows for table in found):
                raise TidegateError(
                    f"'{self.folder.path}' lacks files of the ledger: micro-batch {link.batch} "
                    f"wrote {written} rows of {stream!r}; put back what was removed"
                )
            tables += found
        if not tables:
            return None
        rows = pa.concat_tables(tables)
        # What came and stayed was written then, and again if it left since.
        stayed = pc.equal(rows.column(REASON), ALIVE)
        left = rows.filter(pc.invert(stayed)).column(ORDER)
        gone_since = pc.is_in(rows.column(ORDER), left.combine_chunks())
        return rows.filter(pc.invert(pc.and_(stayed, gone_since))).sort_by(ORDER)

    def _parts(self, stream: str, link: Link) -> Iterator[str]:
        """The files of a stream that a push wrote."""
        for part in count():
            name = rows_name(stream, self.bucket, link, part)
            if name not in self.names:
                return
            yield name

    @cached_property
    def _written(self) -> dict[Link, dict[str, int]]:
        """How many rows of each stream the pushes wrote; nothing where links of old say nothing."""
        names = {link: link_name(self.bucket, link) for link in self.links}
        try:
            return {
                link: dict(json.loads(self.folder.text(name) or "{}"))
                for link, name in names.items()
            }
        except (ValueError, TypeError) as error:
            raise TidegateError(
                f"a link in '{self.folder.path}' cannot be read ({error}); it is damaged"
            ) from error


def committed(checkpoint: str | Path) -> int:
    """The last micro-batch that the checkpoint of a query says is committed; -1 for none."""
    commits = Folder.of(checkpoint).inside("commits")
    numbers = [int(name) for name in commits.files() if name.isdigit()]
    if not numbers and not Folder.of(checkpoint).files() and not Folder.of(checkpoint).folders():
        raise TidegateError(f"'{checkpoint}' is not the checkpoint of a query")
    return max(numbers, default=-1)


def last_batch(buckets: list[BucketLedger]) -> int:
    """The last micro-batch of which there are rows."""
    return max((bucket.links[-1].batch for bucket in buckets if bucket.links), default=-1)


def buckets_of(where: str | Path, upto: int | None = None) -> list[BucketLedger]:
    """The ledgers of all buckets; of a query up to a micro-batch."""
    folder = Folder.of(where)
    runs = folder.folders()
    queries = [run for run in runs if run.startswith(QUERY)]
    if len(queries) > 1:
        raise TidegateError(
            f"'{where}' has the ledgers of {len(queries)} queries ({', '.join(queries)}); move all "
            "but one elsewhere"
        )
    if queries:
        run = folder.inside(queries[0])
        names = run.files()
        links = {
            bucket: {
                link: when for link, when in found.items() if upto is None or link.batch <= upto
            }
            for bucket, found in _links(names).items()
        }
        return [
            BucketLedger(run, bucket, _chain(found, where), frozenset(names))
            for bucket, found in sorted(links.items())
        ]
    return list(_of_batch(folder, [run for run in runs if run.startswith(BATCH)], where))


def _of_batch(folder: Folder, runs: list[str], where: str | Path) -> Iterator[BucketLedger]:
    """Of each bucket the last time that it was joined to its end."""
    last: dict[int, tuple[int, str]] = {}
    for run in runs:
        done = folder.inside(run).files().get(DONE)
        if done is not None:
            bucket = int(run[len(BATCH) :].split("-")[0])
            last[bucket] = max(last.get(bucket, (-1, "")), (done, run))
    for bucket, (_, run) in sorted(last.items()):
        inside = folder.inside(run)
        names = inside.files()
        found = _links(names).get(bucket, {})
        yield BucketLedger(inside, bucket, _chain(found, where), frozenset(names))


def _links(names: Mapping[str, int]) -> dict[int, dict[Link, int]]:
    """The links by bucket, with when they were written."""
    found: dict[int, dict[Link, int]] = {}
    for name, when in names.items():
        match = _LINK.fullmatch(name)
        if match is not None:
            bucket, batch, parent, token = match.groups()
            found.setdefault(int(bucket), {})[Link(int(batch), parent, token)] = when
    return found


def _chain(links: Mapping[Link, int], where: str | Path) -> tuple[Link, ...]:
    """The links that count: from the empty state to the last."""
    following: dict[str, list[Link]] = {}
    for link in links:
        following.setdefault(link.parent, []).append(link)
    chain: list[Link] = []
    token = ""
    while token in following:
        tried = following.pop(token)
        going_on = [link for link in tried if link.token in following]
        if len(going_on) > 1:
            raise TidegateError(
                f"'{where}' was written by two joins; give each join a ledger of its own"
            )
        chain.append(going_on[0] if going_on else max(tried, key=lambda link: links[link]))
        token = chain[-1].token
    if following:
        raise TidegateError(f"'{where}' lacks files of the ledger; put back what was removed")
    return tuple(chain)
