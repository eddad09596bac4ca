"""The name of kept code covers all that the code depends on.

Law: change anything that compiled code is made of, and the code is looked for under another name;
change anything else, and the name stays.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import typeof, types

from tidegate.compiled import names
from tidegate.compiled.cache import KeptCode
from tidegate.compiled.frames import Frame
from tidegate.compiled.sources import digest_in, read_sources
from tidegate.compiled.versions import UntestedVersionError, check_numba, requirement

PACKAGE = Path(names.__file__).parents[1]
LOOPS = ("arrival", "in_order", "instant")  # the kernels of the driver


def names_of_drivers(package: Path) -> dict[str, str]:
    sources = read_sources(package)
    return {name: digest_in(f"tidegate.driver.{name}", sources) for name in LOOPS}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "ready")
    return Path(shutil.copytree(PACKAGE, tmp_path / "tidegate", ignore=ignored))


@pytest.mark.parametrize(
    "module",
    [
        "binding/spec_records.py",  # constants of the spec
        "state/join_state.py",  # the arrays of a join and the names of its fields
        "compiled/frames.py",  # how arrays are reached
        "compiled/kernel.py",  # the decorators and their options
        "index/hash_table.py",  # a function that is inlined into the driver
    ],
)
def test_a_change_in_what_a_driver_imports_changes_its_name(copy: Path, module: str) -> None:
    before = names_of_drivers(copy)
    with (copy / module).open("a") as file:
        file.write("\nONE_MORE = 1\n")
    after = names_of_drivers(copy)
    assert all(before[name] != after[name] for name in before), (before, after)


def test_records_of_shedding_are_part_of_the_driver_that_sheds(copy: Path) -> None:
    before = names_of_drivers(copy)
    with (copy / "shed/shed_records.py").open("a") as file:
        file.write("\nONE_MORE = 1\n")
    after = names_of_drivers(copy)
    assert any(before[name] != after[name] for name in before)


@pytest.mark.parametrize("module", ["cli/screen.py", "spark/routing.py", "engine/join_engine.py"])
def test_a_change_elsewhere_leaves_the_name(copy: Path, module: str) -> None:
    before = names_of_drivers(copy)
    with (copy / module).open("a") as file:
        file.write("\nONE_MORE = 1\n")
    assert names_of_drivers(copy) == before


RECOMPILED = """
import sys
from tidegate.columns import encoding, payload, sets
from tidegate.compiled.cache import use
import numpy as np
from tidegate.compiled.kernel import kernel
import probe
print(probe.twice(np.arange(3.0)), len(use.compiled), len(use.loaded))
"""
PROBE = """
from tidegate.compiled.kernel import kernel
from tidegate.binding.spec_records import {constant} as CONSTANT

@kernel
def twice(values):
    return values.sum() + CONSTANT
"""


def test_a_changed_constant_is_compiled_again(copy: Path, tmp_path: Path) -> None:
    """Not only the name: the new process computes with the new constant."""
    records = copy / "binding/spec_records.py"
    records.write_text(records.read_text() + "\nPROBED = 1\n")
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE.format(constant="PROBED"))

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", RECOMPILED], capture_output=True, text=True, check=False,
            cwd=tmp_path, env={"TIDEGATE_CACHE": str(tmp_path / "cache"), "PATH": ""},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run() == ["4.0", "1", "0"]
    assert run() == ["4.0", "0", "1"]
    records.write_text(records.read_text().replace("PROBED = 1", "PROBED = 2"))
    assert run() == ["5.0", "1", "0"]


class Here(NamedTuple):
    first: Any
    second: Any


class Swapped(NamedTuple):
    second: Any
    first: Any


def test_names_of_fields_are_part_of_a_type() -> None:
    kinds = (types.int64, types.int64)
    Swapped.__name__ = Swapped.__qualname__ = "Here"
    assert Frame(Here, kinds).name != Frame(Swapped, kinds).name
    assert Frame(Here, kinds).name == Frame(Here, kinds).name
    plain, other = namedtuple("Plain", "a b"), namedtuple("Plain", "b a")
    assert str(typeof(plain(1, 2))) == str(typeof(other(1, 2)))  # what numba goes by
    assert names.described(typeof(plain(1, 2))) != names.described(typeof(other(1, 2)))
    nested, also = typeof((plain(1, 2), 1)), typeof((other(1, 2), 1))
    assert names.described(nested) != names.described(also)


def test_records_are_named_by_their_fields() -> None:
    one = np.zeros(1, np.dtype([("a", np.int64), ("b", np.int64)]))
    two = np.zeros(1, np.dtype([("b", np.int64), ("a", np.int64)]))
    assert names.described(typeof(one)) != names.described(typeof(two))


def test_versions_settings_and_options_are_part_of_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = [names.environment.__wrapped__()]
    assert seen[0] == names.environment()
    changes = [
        (names.numba, "__version__", "0.68.99"),
        (names.llvmlite, "__version__", "0.50.99"),
        (names.np, "__version__", "9.0.0"),
        (names.sys.implementation, "cache_tag", "cpython-399"),
        (names.numba_config, "OPT", 0),
        (names.numba_config, "BOUNDSCHECK", 1),
    ]
    for owner, name, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            seen.append(names.environment.__wrapped__())
    with monkeypatch.context() as patch:
        patch.setitem(names.COMPILED, "error_model", "python")
        seen.append(names.environment.__wrapped__())
    assert len(set(seen)) == len(changes) + 2


def test_the_cpu_is_part_of_the_name() -> None:
    code = KeptCode(test_the_cpu_is_part_of_the_name)
    host, other = ("x86_64-linux", "znver4", "+avx512f"), ("x86_64-linux", "haswell", "")
    assert code.file_name((types.int64,), host) != code.file_name((types.int64,), other)
    assert code.file_name((types.int64,), host) != code.file_name((types.float64,), host)


def test_code_for_the_baseline_runs_where_its_features_are(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ("x86_64-unknown-linux-gnu", "znver4", "+avx512f")
    features = dict.fromkeys(names.BASELINE_FEATURES, True)
    choose = names.runnable_targets.__wrapped__
    monkeypatch.setattr(names.llvm, "get_host_cpu_features", lambda: features)
    assert [target[1] for target in choose(own)] == ["znver4", "x86-64-v3"]
    assert len(choose(("aarch64-unknown-linux-gnu", "generic", ""))) == 1
    features["avx2"] = False
    assert choose(own) == (own,)


def test_untested_versions_of_numba_are_refused_in_one_sentence() -> None:
    for version in ("0.67.2", "0.69.0", "1.0.0", "0.69.0rc1"):
        with pytest.raises(UntestedVersionError, match=version) as caught:
            check_numba(version)
        assert requirement() in str(caught.value)
        assert "\n" not in str(caught.value)
    check_numba("0.68.0")
    check_numba("0.68.1")


def test_the_command_line_says_so_too() -> None:
    code = "import sys, numba; numba.__version__ = '0.99.0'; from tidegate.cli import run; "
    done = subprocess.run(
        [sys.executable, "-c", code + "sys.exit(run(['warm']))"], cwd=PACKAGE.parent,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "not tested with the installed numba 0.99.0" in done.stderr


def test_the_package_asks_for_the_versions_it_was_tested_with() -> None:
    text = (PACKAGE.parent / "pyproject.toml").read_text()
    assert f'"{requirement()}"' in text
