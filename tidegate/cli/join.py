"""`tidegate join`: two files or more in, their window join out.

Law: the streams are replayed in order of time, piece by piece, and results are written as they
come: the inputs are held in memory, the results are not, save where one push or one dictionary per
file is needed (`--bad-rows fail`; dictionary columns written to .arrow).
"""

from __future__ import annotations

import json as json_text
import time as clock
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import arguments
from tidegate.cli.screen import Progress, answer, console, progress_of, say
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.notices import rejected_streams
from tidegate.watch.log import LogWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.engine import JoinEngine

ROWS_SHOWN = 10

Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Where to write: .parquet, .csv or .arrow."
    ),
]


def join(
    left: arguments.Left,
    right: arguments.Right,
    on: arguments.On,
    time: arguments.Time,
    within: arguments.Within,
    more: arguments.More = None,
    memory: arguments.Memory = None,
    policy: arguments.PolicyName = "auto",
    split: arguments.Split = "auto",
    importance: arguments.Importance = None,
    output_importance: arguments.OutputImportance = "min",
    index: arguments.Index = "auto",
    target: arguments.Target = None,
    comparisons_per_second: arguments.Comparisons = None,
    sentinel: arguments.Sentinel = None,
    miniatures: arguments.Miniatures = None,
    lateness: arguments.Lateness = "0",
    ties: arguments.Ties = "arrival",
    bad_rows: arguments.BadRows = "count",
    seed: arguments.Seed = 0,
    output: Output = None,
    ledger: arguments.LedgerFolder = None,
    log: arguments.LogFile = None,
    json: arguments.Json = False,
    quiet: arguments.Quiet = False,
) -> None:
    """Join files whose rows meet within a window of time.

    Options marked (*) take one value, or one for each file: left=..,right=.. of two files, and
    s1=..,s2=..,s3=.. of three or more, which are joined on equal columns.

    \b
    Examples
      tidegate join clicks.parquet ads.parquet --on ad_id --time ts --within 10m
      tidegate join a.csv b.csv --on id=number --time left=seen,right=at \\
          --within "left=1 hour,right=0 s" -o joined.parquet
      tidegate join a.csv b.csv --on k --time ts --within 600 \\
          --memory 1000 --policy simp --importance price --json
      tidegate join a.parquet b.parquet --on id --time ts --within 1h \\
          --memory "4 GB" --target "recall >= 0.95"
      tidegate join a.parquet b.parquet --on id --time ts --within 1h \\
          --comparisons-per-second 50000
      tidegate join a.arrow b.arrow --on band:price:-5:5 --time ts \\
          --within "100 rows" --index btree
      tidegate join sent.csv seen.csv paid.csv --on order --time ts \\
          --within s1=1h,s2=1h,s3=0s --memory 5000 --policy arrival-order
    """
    paths = (left, right, *(more or ()))
    streams = arguments.streams_of(len(paths))
    spec = arguments.spec_of(
        on, time, within, memory, policy, split, importance, output_importance, index, lateness,
        ties, bad_rows, seed, streams, sentinel, miniatures, target,
        comparisons_per_second,
    )  # fmt: skip
    if memory is None and not quiet and (policy, split) != ("auto", "auto"):
        say("tidegate: note: without --memory nothing is forgotten: --policy and --split are idle")
    _check_written({"--output": output, "--log": log}, paths)
    _run(spec, dict(zip(streams, paths, strict=True)), output, ledger, log, json, quiet)


def _check_written(written: Mapping[str, Path | None], inputs: Iterable[Path]) -> None:
    """Nothing that is read is written over, and no file is written twice."""
    from tidegate.cli import files

    taken = {path.resolve(): "an input" for path in inputs}
    for option, path in written.items():
        if path is None:
            continue
        if option == "--output":
            files.format_of(path)
        other, own = taken.setdefault(path.resolve(), option), f"the {option[2:]}"
        if other != option:
            raise TidegateError(f"'{path}' is {other} and {own}; give another {option}")
        taken[path.resolve()] = own


