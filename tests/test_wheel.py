"""The wheel carries machine code: who installs it compiles nothing.

Law: in a fresh environment, with no code kept from before, joins of every kind run without numba
compiling a single function; and what users compile themselves is compiled for their own CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tidegate.compiled import names

pytestmark = [
    pytest.mark.wheel,
    pytest.mark.skipif(
        len(names.runnable_targets(names.own_target())) < 2,
        reason=f"this CPU lacks features of {names.BASELINE_CPU}",
    ),
]

REPOSITORY = Path(__file__).parents[1]

JOIN = """
import json, os, time
import numba
from numba.core import event
compiled = event.RecordingListener()
event.register("numba:compile", compiled)

began = time.perf_counter()
import pyarrow as pa
import tidegate as tg
from tidegate.compiled import cache, names, places

def stream(shift):
    rows = 500
    return pa.table({
        "t": list(range(rows)), "k": [(n * 7 + shift) % 31 for n in range(rows)],
        "s": [str((n * 7 + shift) % 31) for n in range(rows)],
        "x": [float(n % 13) for n in range(rows)],
        "importance": [1.0 + n % 3 for n in range(rows)],
    })

streams = {"left": stream(0), "right": stream(3)}
first = tg.join(streams, tg.JoinSpec(on="k", time="t", within=100, memory=40))
seconds = time.perf_counter() - began
rows = [first.table.num_rows]
for options in (
    {"on": "s", "memory": 40, "policy": "prob", "importance": "importance"},
    {"on": "k", "memory": 40, "ties": "instant"},
    {"on": tg.band("x", 0.0, 1.0), "memory": 40},
    {"on": tg.band("x", 0.0, 1.0), "index": "ttree"},
    {"on": "s"},
    {"on": "k", "lateness": 5},
):
    rows.append(tg.join(streams, tg.JoinSpec(time="t", within=100, **options)).table.num_rows)
best = tg.optimum(streams, tg.JoinSpec(on="k", time="t", within=100, memory=40))
counted = len(compiled.buffer)

@numba.njit
def own(value):
    return value + 1

own(1)
print(json.dumps({
    "file": tg.__file__, "rows": rows, "best": best.size, "compiled": counted,
    "ledger": len(cache.use.compiled), "loaded": len(cache.use.loaded), "seconds": seconds,
    "kept": [str(path) for path in places.cache_folder().rglob("*.code")],
    "own_is_compiled": len(compiled.buffer) > counted,
    "cpu": names.own_target()[1], "host": names.llvm.get_host_cpu_name(),
    "set": [name for name in os.environ if name.startswith("NUMBA_")],
}))
"""


def run(*command: str, **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def installed(wheel: Path, folder: Path) -> str:
    """The Python of a new environment that has the wheel, and sees what tidegate needs."""
    venv.create(folder, with_pip=False)
    python = str(folder / "bin" / "python")
    own = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # Installing numba and pyarrow again would take minutes and show nothing.
    Path(own, "present.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    run(*pip, "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel))
    return python


def test_the_first_join_compiles_nothing(tmp_path: Path) -> None:
    compiled = os.environ.get("TIDEGATE_WHEEL_CODE") or str(REPOSITORY / "build" / "compiled")
    dist = tmp_path / "dist"
    script = str(REPOSITORY / "scripts" / "wheel.py")
    run(sys.executable, script, "--output", str(dist), "--compiled", compiled)
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    assert sum(name.endswith(".code") for name in files) > 20
    assert "tidegate/compiled/kernel.py" in files
    python = installed(wheel, tmp_path / "venv")
    environment = {name: value for name, value in os.environ.items() if name == "PATH"}
    environment |= {"TIDEGATE_CACHE": str(tmp_path / "code"), "HOME": str(tmp_path)}
    answer = json.loads(run(python, "-c", JOIN, cwd=tmp_path, env=environment))
    assert answer["file"].startswith(str(tmp_path / "venv"))
    assert min(answer["rows"]) > 0
    assert answer["best"] >= answer["rows"][0]
    assert answer["kept"] == []
    assert (answer["compiled"], answer["ledger"]) == (0, 0)
    assert answer["loaded"] > 5
    # The user's own functions are compiled as ever.
    assert answer["own_is_compiled"]
    assert answer["cpu"] == answer["host"]
    assert answer["set"] == []
