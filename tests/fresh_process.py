"""Kernels in fresh processes: what was compiled there, what was loaded, what could not be kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]

KERNELS = """
import time
from tidegate.compiled.kernel import kernel, part

@part
def squared(value):
    return value * value

@kernel
def total(values):
    result = 0.0
    for value in values:
        result += squared(value)
    return result
"""
# Prints the result, and how many functions were compiled, loaded and not kept.
CALL = """
import json, logging, sys
logging.basicConfig()
import numpy as np
from small_kernels import total
from tidegate.compiled import cache, places
value = total(np.arange(4.0))
kept = cache.use
print(json.dumps({
    "value": value, "compiled": len(kept.compiled), "loaded": len(kept.loaded),
    "not_kept": kept.not_kept, "folder": str(places.cache_folder()),
}))
"""


def command(home: Path, code: str = CALL, *words: str, **environment: str) -> dict[str, Any]:
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {
        "args": [sys.executable, "-c", code, *words],
        "env": {
            **inherited,
            "PYTHONPATH": f"{home}{os.pathsep}{REPOSITORY}",
            "TIDEGATE_CACHE": str(home / "cache"),
            "HOME": str(home / "nowhere"),
            **environment,
        },
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "cwd": home,
    }


def call(home: Path, code: str = CALL, *words: str, **environment: str) -> dict[str, Any]:
    done = subprocess.run(**command(home, code, *words, **environment), check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answer["value"] == 14.0
    answer["said"] = done.stderr
    return answer


def counts(answer: dict[str, Any]) -> tuple[int, int, int]:
    return answer["compiled"], answer["loaded"], answer["not_kept"]


def code_files(home: Path) -> list[Path]:
    return sorted((home / "cache").rglob("*.code"))
