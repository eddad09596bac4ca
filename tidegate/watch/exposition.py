"""The numbers of a join in Prometheus' text format.

Law: two joins never write the same sample. Every sample names its query, its join and its bucket;
numbers that a stream has by itself are metrics of their own, `tidegate_stream_...`, with the stream
as a label, so that a sum over labels counts nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

# Numbers that describe now instead of counting since the beginning, and their highest values.
GAUGES = (
    "alive", "memory_rows", "memory_bytes", "memory_budget", "state_bytes", "state_pushes",
    "recall", "importance_recall", "sentinel", "cpu_fraction", "skipped_results_estimate",
    "target", "miniature_rows", "miniature_share", "race_rows",
)  # fmt: skip
PEAKS = ("memory_rows_peak", "memory_bytes_peak")

# What each number says. A name that is not here is one reason for which rows were rejected.
HELP: dict[str, str] = {
    "rows_read": "Rows read from the sources, each counted once.",
    "rows_in": "Rows that reached a bucket; in a grid join each of a row's copies.",
    "rows_out": "Rows of the result.",
    "importance_out": "Importance of the rows of the result, summed.",
    "alive": "Rows that are retained now.",
    "expired": "Rows that were retained until their window had passed.",
    "evicted": "Rows that were retained and then shed to stay inside the budget.",
    "refused": "Rows that were shed at their arrival to stay inside the budget.",
    "too_late": "Rows that came after the watermark had passed them.",
    "rejected": "Rows that cannot be joined, such as those without a time.",
    "rejected_ahead": "Rows rejected because their time is too far ahead.",
    "comparisons": "Candidates that were compared.",
    "skipped_comparisons": "Candidates that the CPU budget left out.",
    "skipped_results_estimate": "Results expected among the candidates that were left out.",
    "cpu_fraction": "The share of all comparisons that the CPU budget asks for now.",
    "visits": "Steps inside the indexes.",
    "updates": "Changes of the indexes.",
    "memory_rows": "Rows in memory now.",
    "memory_rows_peak": "The most rows that were ever in memory.",
    "memory_bytes": "Bytes in memory now.",
    "memory_bytes_peak": "The most bytes that were ever in memory.",
    "memory_budget": "Tuples or bytes that the join may hold now, where a pool says so.",
    "state_bytes": "Bytes of the stored state: snapshot and log.",
    "state_pushes": "Micro-batches in the log of the stored state.",
    "engine_builds": "Engines that were rebuilt from the stored state.",
    "seconds_pack": "Seconds spent packing rows.",
    "seconds_decode": "Seconds spent reading packed rows.",
    "seconds_engine": "Seconds spent joining.",
    "seconds_profile": "Seconds spent observing recall, in a pool.",
    "seconds_state": "Seconds spent on the stored state.",
    "seconds_deliver": "Seconds until Spark had taken the results.",
}
# Of joins with a sentinel, as soon as it knows.
LOSS_HELP = {
    "recall": "Share of the results that the join gave out.",
    "recall_low": "Lower end of the 95 % interval of the recall.",
    "recall_high": "Upper end of the 95 % interval of the recall.",
    "recall_recent": "The recall over the last stretch.",
    "recall_recent_low": "Lower end of its interval.",
    "recall_recent_high": "Upper end of its interval.",
    "importance_recall": "Share of the importance of the results that the join gave out.",
    "importance_recall_low": "Lower end of its interval.",
    "importance_recall_high": "Upper end of its interval.",
    "importance_recall_recent": "The same over the last stretch.",
    "importance_recall_recent_low": "Lower end of its interval.",
    "importance_recall_recent_high": "Upper end of its interval.",
    "sentinel_rows": "Tuples in the sample of the sentinel.",
    "sentinel_rate": "Share of the tuples that the sentinel takes into its sample.",
    "cpu_fraction": "Share of the comparisons that the CPU budget allows.",
    "miniature_rows": "Tuples in the miniatures.",
    "miniature_rows_peak": "The most tuples that were ever in the miniatures.",
    "miniature_share": "Share of the tuples that the miniatures take.",
    "race_rows": "Tuples in whose memory the race of policies is.",
    "race_rows_peak": "The most that it ever was.",
    "race_switches": "How often another policy came into force.",
    "target": "The recall that is to be kept.",
    "target_recall": "The recall under the memory in force, from miniatures and sentinel.",
    "target_memory": "Tuples or bytes that the join may hold now, to keep its target.",
    "target_met": "1 if the target can be met with the memory that is allowed, else 0.",
    "target_missing_by": "By how much the recall misses the target under all of the memory.",
}
# Those that every join has, whatever its streams are called and whatever came.
CPU = ("skipped_comparisons", "skipped_results_estimate", "cpu_fraction")  # under a CPU budget
BASES = tuple(name for name in HELP if name not in CPU)


def help_of(base: str) -> str:
    """What a number says, in a sentence."""
    words = base.removeprefix("rejected_").replace("_", " ")
    rejected = f"Rows rejected: {words}." if base.startswith("rejected_") else f"The {words}."
    return HELP.get(base) or LOSS_HELP.get(base) or rejected


def _is_one_of(name: str, bases: Iterable[str]) -> bool:
    return any(name == base or name.startswith(base + "_") for base in bases)


def is_peak(name: str) -> bool:
    """Whether a number is the highest value that another has had."""
    return _is_one_of(name, PEAKS)


def is_gauge(name: str) -> bool:
    """Whether a number may fall as well as rise."""
    return _is_one_of(name, GAUGES) and not is_peak(name)


def exposed(
    query: str,
    join: str,
    streams: Sequence[str],
    buckets: Mapping[int | str, Mapping[str, float]] | Mapping[int, Mapping[str, float]],
) -> str:
    """Write the numbers of a join; no text where there are none yet."""
    names = sorted({name for stats in buckets.values() for name in stats})
    families: dict[str, list[tuple[str, str | None]]] = {}
    for name in names:
        base, stream = split_name(name, streams)
        families.setdefault(base if stream is None else f"stream_{base}", []).append((name, stream))
    lines: list[str] = []
    for family in sorted(families):
        lines += _family(family, families[family], {"query": query, "join": join}, buckets)
    return "\n".join(lines) + "\n" if lines else ""


def split_name(name: str, streams: Sequence[str]) -> tuple[str, str | None]:
    """What a number counts, and of which stream; None where it is of all.

    >>> split_name("rows_in_left", ("left", "right")), split_name("rows_in", ("left", "in"))
    (('rows_in', 'left'), ('rows_in', None))
    """
    for stream in streams:
        base = name.removesuffix(f"_{stream}")
        if base != name and base in HELP:
            return base, stream
    return name, None


def _family(
    family: str,
    members: Sequence[tuple[str, str | None]],
    labels: Mapping[str, str],
    buckets: Mapping[int | str, Mapping[str, float]] | Mapping[int, Mapping[str, float]],
) -> Iterator[str]:
    """The HELP and TYPE lines of one metric, then its samples."""
    base = family.removeprefix("stream_") if members[0][1] is not None else family
    counts = not (is_gauge(base) or is_peak(base))
    metric = "tidegate_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in family)
    metric += "_total" if counts else ""
    yield f"# HELP {metric} {_escaped(help_of(base), quotes=False)}"
    yield f"# TYPE {metric} {'counter' if counts else 'gauge'}"
    for bucket, stats in buckets.items():
        for name, stream in members:
            if name in stats:
                all_labels = {**labels, "bucket": str(bucket)}
                if stream is not None:
                    all_labels["stream"] = stream
                shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in all_labels.items())
                yield f"{metric}{{{shown}}} {stats[name]:.17g}"


def _escaped(text: str, quotes: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
