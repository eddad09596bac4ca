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
_LONGEST_HEAD = 1 << 20  # bytes


class LogWriter:
    """Appends readings to a file, at most two a second."""

    def __init__(self, path: Path, spec: JoinSpec, title: str) -> None:
        budget = spec.memory_rows if spec.memory_bytes is None else spec.memory_bytes
        head = {
            "title": title,
            "budget": budget,
            "in_bytes": spec.memory_bytes is not None,
            "streams": spec.streams,
            "began": time.time(),
        }
        self._path = path
        try:
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise TidegateError(f"log '{path}' cannot be written ({error.strerror})") from error
        self._write(head)
        self._said = 0.0

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError as error:
            raise TidegateError(
                f"log '{self._path}' cannot be written ({error.strerror})"
            ) from error

    def is_due(self) -> bool:
        """Has enough time passed since the last reading?"""
        return time.monotonic() - self._said >= SECONDS_BETWEEN_LINES

    def add(
        self,
        stats: Mapping[str, float],
        curve: Sequence[Mapping[str, float]] = (),
        policy: str = "",
        done: bool = False,
    ) -> None:
        """Write the numbers of now, the policy in force, and the retention curve where known."""
        self._said = time.monotonic()
        line = {"seconds": time.time(), "stats": dict(stats), "curve": list(curve)}
        self._write({**line, "policy": policy, "done": done})
        if done:
            self._file.close()


class LogReader:
    """Reads what a `LogWriter` wrote, also while it grows, and begins again with the next join
    that writes the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin(b"")
        if not path.is_file():
            raise TidegateError(f"'{path}' is not a file; give the log of tidegate join --log")
        self._fetch()

    def _begin(self, first: bytes) -> None:
        self._first = first  # the line of the head
        self._head: dict[str, Any] = {}
        self._read = 0  # bytes
        self._waiting: list[dict[str, Any]] = []

    def _new(self) -> bytes:
        """What was written since the last time; nothing while the file is away."""
        try:
            with self._path.open("rb") as file:
                first = file.readline(_LONGEST_HEAD)
                if not first.endswith(b"\n"):
                    return b""
                if first != self._first:
                    self._begin(first)
                file.seek(self._read)
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise TidegateError(f"log '{self._path}' cannot be read ({error.strerror})") from error

    def _fetch(self) -> None:
        new = self._new()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
            if lines and not self._head:
                head = lines.pop(0)
                self._head = {name: head[name] for name in _HEAD}
                self._head["began"] = head.get("began", 0.0)
            for line in lines:
                known = {name: line[name] for name in ("seconds", "stats", "done")}
                if not all(isinstance(n, int | float) for n in line["stats"].values()):
                    raise TypeError("a number is not one")
                later = {"curve": line.get("curve", ()), "policy": line.get("policy", "")}
                self._waiting.append({**known, **later})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
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
