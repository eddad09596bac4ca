"""The log of a running join: one line of JSON for each reading, written by one process, read by
others.

Law: a line is written whole. A reader takes complete lines only, so it can follow a log that grows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.spec import JoinSpec, TidegateError
from tidegate.watch.numbers import Reading

SECONDS_BETWEEN_LINES = 0.5
_HEAD = ("title", "budget", "in_bytes", "streams")


class LogWriter:
    """Appends readings to a file, at most two a second."""

    def __init__(self, path: Path, spec: JoinSpec, title: str) -> None:
        budget = spec.memory_rows if spec.memory_bytes is None else spec.memory_bytes
        head = {
            "title": title,
            "budget": budget,
            "in_bytes": spec.memory_bytes is not None,
            "streams": spec.streams,
        }
        try:
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise TidegateError(f"log '{path}' cannot be written ({error.strerror})") from error
        self._write(head)
        self._said = 0.0

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def is_due(self) -> bool:
        """Has enough time passed since the last reading?"""
        return time.monotonic() - self._said >= SECONDS_BETWEEN_LINES

    def add(
        self,
        stats: Mapping[str, float],
        curve: Sequence[Mapping[str, float]] = (),
        done: bool = False,
    ) -> None:
        """Write the numbers of now, and the retention curve where it is known."""
        self._said = time.monotonic()
        self._write(
            {"seconds": time.time(), "stats": dict(stats), "curve": list(curve), "done": done}
        )
        if done:
            self._file.close()


class LogReader:
    """Reads what a `LogWriter` wrote, also while it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._head: dict[str, Any] = {}
        self._read = 0  # bytes
        self._waiting: list[dict[str, Any]] = []
        if not path.is_file():
            raise TidegateError(f"'{path}' is not a file; give the log of tidegate join --log")
        self._fetch()

    def _fetch(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
            if lines and not self._head:
                head = lines.pop(0)
                self._head = {name: head[name] for name in _HEAD}
            for line in lines:
                known = {name: line[name] for name in ("seconds", "stats", "done")}
                self._waiting.append({**known, "curve": line.get("curve", ())})
        except (ValueError, KeyError, TypeError) as error:
            raise TidegateError(
                f"'{self._path}' is not the log of tidegate join --log ({error})"
            ) from error

    def next(self) -> Reading | None:
        """The next reading; the last one again where there is none yet."""
        if not self._waiting or len(self._waiting) == 1:
            self._fetch()
        if not self._waiting:
            return None
        line = self._waiting.pop(0) if len(self._waiting) > 1 else self._waiting[0]
        return Reading(**line, **self._head)

    @property
    def behind(self) -> bool:
        """Are there readings that were not taken yet?"""
        return len(self._waiting) > 1
