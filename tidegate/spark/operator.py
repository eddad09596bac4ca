"""`window_join`: the join as a Spark operator, over streams or over tables.

Law: it stands where `df1.join(df2, ...)` stood. The flow, in both cases: rows are packed per bucket
(`packing`), shuffled as a few large rows, joined by one engine per bucket (`processor`), and handed
to Spark (`delivery`). Nothing here reaches into the JVM, so it also runs over Spark Connect.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from tidegate.binding.result_schema import result_schema
from tidegate.columns.spark_keys import quoted
from tidegate.engine import check_supported
from tidegate.loss import ledger as ledgers
from tidegate.loss.folders import absolute
from tidegate.spark.batch import BatchJoin
from tidegate.spark.code import ship_code
from tidegate.spark.delivery import Delivery
from tidegate.spark.fingerprint import describe
from tidegate.spark.inputs import WATERMARK_KEY, Inputs, key_columns, read_inputs
from tidegate.spark.packing import PACKED_SPARK, Packer
from tidegate.spark.pool import Pool
from tidegate.spark.pool_book import PoolShare
from tidegate.spark.processor import JoinPlan
from tidegate.spark.reports import BatchReports, observed, remember_batch
from tidegate.spark.routing import Routing, bucket_spec, steers
from tidegate.spark.session import SHUFFLE_KEY, check_streaming
from tidegate.spark.shipping import shipped
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.join_spec import NO_SUCH_OPTION
from tidegate.spec.options import field_names, option_hint

LOG = logging.getLogger("tidegate")


def window_join(
    *sources: Any,
    spec: JoinSpec | None = None,
    name: str | None = None,
    result_time: str | None = None,
    max_ahead: Any = None,
    buckets: int | None = None,
    ledger: str | Path | None = None,
    **options: Any,
) -> DataFrame:
    """Join Spark DataFrames within windows of time, exactly or inside a budget.

    Parameters
    ----------
    sources
        A dict of DataFrames by stream name, or the DataFrames in stream order; then, optionally,
        the spec. All are streaming or none is. A streaming source needs a watermark on its time
        column, or the spec a `lateness`, which then becomes the watermark's delay.
    spec, options
        A `JoinSpec`, or its fields as keywords (`on=`, `time=`, `within=`, `memory=`, ...).
        `memory` may be a `tidegate.Pool` that several streaming joins share, also beside a spec.
    name
        What the join is called in the metrics, where a query has several.
    result_time
        Adds a column of this name with the later of the rows' times. It carries the watermark, so
        a windowed aggregation downstream can group by it; the streams' own times cannot, since a
        result may hold a row much older than the watermark.
    max_ahead
        Rejects rows whose time is further ahead of the wall clock than this duration, before they
        reach the watermark: one row from the far future would move it past everything.
    buckets
        The most buckets that rows are spread over. None takes one per shuffle partition, and fewer
        where the budget would leave too little to each, which the metrics then say.
    ledger
        A folder to which every row is written when it leaves the join, with the reason;
        `tidegate repair` computes from it exactly the results that were lost. It must be one that
        all workers can write to: a local path on one machine, else a shared one or an address such
        as `s3://bucket/folder`. Each query needs one of its own, and keeps it when it restarts.
        Rows that `max_ahead` rejects are not in it.

    Returns
    -------
    DataFrame
        The streams' columns in order (a clash gets the stream's name as suffix), `_importance`,
        `_weight` under a sampling policy, and `result_time` where asked. A streaming result is for
        the output mode append. Where `foreachBatch` reads it more than once, persist it first:
        every reading joins again.

    Example
    -------
    >>> import tidegate as tg
    >>> clicked = tg.window_join(  # doctest: +SKIP
    ...     impressions.withWatermark("ts", "1 minute"), clicks.withWatermark("ts", "1 minute"),
    ...     on="ad_id", time="ts", within="10 minutes", memory="200 MB")
    """
    pool = options.pop("memory") if isinstance(options.get("memory"), Pool) else None
    frames, wish = _read_arguments(sources, spec, options)
    if pool is not None:
        wish = pool.spec(wish)
    inputs = read_inputs(frames, wish, max_ahead)
    if pool is not None and not inputs.streaming:
        raise TidegateError(
            "a pool divides its memory while queries run, and these DataFrames are not streaming; "
            "give the join a memory of its own"
        )
    schema = spark_schema(inputs)
    if result_time is not None and result_time in schema.names:
        raise TidegateError(
            f"result_time {result_time!r} is already a column of the result; give another name"
        )
    routing = Routing.of(wish, buckets)
    _check_budget(inputs, routing)
    if ledger is not None:
        _check_ledger(inputs, pool, ledger)
    # The name of an unnamed join: random, since one query may have several.
    called = name or f"#{uuid.uuid4().hex}"
    if inputs.streaming:
        share = None if pool is None else pool.take_in(name, inputs.frames[0].sparkSession)
        joined = _streaming(inputs, schema, routing, called, share, ledger)
        return _with_result_time(joined, inputs, schema, result_time)
    reports = BatchReports(called)
    joined = _batch(inputs, schema, routing, reports, ledger)
    return remember_batch(_with_result_time(joined, inputs, schema, result_time), reports)


def _check_budget(inputs: Inputs, routing: Routing) -> None:
    """Say early what the workers and the metrics will say; a restarted query may have other
    partitions."""
    partitions = inputs.frames[0].sparkSession.conf.get(SHUFFLE_KEY, "200")
    layout = routing.layout(int(partitions or "200"))
    for sentence in layout.warnings(inputs.spec):
        LOG.warning("%s", sentence)
    steered = steers(inputs.spec)
    if steered:
        check_supported(inputs.spec)
    smallest = bucket_spec(inputs.spec, layout.buckets - 1, layout.buckets)
    if inputs.spec.sentinel is not None:
        check_supported(smallest)
    if inputs.spec.memory_bytes is not None or steered:
        from tidegate.engine import JoinEngine  # It knows what an engine needs at least.

        try:
            JoinEngine(smallest, inputs.arrow_schemas)
        except TidegateError as error:
            if layout.buckets == 1:
                raise
            raise TidegateError(
                f"memory {inputs.spec.memory!r} in {layout.buckets} buckets: {error}"
            ) from error


def _check_ledger(inputs: Inputs, pool: Pool | None, ledger: Any) -> None:
    """Say early what the workers would say."""
    if pool is not None:
        raise TidegateError(
            "ledger is given, and memory is a pool, whose joins change their budgets; give the "
            "join a memory of its own"
        )
    ledgers.check(inputs.spec, ledger)
    inputs.spec.to_json()  # it is written beside the rows
    ledgers.check_columns([inputs.arrow_schemas[name] for name in inputs.spec.streams])


def _read_arguments(
    sources: tuple[Any, ...], spec: JoinSpec | None, options: dict[str, Any]
) -> tuple[Mapping[str, Any], JoinSpec]:
    if sources and isinstance(sources[-1], JoinSpec) and spec is None:
        sources, spec = sources[:-1], sources[-1]
    if spec is not None and options:
        raise TidegateError(
            f"window_join got a spec and also {', '.join(options)}; give spec.replace(...) or only "
            "keywords"
        )
    named = len(sources) == 1 and isinstance(sources[0], Mapping)
    if named and spec is None:
        options.setdefault("streams", tuple(sources[0]))
    if spec is None:
        _check_options(options)
        missing = [field for field in ("on", "time", "within") if field not in options]
        if missing:
            raise TidegateError(
                f"window_join lacks {', '.join(missing)}; give a spec, or on=, time= and within="
            )
        spec = JoinSpec(**options)
    if named:
        return sources[0], spec
    if len(sources) != len(spec.streams):
        raise TidegateError(
            f"window_join got {len(sources)} DataFrames for the streams "
            f"{', '.join(map(repr, spec.streams))}; give one for each, or a dict by stream"
        )
    return dict(zip(spec.streams, sources, strict=True)), spec


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse unknown keywords; those of `window_join` itself are among the near ones."""
    own = [name for name in inspect.signature(window_join).parameters if name != "options"]
    known = [*field_names(JoinSpec), *own[1:]]
    for name in options:
        if name not in known:
            hint = option_hint(name, known, NO_SUCH_OPTION)
            raise TidegateError(f"window_join has no option {name!r}; {hint}")


