"""Build a wheel that carries compiled code for a baseline CPU: `make wheel`.

Law: the checkout stays as it is. The code is compiled in processes of its own, since numba is
told the CPU by the environment (`tidegate warm --common`: rare joins are left out); the package is
copied, the code put into its folder `compiled/ready`, and the wheel built from the copy. Code that
was compiled by an earlier run is taken from build/compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("pyproject.toml", "README.md", "LICENSE")
BUILD = "import sys; from flit_core.buildapi import build_wheel; print(build_wheel(sys.argv[1]))"


def environment(compiled: Path) -> dict[str, str]:
    """The environment of a process that compiles for the baseline CPU into this folder."""
    sys.path.insert(0, str(ROOT))
    from tidegate.compiled.names import baseline_settings

    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    return {**inherited, **baseline_settings(), "TIDEGATE_CACHE": str(compiled)}


def compiled_files(compiled: Path) -> tuple[Path, list[str]]:
    """Compile what is missing; the folder of all files, and their names."""
    command = [sys.executable, "-m", "tidegate", "warm", "--common", "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(compiled), stdout=subprocess.PIPE, check=True
    )
    warmed = json.loads(done.stdout)
    if warmed["not_kept"]:
        sys.exit("some functions could not be kept, so the wheel would not be complete")
    names: list[str] = json.loads(Path(warmed["record"]).read_text())
    return Path(warmed["folder"]), names


def build(output: Path, compiled: Path) -> Path:
    """Build the wheel from a copy of the package."""
    folder, names = compiled_files(compiled)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        for name in NEEDED:
            shutil.copy(ROOT / name, copy / name)
        ignored = shutil.ignore_patterns("__pycache__", "ready")
        shutil.copytree(ROOT / "tidegate", copy / "tidegate", ignore=ignored)
        for name in names:
            place = copy / "tidegate" / "compiled" / "ready" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / name, place)
        output.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(output)],
            cwd=copy, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    return output / done.stdout.splitlines()[-1]


def main() -> None:
    """Build, and say what was built."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--compiled", type=Path, default=ROOT / "build" / "compiled")
    arguments = parser.parse_args()
    wheel = build(arguments.output.resolve(), arguments.compiled.resolve())
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
