"""The book of a memory pool: who may hold how much, and who holds it now.

Law: what is written as held never sums to more than the pool. A bucket that is to give up memory
writes so after it has; one that is to get more takes only what is free. Every change is made under
a lock on a file, by whichever process makes it, so no order of events can break this.

The driver writes the shares it aims at, the workers what they hold. On a cluster the folder must be
one that the driver and all workers see.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tidegate.spark.routing import share
from tidegate.spec import TidegateError

BOOK, LOCK = "pool.json", "pool.lock"
# Of a pool in bytes: what the engines need from which a bucket observes recall, and the least that
# a bucket can work with under any policy.
RESERVED_BYTES = 8_000_000
FLOOR_BYTES = RESERVED_BYTES + 3_000_000


@dataclass
class Book:
    """Tuples or bytes. `totals` are the shares of joins, for buckets without an aim of their own;
    `aims` and `held` are by join and bucket."""

    memory: int
    unit: str
    totals: dict[str, int] = field(default_factory=dict)
    aims: dict[str, dict[str, int]] = field(default_factory=dict)
    held: dict[str, dict[str, int]] = field(default_factory=dict)

    def aim(self, join: str, bucket: int, buckets: int) -> int:
        """What a bucket should hold."""
        known = self.aims.get(join, {}).get(str(bucket))
        return share(self.totals.get(join, 0), bucket, buckets) if known is None else known

    @property
    def in_use(self) -> int:
        """What all buckets hold together."""
        return sum(sum(buckets.values()) for buckets in self.held.values())


@dataclass(frozen=True)
class PoolBook:
    """The book in a folder."""

    folder: str

    def begin(self, memory: int, unit: str) -> None:
        """Make the book, or go on with the one that is there, under this memory."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        with self._locked():
            if not self._path.exists():
                self._write(Book(memory, unit))
                return
        with self.change() as book:
            if book.unit != unit:
                raise TidegateError(
                    f"the pool in '{self.folder}' is in {book.unit}; give it a memory in "
                    f"{book.unit}, or another folder"
                )
            if book.memory != memory:
                book.memory, book.aims = memory, {}
                _divide_equally(book)

    def join(self, name: str) -> None:
        """A join takes part. One that is known keeps its share; a new one changes all shares."""
        with self.change() as book:
            if name not in book.totals:
                book.totals[name] = 0
                book.aims = {}
                _divide_equally(book)

    def leave(self, name: str) -> None:
        """A join that does not run any more gives its share back."""
        with self.change() as book:
            if name not in book.totals:
                raise TidegateError(
                    f"the pool has no join {name!r}; it has {', '.join(map(repr, book.totals))}"
                )
            for part in (book.totals, book.aims, book.held):
                part.pop(name, None)
            if book.totals:
                book.aims = {}
                _divide_equally(book)

    def aim_at(self, shares: dict[str, dict[int, int]]) -> None:
        """Write what buckets should hold from now on."""
        with self.change() as book:
            for name, buckets in shares.items():
                if name in book.totals:
                    book.aims[name] = {str(bucket): size for bucket, size in buckets.items()}
                    book.totals[name] = sum(buckets.values())

    def claim(self, join: str, bucket: int, buckets: int) -> int:
        """What a bucket may hold in this micro-batch. If that is less than before, the rest is
        given up by `settle`, when the engine has shed it."""
        with self.change() as book:
            if join not in book.totals:
                raise TidegateError(
                    f"join {join!r} has left its pool; build it again with window_join"
                )
            held = book.held.setdefault(join, {})
            before = held.get(str(bucket), 0)
            free = max(0, book.memory - book.in_use + before)
            size = min(book.aim(join, bucket, buckets), free)
            held[str(bucket)] = max(size, min(before, free))
            return size

    def settle(self, join: str, bucket: int, size: int) -> None:
        """A bucket holds no more than this from now on."""
        with self.change() as book:
            if join in book.totals:
                held = book.held.setdefault(join, {})
                held[str(bucket)] = min(size, held.get(str(bucket), 0))

    def read(self) -> Book:
        """The book as it is now."""
        with self._locked():
            return self._read()

    @contextlib.contextmanager
    def change(self) -> Iterator[Book]:
        """The book, to be changed; nobody else reads or writes it meanwhile."""
        with self._locked():
            book = self._read()
            yield book
            self._write(book)

    @property
    def _path(self) -> Path:
        return Path(self.folder, BOOK)

    def _read(self) -> Book:
        try:
            return Book(**json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise TidegateError(
                f"the pool's book in '{self.folder}' cannot be read here ({error}); give Pool a "
                "folder that the driver and all workers see"
            ) from error

    def _write(self, book: Book) -> None:
        partial = self._path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(book)), encoding="utf-8")
        partial.replace(self._path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl  # not there on Windows, where Spark's workers have no locks to share

        try:
            lock = os.open(Path(self.folder, LOCK), os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise TidegateError(
                f"the pool's folder '{self.folder}' cannot be used here ({error.strerror}); give "
                "Pool a folder that the driver and all workers see"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _divide_equally(book: Book) -> None:
    for at, name in enumerate(sorted(book.totals)):
        book.totals[name] = share(book.memory, at, len(book.totals))


@dataclass(frozen=True)
class PoolShare:
    """The part of one join in a pool, as the workers see it."""

    book: PoolBook
    join: str
    unit: str

    def claim(self, bucket: int, buckets: int) -> int:
        """What the engine of a bucket may hold in this micro-batch, in tuples or bytes."""
        size = self.book.claim(self.join, bucket, buckets)
        if self.unit == "tuples":
            return size
        if size < FLOOR_BYTES:
            raise TidegateError(
                f"bucket {bucket} of join {self.join!r} gets {size:,} bytes of its pool and needs "
                f"{FLOOR_BYTES:,}; give the pool more memory, or build all of its joins before "
                "the first is started"
            )
        return size - RESERVED_BYTES

    def settle(self, bucket: int, size: int) -> None:
        """The engine of a bucket holds no more than this from now on."""
        reserved = 0 if self.unit == "tuples" else RESERVED_BYTES
        self.book.settle(self.join, bucket, size + reserved)