def spark_schema(inputs: Inputs) -> T.StructType:
    """The columns of the result: the binding names them, the streams give their types."""
    names = result_schema(inputs.spec, inputs.arrow_schemas).names
    kinds = [field.dataType for schema in inputs.schemas for field in schema.fields]
    kinds += [T.DoubleType()] * (len(names) - len(kinds))
    return T.StructType(
        [T.StructField(name, kind, True) for name, kind in zip(names, kinds, strict=True)]
    )


def _packed(inputs: Inputs, routing: Routing) -> DataFrame:
    """All streams, packed, in one frame."""
    packed = []
    for stream, name in enumerate(inputs.spec.streams):
        packer = Packer(
            stream=stream,
            routing=routing,
            schema=inputs.arrow_schemas[name],
            time_column=inputs.spec.time_columns[stream],
            key_columns=key_columns(inputs.spec, stream),
            heartbeat=inputs.streaming,
        )
        packed.append(inputs.prepared(stream).mapInArrow(packer.pack, PACKED_SPARK))
    return functools.reduce(lambda above, below: above.union(below), packed)


def _streaming(
    inputs: Inputs,
    schema: T.StructType,
    routing: Routing,
    name: str,
    share: PoolShare | None,
    ledger: str | Path | None,
) -> DataFrame:
    spec = inputs.spec
    check_streaming(inputs.frames[0].sparkSession)
    operator, delivery = uuid.uuid4().hex, Delivery.of(schema)
    arrow = inputs.arrow_schemas
    plan = JoinPlan(
        spec=spec,
        schemas=arrow,
        routing=routing,
        clocked=inputs.delay is not None,
        operator=operator,
        origin=describe(
            spec,
            [arrow[stream] for stream in spec.streams],
            in_pool=share is not None,
            has_ledger=ledger is not None,
        ),
        delivery=delivery,
        code=ship_code(inputs.frames[0].sparkSession),
        share=share,
        fuel=_fuel(spec),
        ledger=None if ledger is None else absolute(ledger),
    )
    joined = (
        _packed(inputs, routing)
        .groupBy("label")
        .transformWithStateInPandas(
            shipped(plan),
            outputStructType=delivery.carried,
            outputMode="Append",
            # Without a watermark there is no event time to ask for.
            timeMode="EventTime" if plan.clocked else "None",
        )
    )
    return delivery.rows(observed(joined, name))


