"""The command line: what it prints where, its exit status, and its sentences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

import tidegate as tg
from tidegate.cli import arguments, bench, files, run, screen

JOIN = ["--on", "key", "--time", "ts", "--within", "5"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two streams, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    parquet.write_table(_left(), "left.parquet")
    parquet.write_table(_right(), "right.parquet")
    return tmp_path


def _left() -> pa.Table:
    rows = range(60)
    return pa.table(
        {
            "ts": list(rows),
            "key": [row % 7 for row in rows],
            "name": [str(row % 7) for row in rows],
            "tags": [[row % 3, row % 5] for row in rows],
            "price": [float(1 + row % 4) for row in rows],
        }
    )


def _right() -> pa.Table:
    return _left().rename_columns(["ts", "key", "label", "tags", "cost"])


def _spec(**changes: Any) -> tg.JoinSpec:
    return tg.JoinSpec(on="key", time="ts", within=5).replace(**changes)


def _expected(**changes: Any) -> tg.JoinResult:
    return tg.join({"left": _left(), "right": _right()}, _spec(**changes))


def _process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidegate", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=_environment()
    )


def _environment() -> dict[str, str]:
    """The process finds the package that is tested, also where it is not installed."""
    return os.environ | {"PYTHONPATH": str(Path(tg.__file__).resolve().parent.parent)}


def _answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run(list(words)) == 0
    return json.loads(capsys.readouterr().out)


# --- processes ----------------------------------------------------------------------------


def test_join_as_a_process_answers_with_one_json_object(folder: Path) -> None:
    done = _process("join", "left.parquet", "right.parquet", *JOIN, "-o", "out.parquet", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    payload = json.loads(done.stdout)
    expected = _expected()
    assert payload["output"] == "out.parquet"
    assert payload["rows_per_second"] > 0
    assert payload["stats"]["rows_out"] == expected.table.num_rows > 0
    assert payload["stats"].keys() == expected.stats.keys()
    assert tg.JoinSpec.from_json(json.dumps(payload["spec"])) == _spec()
    assert parquet.read_table("out.parquet").equals(expected.table)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["join", "left.parquet", "right.parquet", *JOIN[:4]], "missing option '--within'"),
        (["join", "left.parquet", "absent.csv", *JOIN], "'absent.csv' does not exist"),
        (["join", "left.parquet", "right.parquet", *JOIN, "--on", "name=cost"], "mixed types"),
    ],
)
def test_bad_input_as_a_process(folder: Path, words: list[str], sentence: str) -> None:
    done = _process(*words)
    assert (done.returncode, done.stdout) == (2, "")
    _check_sentence(done.stderr, sentence)


def test_help_needs_neither_numba_nor_pyarrow() -> None:
    code = (
        "import sys, tidegate.cli\n"
        "assert tidegate.cli.run(['join', '--help']) == 0\n"
        "print([name for name in ('numba', 'pyarrow') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=_environment()
    )
    assert "Examples" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


# --- bad input ----------------------------------------------------------------------------


def _check_sentence(errors: str, part: str) -> None:
    assert errors.startswith("tidegate: ")
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert part in errors


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--on", "absent"], "on names column 'absent', which stream 'left' does not have"),
        (["--on", "key", "--on", "key"], "twice"),
        (["--on", "name=cost"], "mixed types, string and double"),
        (["--on", "tags"], "which equality does not take"),
        (["--on", "a=b=c"], "--on 'a=b=c' is not a column"),
        (["--on", "band:ts:1"], "write band:COLUMN:LOW:HIGH"),
        (["--on", "band:ts:1:0"], "low 1 above high 0"),
        (["--on", "overlap:key:1"], "overlap column 'key'"),
        (["--time", "name"], "'name', which stream 'right' does not have"),
        (["--time", "left=name,right=label"], "it must be timestamps, dates or integers"),
        (["--time", "left=ts"], "says nothing for stream 'right'"),
        (["--time", "left=ts,right"], "has the part 'right'"),
        (["--within", "-5"], "within -5 is negative"),
        (["--within", "-5 minutes"], "is negative"),
        (["--within", "soon"], "within 'soon' is not a duration"),
        (["--within", "5 minutes"], "within is a duration but the time columns are integers"),
        (["--memory", "lots"], "memory 'lots' is not a size"),
        (["--memory", "-1"], "memory -1 is negative"),
        (["--policy", "simpp"], "did you mean 'simp'?"),
        (["--index", "hashh"], "did you mean 'hash'?"),
        (["--on", "band:ts:0:1", "--index", "hash"], "index 'hash'"),
        (["--split", "10,20"], "gives numbers of tuples but memory is None"),
        (["--importance", "price"], "importance names column 'price', which stream 'right'"),
        (["--output-importance", "median"], "output_importance 'median' is not known"),
        (["--ties", "never"], "ties 'never' is not known"),
        (["--bad-rows", "skip"], "bad_rows 'skip' is not known"),
        (["--lateness", "-1"], "lateness -1 is negative"),
        (["--seed", "-1"], "seed -1 is out of range"),
        (["--seed", "x"], "invalid value for '--seed'"),
        (["--output", "out.xyz"], "'out.xyz' has the ending '.xyz'"),
        (["--output", "left.parquet"], "is an input and the output"),
        (["--log", "left.parquet"], "is an input and the log"),
        (["--output", "absent/out.csv"], "the folder of 'absent/out.csv' does not exist"),
        (["--output", "out.csv"], "a csv file cannot hold column 'tags'"),
        (["--frobnicate"], "no such option: --frobnicate"),
    ],
)
def test_a_bad_option_is_one_sentence_and_status_2(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    given = dict(zip(JOIN[::2], JOIN[1::2], strict=True))
    rest = [word for name in given if name not in options for word in (name, given[name])]
    assert run(["join", "left.parquet", "right.parquet", *rest, *options, "--quiet"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    _check_sentence(printed.err, sentence)
    assert sorted(path.name for path in folder.iterdir()) == ["left.parquet", "right.parquet"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("notes.txt", b"a", "has the ending '.txt'; it must be one of .parquet"),
        ("left", b"a", "has no ending"),
        ("left.parquet", b"no parquet", "cannot be read as parquet"),
        ("left.csv", b"", "cannot be read as csv"),
        ("left.csv", b"ts,key\n1\n", "cannot be read as csv"),
        ("left.csv", b"ts,key\nmonday,1\n", "time column 'ts' of stream 'left' has type string"),
        ("left.arrow", b"no arrow at all", "cannot be read as arrow"),
        ("left.arrow", b"", "cannot be read as arrow"),
        ("left.feather", None, "is a folder"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    sentence: str,
) -> None:
    path = folder / name
    path.mkdir() if content is None else path.write_bytes(content)
    assert run(["join", name, "right.parquet", *JOIN]) == 2
    _check_sentence(capsys.readouterr().err, sentence)


def test_an_error_half_way_leaves_the_old_output(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "out.csv").write_text("old")
    assert run(["join", "left.parquet", "right.parquet", *JOIN, "-o", "out.csv"]) == 2
    assert (folder / "out.csv").read_text() == "old"


def test_an_unknown_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["joim"]) == 2
    _check_sentence(capsys.readouterr().err, "no such command 'joim', did you mean 'join'?")


# --- join ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "pq", "arrow", "feather"])
def test_every_format_comes_back_unchanged(
    folder: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    left = _left().append_column("kind", _left().column("name").dictionary_encode())
    files.write([left.slice(0, 30), left.slice(30)], Path(f"in.{ending}"))
    _answer(capsys, "join", f"in.{ending}", "right.parquet", *JOIN, "-o", f"out.{ending}", "--json")
    expected = tg.join({"left": left, "right": _right()}, _spec()).table
    found = files.read(Path(f"out.{ending}"))
    assert found.column_names == expected.column_names
    assert found.to_pylist() == expected.to_pylist()


def test_csv_round_trip(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_text(
        'ts,key\n2024-01-01 00:00:00,a\n2024-01-01 00:00:05,\n2024-01-01 00:00:06,""\n'
        "2024-01-01 00:00:07,NA\n"
    )
    words = ["--on", "key", "--time", "ts", "--within", "1 minute", "-o", "out.csv", "--json"]
    stats = _answer(capsys, "join", "a.csv", "a.csv", *words)["stats"]
    # An empty cell is NULL and matches nothing; a quoted empty one and NA are values.
    assert stats["rows_out"] == 3
    found = files.read(Path("out.csv"))
    assert found.column("key").to_pylist() == ["a", "", "NA"]
    assert pa.types.is_timestamp(found.schema.field("ts_right").type)


def test_arrow_streams_are_read_too(folder: Path) -> None:
    with ipc.new_stream("left.arrow", _left().schema) as writer:
        writer.write_table(_left())
    assert files.read(Path("left.arrow")).equals(_left())


def test_results_are_written_piece_by_piece(folder: Path) -> None:
    pieces = [_left().slice(0, 0), *[_left()] * 5]
    for ending, reader in (("parquet", parquet.read_table), ("csv", csv.read_csv)):
        flat = [piece.drop_columns(["tags"]) for piece in pieces]
        files.write(iter(flat), Path(f"out.{ending}"))
        assert reader(f"out.{ending}").num_rows == 300
    files.write(iter(pieces), Path("out.feather"))
    assert feather.read_table("out.feather").equals(pa.concat_tables(pieces))


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (["--memory", "6", "--policy", "random", "--seed", "3"],
         {"memory": 6, "policy": "random", "seed": 3}),
        (["--memory", "4 MB"], {"memory": "4 MB"}),
        (["--memory", "6", "--split", "0.5,0.5"], {"memory": 6, "split": [0.5, 0.5]}),
        (["--memory", "6", "--split", "left=4,right=2"],
         {"memory": 6, "split": {"left": 4, "right": 2}}),
        (["--within", "left=2,right=0"], {"within": {"left": 2, "right": 0}}),
        (["--within", "4 rows"], {"within": tg.rows(4)}),
        (["--on", "name=label"], {"on": {"left": "name", "right": "label"}}),
        (["--on", "key", "--on", "overlap:tags:2"], {"on": ["key", tg.overlap("tags", 2)]}),
        (["--on", "band:ts:-2:2", "--index", "left=btree,right=ttree"],
         {"on": tg.band("ts", -2, 2), "index": {"left": "btree", "right": "ttree"}}),
        (["--on", "band:price=cost:0:0.5"],
         {"on": tg.band({"left": "price", "right": "cost"}, 0, 0.5)}),
        (["--on", "inner:tags:2.5"], {"on": tg.inner_product("tags", 2.5)}),
        (["--ties", "instant", "--lateness", "2"], {"ties": "instant", "lateness": 2}),
        (["--importance", "left=price,right=cost", "--output-importance", "sum"],
         {"importance": {"left": "price", "right": "cost"}, "output_importance": "sum"}),
    ],
)  # fmt: skip
def test_options_mean_what_they_mean_in_python(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    changes: dict[str, Any],
) -> None:
    given = dict(zip(JOIN[::2], JOIN[1::2], strict=True))
    rest = [word for name in given if name not in options for word in (name, given[name])]
    words = ["left.parquet", "right.parquet", *rest, *options, "-o", "out.arrow", "--json"]
    payload = _answer(capsys, "join", *words)
    expected = _expected(**changes)
    assert tg.JoinSpec.from_json(json.dumps(payload["spec"])) == _spec(**changes)
    assert payload["stats"]["importance_out"] == expected.stats["importance_out"]
    assert files.read(Path("out.arrow")).equals(expected.table)


def test_without_an_output_the_first_rows_are_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["join", "left.parquet", "right.parquet", *JOIN, "--memory", "20"]) == 0
    printed = capsys.readouterr()
    assert "more (write them with -o FILE)" in printed.out
    assert "60 + 60 rows in" in printed.out
    assert "forgotten to stay inside --memory 20" in printed.out
    assert printed.err == ""


def test_rejected_rows_are_told_with_examples(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = _left().set_column(4, "price", pa.array([float("nan"), -1.0, *[1.0] * 58]))
    parquet.write_table(bad.rename_columns(["ts", "key", "n", "tags", "cost"]), "bad.parquet")
    words = ["bad.parquet", "right.parquet", *JOIN, "--importance", "cost"]
    examples = _answer(capsys, "join", *words, "--json")["rejected_examples"]
    assert [example["row"]["cost"] for example in examples] == ["nan", -1.0]
    assert run(["join", *words]) == 0
    assert "rejected: 2 rows (importance 2), for example:" in capsys.readouterr().out
    assert run(["join", *words, "--bad-rows", "fail"]) == 2
    _check_sentence(capsys.readouterr().err, "row 0 of stream 'left' cannot be joined")


def test_idle_options_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["join", "left.parquet", "right.parquet", *JOIN, "--policy", "simp", "--json"]
    assert run(words) == 0
    printed = capsys.readouterr()
    assert "without --memory nothing is forgotten" in printed.err
    assert json.loads(printed.out)["stats"]["evicted"] == 0


# --- the other commands -------------------------------------------------------------------


def test_demo_keeps_no_less_value_than_chance(capsys: pytest.CaptureFixture[str]) -> None:
    payload = _answer(capsys, "demo", "--rows", "20000", "--seed", "5", "--no-spark", "--json")
    exact, random, ours = payload["runs"]
    assert exact["results_kept"] == exact["importance_kept"] == 1.0
    for run_ in (random, ours):
        assert run_["memory_rows_peak"] <= payload["memory"] == exact["memory_rows_peak"] // 10
    assert 0 < random["importance_kept"] <= ours["importance_kept"] < 1.0
    assert f"{ours['importance_kept']:.0%}" in payload["seen"]


def test_demo_shows_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--rows", "5000", "--no-spark"]) == 0
    printed = capsys.readouterr()
    assert "Kept of the results and of their importance" in printed.out
    assert "MB" in printed.out
    assert "1,000 auctions" in printed.err


def test_demo_refuses_too_few_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--rows", "3"]) == 2
    _check_sentence(capsys.readouterr().err, "give 1000 or more")


def test_bench_runs_what_the_folder_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "benchmarks"
    place.mkdir()
    (place / "__init__.py").touch()
    (place / "part.py").write_text("SPEED = 3.0\n")
    (place / "sums.py").write_text(
        "from benchmarks.part import SPEED\n"
        "def run(quick):\n"
        "    print('noise')\n"
        "    return [dict(name='sum', ours=SPEED, theirs=1.5, ratio=2.0, unit='rows/s')]\n"
    )
    monkeypatch.setattr(tg, "__file__", str(tmp_path / "tidegate" / "__init__.py"))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    row = {"name": "sum", "ours": 3.0, "theirs": 1.5, "ratio": 2.0, "unit": "rows/s"}
    try:
        assert _answer(capsys, "bench", "--quick", "--json") == {"results": [row]}
        assert run(["bench", "summs"]) == 2
        _check_sentence(capsys.readouterr().err, "did you mean 'sums'?")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
            del sys.modules[name]


def test_bench_without_its_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(tg.TidegateError, match="not installed with the package"):
        bench._benchmarks(tmp_path / "benchmarks")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert _answer(capsys, "version", "--json")["version"] == tg.__version__
    assert run(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"tidegate {tg.__version__}\n")


@pytest.mark.parametrize("command", ["join", "plan", "demo", "reproduce", "bench", "version"])
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    assert f"tidegate {command}" in capsys.readouterr().out.partition("Example")[2]


# --- parts --------------------------------------------------------------------------------


def test_progress_lines_wait_two_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(screen.time, "monotonic", lambda: now[0])
    with screen.progress_of("joining") as progress:
        for moment in (1.0, 2.5, 4.0, 8.0):
            now[0] = moment
            progress(int(10 * moment), 100)
        progress(100, 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["joining: 25 % (25 of 100 rows)", "joining: 80 % (80 of 100 rows)"]


def test_numbers_and_texts_are_told_apart() -> None:
    texts = ["7", "-7", "7.5", "-inf", "7 s"]
    assert [arguments.number_or_text(text) for text in texts] == [7, -7, 7.5, float("-inf"), "7 s"]
    assert [arguments.whole_or_text(text) for text in texts[:3]] == [7, -7, "7.5"]


@pytest.mark.parametrize("command", ["join", "optimum"])
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--on", "kye"], "on names column 'kye', which stream 'left' does not have"),
        (["--time", "tss"], "time names column 'tss', which stream 'left' does not have"),
        (["--importance", "pric"], "importance names column 'pric', which stream 'left'"),
        (["--importance", "label"], "importance names column 'label', which stream 'left'"),
        (["--importance", "left=name,right=label"], "importance column 'name'"),
        (["--on", "key=label"], "equality key 'key' / 'label' has mixed types"),
        (["--policy", "unifrm"], "policy 'unifrm' is not known; did you mean 'uniform'"),
    ],
)
def test_every_command_refuses_wrong_columns(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    words: list[str],
    sentence: str,
) -> None:
    options = {"--on": "key", "--time": "ts", "--within": "5", "--memory": "9"} | {
        words[0]: words[1]
    }
    given = [word for pair in options.items() for word in pair]
    assert run([command, "left.parquet", "right.parquet", *given]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"tidegate: {sentence}")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("files_given", [("left.parquet", "head.csv"), ("head.csv", "head.csv")])
@pytest.mark.parametrize("within", ["5", "5 s"])
def test_a_csv_that_holds_a_header_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], files_given: tuple[str, str], within: str
) -> None:
    Path("head.csv").write_text("ts,key,price\n")
    if within == "5 s":
        table = _left()
        times = table.column("ts").cast(pa.timestamp("us"))
        parquet.write_table(table.set_column(0, "ts", times), "left.parquet")
    on = ["--on", "key", "--on", "band:price:0:1", "--importance", "price"]
    words = ["join", *files_given, *on, "--time", "ts", "--within", within]
    payload = _answer(capsys, *words, "-o", "out.parquet", "--json")
    assert payload["stats"]["rows_out"] == 0
    assert payload["stats"]["rows_in_right"] == 0


def test_a_stream_that_is_rejected_whole_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = _right()
    negative = pa.array([-1.0] * table.num_rows)
    parquet.write_table(table.set_column(4, "cost", negative), "right.parquet")
    importance = ["--importance", "left=price,right=cost"]
    assert run(["join", "left.parquet", "right.parquet", *JOIN, *importance, "--json"]) == 0
    assert "all 60 rows of stream 'right' were rejected (importance)" in capsys.readouterr().err


def test_an_option_with_one_value_is_not_taken_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """The first would be lost in silence."""
    files = ["a.csv", "b.csv", "--on", "k", "--on", "z", "--time", "t"]
    status = run(["join", *files, "--within", "left=3", "--within=right=0"])
    assert status == 2
    said = capsys.readouterr().err
    assert "--within is given twice" in said
    assert "left=...,right=..." in said
