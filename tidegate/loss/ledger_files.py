"""The files of a ledger: which there are, what stands in them, and which belong together.

Law: `ledger.json` names how many pushes the ledger holds; files of later pushes do not count. It is
replaced as the last step, in one rename, so a process that dies leaves the ledger of its last
completed writing.

| file | rows |
|---|---|
| `STREAM-000000012.parquet` | of a stream, that left in push 12 |
| `STREAM-alive-000000013.parquet` | of a stream, still retained after 13 pushes |
| `ledger.json` | the join, the number of pushes, and how many rows of each stream there are |
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from pyarrow import parquet

from tidegate.loss.folders import Folder
from tidegate.spec import JoinSpec, TidegateError

VERSION = 1
HEAD = "ledger.json"
REASON, AT, WORTH = "shed_reason", "shed_at", "shed_worth"
ORDER, GONE = "shed_order", "shed_gone"  # orders of arrival: its own, and of the first without it
ADDED = (REASON, AT, WORTH, ORDER, GONE)
ALIVE, EXPIRED, EVICTED, REFUSED, TOO_LATE = "alive", "expired", "evicted", "refused", "too late"
SHED = (EVICTED, REFUSED)
NEVER = 2**62  # has not left


def file_of(folder: Path, stream: str, push: int, alive: bool = False) -> Path:
    """Where the rows of a stream are that left in a push, or that were alive after so many."""
    return folder / f"{stream}{'-alive' if alive else ''}-{push:09d}.parquet"


@runtime_checkable
class Files(Protocol):
    """Where a ledger writes.

    `holds_new`: with each push also the rows that came in it and stay; `holds_alive`: all rows that
    are alive, when asked.
    """

    @property
    def holds_new(self) -> bool: ...

    @property
    def holds_alive(self) -> bool: ...

    def open(self, spec: JoinSpec, pushes: int) -> None:
        """Before the first push, or going on after so many."""

    def write(self, push: int, tables: Mapping[str, pa.Table]) -> None:
        """Write the rows of a push, by stream."""

    def write_alive(
        self,
        spec: JoinSpec,
        pushes: int,
        tables: Mapping[str, pa.Table],
        rows: Mapping[str, int] | None,
    ) -> None:
        """Write the rows that are alive after so many pushes; `rows` of each stream are there then,
        None where that is not known."""


@dataclass(frozen=True)
class PushFiles:
    """The ledger of one engine, in a folder of this machine."""

    folder: Path
    holds_new: bool = False
    holds_alive: bool = True

    def open(self, spec: JoinSpec, pushes: int) -> None:
        """Refuse a folder in use; remove what was written after so many pushes."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TidegateError(
                f"ledger '{self.folder}' cannot be written ({error.strerror}); give a folder"
            ) from error
        if pushes == 0 and any(self.folder.glob("*.parquet")):
            raise TidegateError(
                f"ledger '{self.folder}' has files already; give an empty folder, or restore the "
                "engine that wrote them"
            )
        clear_from(self.folder, spec.streams, pushes)

    def write(self, push: int, tables: Mapping[str, pa.Table]) -> None:
        """Write the rows of a push, by stream."""
        for stream, table in tables.items():
            write(table, file_of(self.folder, stream, push))

    def write_alive(
        self,
        spec: JoinSpec,
        pushes: int,
        tables: Mapping[str, pa.Table],
        rows: Mapping[str, int] | None,
    ) -> None:
        """Write the rows that are alive; from now on the ledger holds so many pushes."""
        for stream, table in tables.items():
            write(table, file_of(self.folder, stream, pushes, alive=True))
        unfinished = self.folder / f"{HEAD}.unfinished"
        with writing(self.folder):
            known = {} if rows is None else {"rows": dict(rows)}
            unfinished.write_text(head_text(spec, pushes=pushes, **known), encoding="utf-8")
            os.replace(unfinished, self.folder / HEAD)


def write(table: pa.Table, path: Path) -> None:
    """Write a file whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    with writing(path):
        try:
            parquet.write_table(table, unfinished)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)


@contextmanager
def writing(where: Any) -> Iterator[None]:
    """What cannot be written is said in a sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise TidegateError(f"ledger '{where}' cannot be written ({reason})") from error


@contextmanager
def reading(where: Any) -> Iterator[None]:
    """What is no ledger, or not whole, is said in a sentence."""
    try:
        yield
    except TidegateError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise TidegateError(f"ledger '{where}' cannot be read ({reason}); it is damaged") from error


def head_text(spec: JoinSpec, **others: Any) -> str:
    """What a head says of a ledger."""
    return json.dumps({"version": VERSION, "spec": json.loads(spec.to_json()), **others})


def read_head(text: str, name: str) -> tuple[JoinSpec, dict[str, Any]]:
    """The join of a ledger, and what else its head says."""
    try:
        head: Any = json.loads(text)
        version = head.pop("version")
        if version == VERSION:
            return JoinSpec.from_json(json.dumps(head.pop("spec"))), dict(head)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TidegateError(f"'{name}' cannot be read ({error}); it is damaged") from error
    raise TidegateError(f"the ledger has version {version!r}; this tidegate reads {VERSION}")


def read(
    folder: Path, stream: str, columns: list[str] | None = None, *, pushes: int
) -> pa.Table | None:
    """All rows of a stream, in order of arrival; None if there were none."""
    paths = [file_of(folder, stream, push) for push in range(pushes)]
    paths.append(file_of(folder, stream, pushes, alive=True))
    found = [Folder.of(folder).table(path.name, columns) for path in paths if path.exists()]
    return pa.concat_tables(found).sort_by(ORDER) if found else None


def clear_from(folder: Path, streams: tuple[str, ...], push: int) -> None:
    """Remove what was written after so many pushes."""
    for path in folder.glob("*.parquet"):
        stem, _, number = path.stem.rpartition("-")
        of = {f"{stream}{alive}" for stream in streams for alive in ("", "-alive")}
        if stem in of and number.isdigit():
            later = int(number) > push if stem.endswith("-alive") else int(number) >= push
            if later:
                path.unlink()