def _fuel(spec: JoinSpec) -> float | None:
    """What a share of a core of this machine may compare; None where none was asked for."""
    if spec.cpu is None or spec.cpu.share_of_core is None:
        return None
    from tidegate.engine.throttling import fuel_of  # It may have to measure.

    return fuel_of(spec)


def _measured(spec: JoinSpec) -> JoinSpec:
    """The same join, a share of a core in comparisons."""
    fuel = _fuel(spec)
    if fuel is None or spec.cpu is None:
        return spec
    counted = dataclasses.replace(spec.cpu, share_of_core=None, comparisons_per_second=fuel)
    return spec.replace(cpu=counted)


def _batch(
    inputs: Inputs,
    schema: T.StructType,
    routing: Routing,
    reports: BatchReports,
    ledger: str | Path | None,
) -> DataFrame:
    join = BatchJoin(
        _measured(inputs.spec),
        inputs.arrow_schemas,
        routing,
        code=ship_code(inputs.frames[0].sparkSession),
        ledger=None if ledger is None else absolute(ledger),
    )
    # Arrow carries nested columns too, so results never travel as blobs here.
    delivery = Delivery(schema, direct=True)

    # Spark counts the arguments of what it is given, and would count `self`. Their types tell it
    # that results come one by one.
    def run(
        key: tuple[pa.Scalar, ...], packed: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        return join.run(key, packed)

    joined = _packed(inputs, routing).groupBy("label").applyInArrow(run, delivery.carried)
    return delivery.rows(observed(joined, reports.observation))


def _with_result_time(
    joined: DataFrame, inputs: Inputs, schema: T.StructType, name: str | None
) -> DataFrame:
    """Add the later of the rows' times, marked as the column that follows the watermark.

    `withWatermark` would be refused after a stateful operator, and would move the watermark by
    results instead of by rows; the mark alone lets the operators downstream use the one there is.
    """
    if name is None:
        return joined
    columns, begin = [], 0
    for stream, source in enumerate(inputs.schemas):
        position = source.names.index(inputs.spec.time_columns[stream])
        columns.append(quoted(schema.names[begin + position]))
        begin += len(source.names)
    timed = joined.withColumn(name, F.greatest(*columns))
    if inputs.delay is None:
        return timed
    return timed.withMetadata(name, {WATERMARK_KEY: inputs.delay})
