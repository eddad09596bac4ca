"""Options of the command line become the values of a `JoinSpec`.

Law: text is only taken apart here; whether a value is right is for the spec and the engine to say,
so that a mistake gets the same sentence from Python and from the command line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.spec import Cpu, JoinSpec, SpecError, band, inner_product, overlap, rows

STREAMS = ("left", "right")

Left = Annotated[
    Path, typer.Argument(metavar="LEFT", help="First stream: .parquet, .csv, .arrow or .feather.")
]
Right = Annotated[Path, typer.Argument(metavar="RIGHT", help="Second stream, likewise.")]
More = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[MORE]...", help="More streams; all are then called s1, s2, s3, ..."),
]
On = Annotated[
    list[str],
    typer.Option(
        "--on",
        metavar="CONDITION",
        help="NAME, LEFT_NAME=RIGHT_NAME, band:COLUMN:LOW:HIGH, overlap:COLUMN:K or "
        "inner:COLUMN:X; may be repeated, then all must hold.",
    ),
]
Time = Annotated[
    str, typer.Option("--time", metavar="COLUMN", help="Column of the event time. (*)")
]
Within = Annotated[
    str,
    typer.Option(
        "--within",
        metavar="WINDOW",
        help="Window: '10 minutes' for timestamps, 600 for integer times, '100 rows'. (*)",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Budget: 1000 tuples or '200 MB'. Without it: the exact join.",
    ),
]
PolicyName = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="What to forget when the budget is full.")
]
Split = Annotated[
    str,
    typer.Option(
        "--split",
        metavar="SPLIT",
        help="How streams share memory: even, auto, shared, or numbers. (*)",
    ),
]
Importance = Annotated[
    str | None,
    typer.Option("--importance", metavar="COLUMN", help="Column of a row's importance. (*)"),
]
OutputImportance = Annotated[
    str,
    typer.Option(
        "--output-importance",
        metavar="HOW",
        help="A result's importance: min, max, sum, product, mean.",
    ),
]
Index = Annotated[
    str,
    typer.Option(
        "--index", metavar="INDEX", help="auto, nested-loop, hash, btree, ttree or inverted. (*)"
    ),
]
Lateness = Annotated[
    str, typer.Option("--lateness", metavar="TIME", help="How far behind the clock a row may come.")
]
Ties = Annotated[
    str, typer.Option("--ties", metavar="HOW", help="Rows of equal time: arrival or instant.")
]
BadRows = Annotated[
    str,
    typer.Option("--bad-rows", metavar="HOW", help="Rows that cannot be joined: count or fail."),
]
Sentinel = Annotated[
    float | None,
    typer.Option(
        "--sentinel",
        metavar="SHARE",
        help="Share of the memory for a sample that tells the recall, such as 0.02.",
    ),
]
Comparisons = Annotated[
    float | None,
    typer.Option(
        "--comparisons-per-second",
        metavar="N",
        help="CPU budget: comparisons per second of event time (per unit of integer times).",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="TARGET",
        help="'recall >= 0.95' or 'importance >= 0.95': kept with the least of --memory that does.",
    ),
]
Miniatures = Annotated[
    float | None,
    typer.Option(
        "--miniatures",
        metavar="SHARE",
        help="Share of the memory for small copies that tell what other memories would keep.",
    ),
]
LedgerFolder = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="FOLDER",
        help="Write rows as they leave, so that `tidegate repair` can compute what was lost.",
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="Write numbers as it runs, for `tidegate watch`."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Fixes every random choice.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]

_WHOLE = re.compile(r"[+-]?[0-9]+")
_ROWS = re.compile(r"([+-]?[0-9]+)\s*rows?", re.IGNORECASE)


def number_or_text(text: str) -> int | float | str:
    """An integer, else a float, else the text itself (a duration, a size, a name).

    >>> number_or_text("600"), number_or_text("0.5"), number_or_text("10 minutes")
    (600, 0.5, '10 minutes')
    """
    if _WHOLE.fullmatch(text.strip()):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def whole_or_text(text: str) -> int | str:
    """An integer, else the text itself: `--within`, `--memory` and `--lateness` take no floats."""
    return int(text) if _WHOLE.fullmatch(text.strip()) else text


def window(text: str) -> Any:
    """A window: digits, `N rows` or a duration.

    >>> window("600"), window("100 rows"), window("10 minutes")
    (600, rows(100), '10 minutes')
    """
    counted = _ROWS.fullmatch(text.strip())
    return rows(int(counted[1])) if counted else whole_or_text(text)


def streams_of(files: int) -> tuple[str, ...]:
    """What the streams of so many files are called.

    >>> streams_of(2), streams_of(3)
    (('left', 'right'), ('s1', 's2', 's3'))
    """
    return STREAMS if files == 2 else tuple(f"s{number}" for number in range(1, files + 1))


def names_a_stream(text: str, streams: Sequence[str]) -> bool:
    """Does a text begin as `left=..,right=..` does?"""
    return any(re.match(rf"{name}\s*=", text.strip()) for name in streams)


def by_stream(option: str, text: str, streams: Sequence[str] = STREAMS) -> str | dict[str, str]:
    """One value, or `left=..,right=..` as a dict; whether it is complete is for the spec to say.

    >>> by_stream("--time", "left=opened,right=made")
    {'left': 'opened', 'right': 'made'}
    """
    if not names_a_stream(text, streams):
        return text
    values: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value or name in values:
            raise SpecError(
                f"{option} {text!r} has the part {part.strip()!r}; write one value, or "
                f"{','.join(f'{name}=..' for name in streams)} with each stream once"
            )
        values[name] = value
    return values


def each(value: str | dict[str, str], read: Any) -> Any:
    """Read one value, or each value of a dict by stream."""
    if isinstance(value, str):
        return read(value)
    return {name: read(text) for name, text in value.items()}


def split(text: str, streams: Sequence[str] = STREAMS) -> Any:
    """A named split, `left=..,right=..`, or numbers in stream order such as `0.3,0.7`."""
    value = by_stream("--split", text, streams)
    if isinstance(value, str) and "," in value:
        return [number_or_text(part) for part in value.split(",")]
    return each(value, number_or_text)


def condition(text: str, streams: Sequence[str] = STREAMS) -> Any:
    """One `--on`: a column, one column for each stream, or a predicate with its numbers."""
    kind, colon, rest = text.partition(":")
    if not colon or kind not in _PREDICATES:
        return _columns(text, streams)
    make, numbers, form = _PREDICATES[kind]
    column, *values = rest.rsplit(":", numbers)
    if len(values) != numbers or not column or not all(values):
        raise SpecError(f"--on {text!r} is incomplete; write {form}")
    return make(_columns(column, streams), *map(number_or_text, values))


_PREDICATES: dict[str, tuple[Any, int, str]] = {
    "band": (band, 2, "band:COLUMN:LOW:HIGH, such as band:price:-5:5"),
    "overlap": (overlap, 1, "overlap:COLUMN:K, such as overlap:tags:3"),
    "inner": (inner_product, 1, "inner:COLUMN:X, such as inner:words:0.8"),
}


def _columns(text: str, streams: Sequence[str]) -> str | dict[str, str]:
    if names_a_stream(text, streams) and "," in text:
        return by_stream("--on", text, streams)
    names = text.split("=")
    if len(names) == 1 and text:
        return text
    if len(names) != len(streams) or not all(names):
        pair = "=".join(f"{name.upper()}_NAME" for name in streams)
        raise SpecError(
            f"--on {text!r} is not a column; write NAME, or {pair} where the names differ"
        )
    return dict(zip(streams, names, strict=True))


def spec_of(
    on: list[str], time: str, within: str, memory: str | None, policy: str, split_text: str,
    importance: str | None, output_importance: str, index: str, lateness: str, ties: str,
    bad_rows: str, seed: int, streams: tuple[str, ...] = STREAMS, sentinel: float | None = None,
    miniatures: float | None = None, target: str | None = None, comparisons: float | None = None,
) -> JoinSpec:  # fmt: skip
    """The spec that the options of a command ask for; what each may be, the spec checks."""
    return JoinSpec(
        on=[condition(text, streams) for text in on],
        time=by_stream("--time", time, streams),
        within=each(by_stream("--within", within, streams), window),
        streams=streams,
        memory=None if memory is None else whole_or_text(memory),
        policy=policy,
        split=split(split_text, streams),
        importance=None if importance is None else by_stream("--importance", importance, streams),
        output_importance=output_importance,  # type: ignore[arg-type]
        index=by_stream("--index", index, streams),
        cpu=None if comparisons is None else Cpu(comparisons),
        sentinel=sentinel,
        miniatures=miniatures,
        target=target,
        lateness=whole_or_text(lateness),
        ties=ties,  # type: ignore[arg-type]
        bad_rows=bad_rows,  # type: ignore[arg-type]
        seed=seed,
    )
