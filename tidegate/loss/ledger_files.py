"""The files of a ledger: which there are, what stands in them, and which belong together.

Law: `ledger.json` names how many pushes the ledger holds; files of later pushes do not count. It is
replaced as the last step, in one rename, so a process that dies leaves the ledger of its last
completed writing.

| file | rows |
|---|---|
| `STREAM-000000012.parquet` | of a stream, that left in push 12 |
| `STREAM-alive-000000013.parquet` | of a stream, still retained after 13 pushes |
| `ledger.json` | the join, and the number of pushes |
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

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


def write(table: pa.Table, path: Path) -> None:
    """Write a file whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    parquet.write_table(table, unfinished)
    os.replace(unfinished, path)


def write_head(folder: Path, spec: JoinSpec, pushes: int) -> None:
    """From now on the ledger holds so many pushes."""
    head = {"version": VERSION, "spec": json.loads(spec.to_json()), "pushes": pushes}
    unfinished = folder / f"{HEAD}.unfinished"
    unfinished.write_text(json.dumps(head), encoding="utf-8")
    os.replace(unfinished, folder / HEAD)


def read_head(folder: Path) -> tuple[JoinSpec, int]:
    """The join of a ledger, and its pushes."""
    try:
        head: Any = json.loads((folder / HEAD).read_text(encoding="utf-8"))
        version, pushes = head["version"], int(head["pushes"])
        if version == VERSION:
            return JoinSpec.from_json(json.dumps(head["spec"])), pushes
    except FileNotFoundError:
        raise TidegateError(
            f"'{folder}' has no {HEAD}, so it is not a ledger, or the join that writes it has not "
            "finished; give the folder of JoinEngine(ledger=) or tidegate join --ledger"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise TidegateError(f"'{folder / HEAD}' cannot be read ({error}); it is damaged") from error
    raise TidegateError(f"the ledger has version {version!r}; this tidegate reads {VERSION}")


def read(folder: Path, stream: str, pushes: int) -> pa.Table | None:
    """All rows of a stream, in order of arrival; None if there were none."""
    paths = [file_of(folder, stream, push) for push in range(pushes)]
    paths.append(file_of(folder, stream, pushes, alive=True))
    found = []
    for path in paths:
        if path.exists():
            try:
                found.append(parquet.ParquetFile(path).read())
            except (pa.ArrowInvalid, OSError) as error:
                raise TidegateError(f"'{path}' cannot be read ({error})") from error
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
