"""What a page shows of a join: its numbers now, and how they came about.

Law: nothing is made up. What a join does not know is None, and the page leaves it out.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_SAMPLES = 600  # kept; of more, every second one is dropped, oldest and newest stay
SHED = ("evicted", "refused", "too_late", "rejected")
_SHOWN = ("rows_in", "rows_out", "memory", "recall", "recall_low", "recall_high")


@dataclass(frozen=True)
class Reading:
    """The numbers of a join at one moment."""

    seconds: float  # since the epoch
    stats: Mapping[str, float]
    title: str = "window join"
    budget: float | None = None
    in_bytes: bool = False  # is the budget in bytes?
    streams: Sequence[str] = ()
    hot_keys: Sequence[tuple[str, float]] = ()  # with their share of the rows
    warnings: Sequence[str] = ()
    curve: Sequence[Mapping[str, Any]] = ()  # memory -> recall, where the join knows it
    policy: str = ""  # in force, where the join sheds
    done: bool = False
    began: float = 0.0  # when the join began, where that is known


@dataclass
class History:
    """Readings over time, bounded; `curve` is memory -> recall, if known and the join has none."""

    read: Callable[[], Reading | None]
    curve: Sequence[Mapping[str, Any]] = ()
    _samples: list[dict[str, Any]] = field(default_factory=list)
    _last: Reading | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def update(self) -> None:
        """Ask for the numbers of now."""
        with self._lock:
            reading = self.read()
            if reading is None:
                return
            if self._last is not None and reading.began != self._last.began:
                self._samples, self._last = [], None  # another join writes there now
            if self._last is None or reading.seconds > self._last.seconds:
                self._samples.append(_sample(reading, self._samples))
                if len(self._samples) > MOST_SAMPLES:
                    self._samples = self._samples[:-1:2] + self._samples[-1:]
            self._last = reading

    @property
    def last(self) -> Reading | None:
        """The newest numbers."""
        return self._last

    def page(self) -> dict[str, Any]:
        """All that the page draws, as JSON can hold it."""
        self.update()
        last = self._last
        if last is None:
            return {"waiting": True}
        stats = last.stats
        return {
            "waiting": False,
            "title": last.title,
            "policy": last.policy,
            "done": last.done,
            "budget": last.budget,
            "in_bytes": last.in_bytes,
            "samples": self._samples,
            "shed": {name: stats.get(name, 0) for name in SHED},
            "expired": stats.get("expired", 0),
            "recent": [_number(stats.get(f"recall_recent{end}")) for end in ("", "_low", "_high")],
            "importance": [
                _number(stats.get(f"importance_recall{end}")) for end in ("", "_low", "_high")
            ],
            "hot_keys": [[key, share] for key, share in last.hot_keys],
            "warnings": list(last.warnings),
            "curve": [dict(row) for row in last.curve or self.curve],
            "mark": self._mark(last),
        }

    @staticmethod
    def _mark(last: Reading) -> float | None:
        """The budget of now on the curve; a recorded curve is in tuples."""
        if last.in_bytes and not last.curve:
            return None
        return _number(last.stats.get("target_memory", last.budget))


def _sample(reading: Reading, before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    stats = dict(reading.stats)
    stats["memory"] = stats.get("memory_bytes" if reading.in_bytes else "memory_rows", 0)
    stats["rows_in"] = stats.get("rows_read", stats.get("rows_in", 0))
    sample = {name: _number(stats.get(name)) for name in _SHOWN}
    sample["seconds"] = reading.seconds
    rate = None
    ended = reading.done and before and sample["rows_in"] == before[-1]["rows_in"]
    if before and not ended:
        passed = reading.seconds - before[-1]["seconds"]
        rate = (sample["rows_in"] - before[-1]["rows_in"]) / passed
    return {**sample, "rows_per_second": rate}


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
