"""Which CPU this is: numbers that were measured on one are not used on another."""

from __future__ import annotations

import platform
from pathlib import Path


def cpu_name() -> str:
    """What the system calls this CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