def _run(
    spec: JoinSpec,
    paths: Mapping[str, Path],
    output: Path | None,
    ledger: Path | None,
    log: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    from tidegate.cli import files

    tables = files.typed({name: files.read(path) for name, path in paths.items()}, spec)

    from tidegate.engine import JoinEngine

    schemas = {name: table.schema for name, table in tables.items()}
    engine = JoinEngine(spec, schemas, ledger=ledger)
    began = clock.perf_counter()
    writer = None if log is None else LogWriter(log, spec, " with ".join(map(str, paths.values())))
    with progress_of("joining", quiet) as progress:
        head = _replayed(engine, tables, output, _logged(progress, writer, engine))
    if writer is not None:
        writer.add(engine.stats(), _curve(engine), _policy(engine), done=True)
    seconds = clock.perf_counter() - began
    stats = engine.stats()
    for sentence in rejected_streams(stats, spec.streams):
        say(f"tidegate: note: {sentence}")
    rate = stats["rows_in"] / seconds
    if json:
        answer(
            {
                "stats": stats,
                "policy": _policy(engine) or None,
                "output": None if output is None else str(output),
                "ledger": None if ledger is None else str(ledger),
                "rows_per_second": round(rate, 1),
                "seconds": round(seconds, 3),
                "rejected_examples": engine.rejected_examples(),
                "spec": json_text.loads(spec.to_json()),
            }
        )
    else:
        _show(engine, head, output, seconds)


def _logged(progress: Progress, writer: LogWriter | None, engine: JoinEngine) -> Progress:
    """The same progress, which also writes the numbers of the moment."""

    def advance(done: int, total: int) -> None:
        progress(done, total)
        if writer is not None and writer.is_due():
            writer.add(engine.stats(), _curve(engine), _policy(engine))

    return advance


def _curve(engine: JoinEngine) -> list[dict[str, float]]:
    """Memory -> recall as far as the join knows it."""
    asked = engine.spec.target is not None or engine.spec.miniatures is not None
    return engine.retention_curve() if asked else []


def _policy(engine: JoinEngine) -> str:
    """What is forgotten at capacity, where there is one."""
    return "" if engine.spec.memory is None else engine.policy


def _replayed(
    engine: JoinEngine, tables: Mapping[str, pa.Table], output: Path | None, progress: Progress
) -> pa.Table:
    """Run the join, write what comes out, and return its first rows."""
    import pyarrow as pa

    from tidegate.cli import files
    from tidegate.engine.replay import replay

    heads: list[pa.Table] = []

    def results() -> Iterator[pa.Table]:
        missing = ROWS_SHOWN
        for table in replay(engine, tables, progress):
            if missing > 0:
                # A copy, so that ten rows do not keep a whole table of results alive.
                wanted = pa.array(range(min(missing, table.num_rows)), pa.int64())
                heads.append(table.take(wanted))
                missing -= len(wanted)
            yield table
        engine.write_ledger()  # where there is an output, its ledger is complete

    try:
        if output is None:
            for _ in results():
                pass
        else:
            files.write(results(), output)
    except pa.ArrowInvalid as error:
        # Values that no check foresees, such as a time that overflows its column's unit.
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise TidegateError(f"the files cannot be joined: {reason}") from error
    return pa.concat_tables(heads)


def _show(engine: JoinEngine, head: pa.Table, output: Path | None, seconds: float) -> None:
    stats = engine.stats()
    screen = console()
    if output is None and head.num_rows:
        screen.print(_rows_table(head, screen.width))
        if stats["rows_out"] > head.num_rows:
            screen.print(
                f"... and {stats['rows_out'] - head.num_rows:,} more (write them with -o FILE)\n"
            )
    for line in _summary(engine, seconds):
        screen.print(line, soft_wrap=True, markup=False)
    if output is not None:
        screen.print(f"written to {output}", soft_wrap=True, markup=False)


def _rows_table(head: pa.Table, width: int) -> Any:
    from rich.table import Table
    from rich.text import Text

    # Columns that would not fit are left out, not squeezed to nothing.
    texts = [[_cell(value) for value in column.to_pylist()] for column in head.columns]
    shown, used = 0, 1
    for name, cells in zip(head.column_names, texts, strict=True):
        used += 3 + max(map(len, (name, *cells)))
        if shown and used > width - 5:
            break
        shown += 1
    drawn = Table()
    for name in head.column_names[:shown]:
        drawn.add_column(Text(name), no_wrap=True)
    left_out = shown < head.num_columns
    if left_out:
        drawn.add_column("...")
    for row in zip(*texts[:shown], strict=True):
        drawn.add_row(*map(Text, row), *(["..."] if left_out else []))
    return drawn


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 30 else f"{text[:27]}..."


def _recall(stats: Mapping[str, float]) -> str:
    """What the sentinel knows, as a sentence."""
    if "recall" not in stats:
        return "recall: unknown, since the sentinel has seen too few results"
    low, high = stats["recall_low"], stats["recall_high"]
    said = f"recall: {stats['recall']:.1%} of the results ({low:.1%} to {high:.1%})"
    if "importance_recall" in stats:
        low, high = stats["importance_recall_low"], stats["importance_recall_high"]
        worth = stats["importance_recall"]
        said += f", {worth:.1%} of their importance ({low:.1%} to {high:.1%})"
    return said


def _target(target: str, stats: Mapping[str, float]) -> str:
    """Whether the target is met, as a sentence."""
    memory = f"{stats['target_memory']:,}"
    if "target_met" not in stats:
        return f"target: {target}; not reached a decision yet, so with all of the memory, {memory}"
    if stats["target_met"]:
        return f"target: {target}, kept with {memory} in the end"
    missing = stats["target_missing_by"]
    return f"target: {target}, cannot be met with {memory}: of late it is missed by {missing:.1%}"


def _times(switches: float) -> str:
    """How often the policy was another one."""
    return "1 switch" if switches == 1 else f"{switches:,.0f} switches"


def _compared(stats: Mapping[str, float]) -> str:
    """What a CPU budget left out, as a sentence."""
    said = f"comparisons: {stats['comparisons']:,} made, {stats['skipped_comparisons']:,} left out"
    if "skipped_results_estimate" in stats:
        said += f" (about {stats['skipped_results_estimate']:,.0f} results)"
    return said


def _summary(engine: JoinEngine, seconds: float) -> list[str]:
    """What became of the rows, in sentences."""
    stats = engine.stats()
    names = engine.spec.streams
    rows_in = " + ".join(f"{stats[f'rows_in_{name}']:,}" for name in names)
    lines = [
        f"{rows_in} rows in, {stats['rows_out']:,} results out "
        f"(importance {stats['importance_out']:,.6g})",
        f"took {seconds:.1f} s with the loading of the compiled code, "
        f"{stats['rows_in'] / seconds:,.0f} rows/s",
        f"retained at most {stats['memory_rows_peak']:,} rows "
        f"({stats['memory_bytes_peak'] / 1e6:,.1f} MB)",
    ]
    forgotten = stats["evicted"] + stats["refused"]
    if engine.spec.memory is not None:
        lines.append(f"forgotten to stay inside --memory {engine.spec.memory}: {forgotten:,} rows")
    if "race_switches" in stats:
        lines.append(f"policy in force: {engine.policy}, after {_times(stats['race_switches'])}")
    if engine.spec.cpu is not None:
        lines.append(_compared(stats))
    if engine.spec.target is not None:
        lines.append(_target(engine.spec.target, stats))
    if "sentinel_rows" in stats:
        lines.append(_recall(stats))
    if stats["too_late"]:
        lines.append(f"dropped as too late: {stats['too_late']:,} rows")
    if stats["rejected"]:
        reasons = ", ".join(
            f"{label.removeprefix('rejected_').replace('_', ' ')} {count:,}"
            for label, count in stats.items()
            if label.startswith("rejected_") and label.removeprefix("rejected_") not in names
        )
        lines.append(f"rejected: {stats['rejected']:,} rows ({reasons}), for example:")
        lines += [
            f"  {example['stream']}: {example['row']}" for example in engine.rejected_examples()
        ]
    return lines
