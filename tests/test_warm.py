"""`tidegate warm`: all that can be needed is compiled, once.

The common cases are tested with the wheel (`test_wheel`), which holds nothing but what they left;
here a case of a small kernel stands for them. The rare ones run as plain Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from strategies import only_plain

from tidegate.engine import warm as warming

REPOSITORY = Path(__file__).parents[1]

CASES = """
import numpy as np
from tidegate.compiled.kernel import kernel
from tidegate.engine.warm import Case, warm

@kernel
def first(values):
    return values[0]

@kernel
def total(values):
    return values.sum() + first(values)

def run(kind):
    total(np.ones(3, kind))
    first(np.ones(3, kind))  # compiled already, as part of the other, but Python calls it too

if __name__ == "__main__":
    import json, sys
    import cases
    chosen = [Case(kind, cases.run, {"kind": kind}) for kind in sys.argv[1:]]
    seen = []
    done = warm(chosen, processes=2, progress=lambda *now: seen.append(now))
    print(json.dumps({"compiled": done.compiled, "functions": done.functions, "seen": seen,
                      "record": done.record}))
"""


def warm(folder: Path, *kinds: str) -> dict[str, Any]:
    (folder / "cases.py").write_text(CASES)
    environment = {
        **os.environ,
        "TIDEGATE_CACHE": str(folder / "cache"),
        "PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY}",
    }
    done = subprocess.run(
        [sys.executable, "cases.py", *kinds], cwd=folder, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_warm_compiles_once_and_notices_what_is_gone(tmp_path: Path) -> None:
    first = warm(tmp_path, "f8", "i8")
    assert (first["compiled"], first["functions"]) == (4, 4)
    assert first["seen"] == [[1, 2], [2, 2]]
    again = warm(tmp_path, "f8", "i8")
    assert (again["compiled"], again["functions"], again["seen"]) == (0, 4, [])
    # Another list of cases is another question, but what is there is not compiled again.
    assert warm(tmp_path, "f8", "i8", "f4")["compiled"] == 2
    gone = json.loads(Path(first["record"]).read_text())[0]
    (Path(first["record"]).parent / gone).unlink()
    assert warm(tmp_path, "f8", "i8")["compiled"] == 1


@only_plain
@pytest.mark.nojit
@pytest.mark.parametrize("case", warming.rare_cases(), ids=lambda case: case.name)
def test_rare_cases_are_joins(case: warming.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "ROWS", 40)
    case.run(**case.options)


def test_help_has_examples() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "warm", "--help"], cwd=REPOSITORY, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert "tidegate warm" in done.stdout
    assert "TIDEGATE_CACHE=" in done.stdout
