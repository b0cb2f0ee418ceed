"""Landed rows as deliveries: read from the content store, mapped by `[source] select`, each with
why it is unusable.

Not here: parsing (`intake.ingest`), applying `select` (`intake.mapping`) and writing (`raw`).
Every row of every file occurs exactly once. Columns: `sha256`, `row_number` (1-based), `text` and
`reason` (NULL for a usable row), the columns of the delivery contract, `arrival_date` (NULL without
a usable arrival time and home day) and `usable_arrival`.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from backfill_assets.engines.lake_session import small_frame
from backfill_assets.engines.session import session_engine, set_confs
from backfill_assets.intake.batches import FRACTIONAL, folded_name
from backfill_assets.intake.casting import NO_TEXT, UnfitSelect
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.forgotten import FORGOTTEN_REASON
from backfill_assets.intake.key_texts import refuse_varying_keys
from backfill_assets.intake.landed_rows import (
    MICROSECONDS_A_DAY,
    FileGroup,
    files_by_kind,
    landed_rows,
    row_text,
    union_of_frames,
)
from backfill_assets.intake.mapping import (
    RAISED,
    analysis_errors,
    delivery_types,
    mapped_rows,
    select_refusal,
    session_settings,
)
from backfill_assets.intake.paths import key_day_text
from backfill_assets.intake.select import (
    FILE,
    ORIGIN,
    OWN_COLUMNS,
    PATH_DAY,
    ROW,
    columns_by_name,
    reads_all_columns,
    selected_clocks,
    selected_names,
    selected_words,
)
from backfill_assets.intake.settings import landed_source
from backfill_assets.kernel.core.column_types import DECIMAL, ColumnType
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.ledgers import QUARANTINE
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD, PayloadColumn, log_columns
from backfill_assets.kernel.tables.sections import SourceSettings
from backfill_assets.kernel.tables.settings import LakeSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    Rule = tuple[Column, Column | str]  # when a row is unusable, and why

NOT_SEEN = re.compile("PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException")  # an engine's words
PLACE = "__landed_row"  # the number of the row in the file as it landed
FIRST_SCAN_SLACK_DAYS = 1  # clocks of senders may run ahead of ours by a day, not more
TEXT_CHARS = 8192  # of an unusable row's text; the landed file keeps the rest
NUMBERS = ("INT", "BIGINT", "DOUBLE", DECIMAL)
# Beyond it neither JSON nor a double is exact: a sentinel or a sender's overflow, no amount.
GREATEST_VALUE = 1 << 53
NO_ARRIVAL = (
    "the path names no day such as dt=2024-03-01/ (or several), and select gives no arrival_ts"
)
# What Python, Delta's statistics and readers of tables have dates for.
CALENDAR = (
    "0001-01-01",
    "9999-12-31",
)


def read_deliveries(
    session: "SparkSession",
    files: Sequence[StoredFile],
    settings: LakeSettings,
    forgotten_sql: str = "",
) -> "DataFrame":
    """Read every row of the files as a delivery with its reason; a file that `select` does not fit
    is one unusable row. Of rows for which `forgotten_sql` holds (`intake.forgotten`; empty: none)
    only their number and reason are kept.

    Raises SettingsError where `select` can fit no file at all.
    """
    source = settings.source
    _refuse_unlisted_numbers(source)
    set_confs(session, session_settings(source.select, source.payload_columns))
    kinds: dict[tuple[object, ...], list[StoredFile]] = defaultdict(list)
    refused = dict[str, str]()
    for file in files:
        if file.refused is None:
            kinds[file.kind].append(file)
        else:
            refused[file.sha256] = file.refused
    frames = []
    selected = None if reads_all_columns(source.select) else selected_words(source.select)
    for alike in files_by_kind(session, [files for _, files in sorted(kinds.items())], selected):
        try:
            frames.append(_mapped_deliveries(session, alike, settings))
        except UnfitSelect as error:
            refused |= dict.fromkeys((f.sha256 for f in alike.files), str(error))
    if refused:
        frames.append(_refused_rows(session, refused, source))
    rows = _with_scans(session, union_of_frames(session, frames), files)
    judged = _with_reasons(rows, settings)
    return _without_forgotten(judged, forgotten_sql) if forgotten_sql else judged


def _with_scans(
    session: "SparkSession", rows: "DataFrame", files: Sequence[StoredFile]
) -> "DataFrame":
    """Add to each row what the scans of its content say: `latest_arrival`, and `home_day`. Contents
    of one scan need no join, which took a tenth of the CPU of reading them."""
    from pyspark.sql import functions as F

    slack = timedelta(days=FIRST_SCAN_SLACK_DAYS)
    scans = {f.sha256: (f.first_scan and f.first_scan + slack, f.home_day) for f in files}
    if len({*scans.values()}) == 1:
        ((latest, home),) = {*scans.values()}
        moment = None if latest is None else latest.isoformat()
        return rows.withColumns(
            {
                "latest_arrival": F.lit(moment).cast("timestamp"),
                "home_day": F.lit(home).cast("date"),
            }
        )
    schema = "sha256 string, latest_arrival timestamp, home_day date"
    scanned = small_frame(session, [(name, *scan) for name, scan in scans.items()], schema)
    return rows.join(F.broadcast(scanned), "sha256")


def _refused_rows(
    session: "SparkSession", refused: Mapping[str, str], source: SourceSettings
) -> "DataFrame":
    """The one unusable row, numbered 0, of each content that is not read. `refused`: why, by
    content."""
    from pyspark.sql import functions as F

    whole = [(sha256, 0, "", why) for sha256, why in refused.items()]
    rows = small_frame(
        session, whole, "sha256 string, row_number bigint, text string, reason string"
    )
    rows = rows.withColumns({ORIGIN: F.col("sha256"), PLACE: F.col("row_number")})
    types = {name: kind.spark for name, kind in delivery_types(source.payload_columns).items()}
    types |= _log_columns(source)
    empty = {name: F.lit(None).cast(kind) for name, kind in types.items()}
    return rows.withColumns({**empty, RAISED: F.lit("")})


def _without_forgotten(judged: "DataFrame", forgotten_sql: str) -> "DataFrame":
    """The rows, with nothing but the reason of those for which `forgotten_sql` holds."""
    from pyspark.sql import functions as F

    is_forgotten = F.expr(forgotten_sql)
    reason = F.when(is_forgotten, F.lit(FORGOTTEN_REASON)).otherwise(F.col("reason"))
    # Not NULL: a row without a text is written out.
    text = F.when(is_forgotten, F.lit("")).otherwise(F.col("text"))
    return judged.withColumns({"reason": reason, "text": text})


def _log_columns(source: SourceSettings) -> dict[str, str]:
    """What a row of a table has beside a delivery, with Spark's types; nothing of a file's."""
    return log_columns(selected_clocks(source.select)) if source.table else {}


def _refuse_unlisted_numbers(source: SourceSettings) -> None:
    """Raise SettingsError where a number is made of a column that `numbers` of a dialect lacks:
    1.234 would be read as a fraction there."""
    dialect = landed_source(source).dialect
    if not dialect.has_own_numbers:
        return
    types = delivery_types(source.payload_columns)
    numbers = {name.lower() for name, kind in types.items() if kind.kind in NUMBERS}
    listed = {*map(folded_name, dialect.numbers), *OWN_COLUMNS}
    for name, read in columns_by_name(source.select).items():
        is_of_one_column = len({*read}) == 1
        if name in numbers and is_of_one_column and folded_name(read[0]) not in listed:
            raise SettingsError(
                "[source] dialect in lake.toml",
                f"{name} is a number made of {read[0]}, which its `numbers` lacks",
                "Nothing was read",
                f"Add {read[0]} to numbers, so that decimal and thousands hold for it",
            )


def _mapped_deliveries(
    session: "SparkSession", alike: FileGroup, settings: LakeSettings
) -> "DataFrame":
    """The rows of files that are read together, with the delivery columns cast and a first
    reason."""
    from pyspark.sql import functions as F

    try:
        kept = landed_rows(session, alike)
    except analysis_errors() as error:
        if NOT_SEEN.search(str(error)):  # which is no fault of the file
            raise
        raise select_refusal(error) from None
    kept = _with_places(session, kept, alike.files)
    select, payload = settings.source.select, settings.source.payload_columns
    first, engine = alike.files[0], session_engine(session)
    if first.commit is None:  # the type of a table's column is the table's, and not a file's
        numbers = set[str]()
        for file in alike.files:
            numbers |= {name for name, kind in file.types.items() if kind == FRACTIONAL}
        refuse_varying_keys(select, dict(kept.dtypes), numbers)
    chosen = mapped_rows(kept, select, first.absent_is_null, first.inexact, payload, engine)
    text = F.substring(F.coalesce("__text", "__json"), 1, TEXT_CHARS)
    return chosen.select(
        F.col("__sha256").alias("sha256"),
        F.col("__number").cast("bigint").alias("row_number"),
        ORIGIN,
        F.col(ROW).alias(PLACE),
        text.alias("text"),
        F.coalesce("__reason", "__lacking").alias("reason"),
        *delivery_types(payload),
        *_log_columns(settings.source),
        RAISED,
    )


def _with_places(
    session: "SparkSession", kept: "DataFrame", files: Sequence[StoredFile]
) -> "DataFrame":
    """Add the path of the file and the number of the row in it, which `select` may name, as it
    landed."""
    from pyspark.sql import functions as F

    number = F.col("__number").cast("bigint")
    numbered = kept.withColumns({ROW: number, ORIGIN: F.col("__sha256")})
    spans = list[tuple[str, str, int, int, int]]()
    for file in files:
        if file.origin:
            spans += [(file.sha256, *span) for span in _row_spans(*file.origin)]
    if spans:
        numbered = _as_landed(session, numbered, spans)
    if not any(f.path for f in files):
        return numbered
    places = [(f.sha256, f.path, f.path_day) for f in files]
    paths = small_frame(session, places, f"__sha256 string, {FILE} string, {PATH_DAY} date")
    return numbered.drop(FILE).join(F.broadcast(paths), "__sha256")


def _as_landed(
    session: "SparkSession", numbered: "DataFrame", spans: Sequence[tuple[str, str, int, int, int]]
) -> "DataFrame":
    """The rows with content and number as they landed, before an erasure took other rows out.
    `spans`: of contents of today, as `_row_spans` gives them."""
    from pyspark.sql import functions as F

    schema = "__sha256 string, __first_content string, __from bigint, __to bigint, __lost bigint"
    of_lines = F.broadcast(small_frame(session, spans, schema))
    number = F.col("__number").cast("bigint")
    is_within = number.between(F.col("__from"), F.col("__to"))
    joined = numbered.withColumn("__at", number).join(of_lines, ["__sha256"], "left")
    moved = joined.where(F.col("__from").isNull() | is_within).withColumns(
        {
            ROW: F.col("__at") + F.coalesce("__lost", F.lit(0)),
            ORIGIN: F.coalesce("__first_content", "__sha256"),
        }
    )
    return moved.drop("__first_content", "__from", "__to", "__lost", "__at")


def _row_spans(first_content: str, lost: Sequence[int]) -> list[tuple[str, int, int, int]]:
    """Runs of today's row numbers (both ends included), each with the number of rows before it that
    are gone."""
    # Before each lost record a run ends; the last one has no end.
    ends = [number - 1 - before for before, number in enumerate(lost)] + [GREATEST_VALUE]
    spans = [(first + 1, last, before) for before, (first, last) in enumerate(pairwise([0, *ends]))]
    return [(first_content, *span) for span in spans if span[0] <= span[1]]


def _with_reasons(frame: "DataFrame", settings: LakeSettings) -> "DataFrame":
    """Add every row's reason and arrival day. A delete needs no event time, entity, value or
    flag."""
    from pyspark.sql import functions as F

    start = F.lit(settings.start_date)
    too_new = F.col("arrival_ts") > F.col("latest_arrival")
    far = _times_beyond_calendar(settings.source.payload_columns)
    # Some engines end the query over a day that is none of the calendar.
    arrived = _day_of(F.when(~far["arrival_ts"], F.col("arrival_ts")))
    happened = _day_of(F.when(~far["event_ts"], F.col("event_ts")))
    unusable = F.col("reason").isNotNull() | arrived.isNull() | (arrived < start) | too_new
    is_blank = F.col("event_key").isNull() | (F.trim("event_key") == "")
    rules: list[Rule] = [
        (F.col(RAISED) != "", F.col(RAISED)),
        *((beyond, f"{name} lies beyond {' .. '.join(CALENDAR)}") for name, beyond in far.items()),
        *_arrival_rules(settings, arrived, too_new),
        *_rules_of_every_row(is_blank),
        *_upsert_rules(settings, happened),
        *_key_day_rules(settings, ~is_blank, arrived, happened),
    ]
    broken = F.concat_ws("; ", *(F.when(condition, F.lit(text)) for condition, text in rules))
    reason = F.coalesce(F.col("reason"), F.when(broken != "", broken))
    day = F.when(unusable, F.col("home_day")).otherwise(arrived)
    placed = frame.withColumns({"arrival_date": day, "usable_arrival": ~unusable})
    judged = placed.withColumn("reason", reason)
    text = F.when(F.col("reason").isNotNull(), F.col("text"))
    return judged.withColumn("text", text).drop("home_day", "latest_arrival", RAISED)


def _day_of(moment: "Column") -> "Column":
    """The day in UTC of a moment within the calendar, by whole numbers: Spark's cast to a date took
    a fifth of the CPU of reading the rows."""
    from pyspark.sql import functions as F

    micros = F.unix_micros(moment)
    begun = micros - F.pmod(micros, F.lit(MICROSECONDS_A_DAY))
    return F.date_from_unix_date(
        F.call_function("div", begun, F.lit(MICROSECONDS_A_DAY)).cast("int")
    )


def _arrival_rules(settings: LakeSettings, arrived: "Column", too_new: "Column") -> "list[Rule]":
    """When the arrival time of a row is unusable, and why. `arrived`: its day."""
    from pyspark.sql import functions as F

    is_selected = "arrival_ts" in selected_names(settings.source.select)
    absent = "arrival_ts is NULL or no timestamp" if is_selected else NO_ARRIVAL
    before = arrived < F.lit(settings.start_date)
    return [
        (F.col("arrival_ts").isNull(), absent),
        (before, "arrival_ts lies before the lake's first day"),
        (too_new, "arrival_ts is later than the file's first scan plus one day"),
    ]


def _rules_of_every_row(is_blank: "Column") -> "list[Rule]":
    """When an upsert or a delete is unusable, and why. `is_blank`: whether its key is."""
    from pyspark.sql import functions as F

    op, is_text = F.col("op"), ~F.col(RAISED).contains(NO_TEXT)
    return [
        (F.col("seq").isNull(), "seq is NULL or no whole number of 64 bits"),
        (F.col("version_ts").isNull(), "version_ts is NULL or no timestamp"),
        (is_blank & is_text, "event_key is NULL or blank"),
        (op.isNull() | ~op.isin("upsert", "delete"), "op is neither upsert nor delete"),
    ]


def _upsert_rules(settings: LakeSettings, happened: "Column") -> "list[Rule]":
    """When an upsert is unusable by its event time (`happened`: its day) or its payload, and
    why."""
    from pyspark.sql import functions as F

    days = settings.lateness.early_tolerance_days
    # NULL where the times are so far apart that a plain difference would end the whole query.
    ahead = F.try_subtract(F.unix_micros("event_ts"), F.unix_micros("arrival_ts"))
    rules: list[Rule] = [(F.col("event_ts").isNull(), "event_ts is NULL or no timestamp")]
    for column in settings.source.payload_columns:
        rules += _payload_rules(column)
    rules += [
        (happened < F.lit(settings.start_date), "the event date lies before the lake's first day"),
        (
            ahead > F.lit(days * MICROSECONDS_A_DAY),
            f"the event lies more than {days} day(s) after its arrival",
        ),
    ]
    upsert = F.col("op") == "upsert"
    return [(upsert & is_broken, text) for is_broken, text in rules]


def _key_day_rules(
    settings: LakeSettings, has_key: "Column", arrived: "Column", happened: "Column"
) -> "list[Rule]":
    """When a row breaks the promise `key_day`, and why. A delete is applied on the day of its key:
    one that no upsert can have arrived before is set aside, too."""
    from pyspark.sql import functions as F

    template = landed_source(settings.source).key_day
    early = settings.lateness.early_tolerance_days
    if template is None:
        return []
    upsert = F.col("op") == "upsert"
    text = F.expr(key_day_text(template))
    day = text.try_cast("date")
    names_one = F.coalesce(day.cast("string") == text, F.lit(False))
    promise = f'key_day = "{template}"'
    return [
        (has_key & ~names_one, f"event_key names no day, and {promise}"),
        (
            upsert & names_one & (day != happened),
            f"the day of event_ts is another than its key's, and {promise}",
        ),
        (
            ~upsert & names_one & (F.datediff(day, arrived) > early),
            f"the day of its key lies more than {early} day(s) after its arrival",
        ),
    ]


def _times_beyond_calendar(payload: Sequence[PayloadColumn]) -> "dict[str, Column]":
    """For each column of times and dates, a condition: the value lies beyond the calendar."""
    from pyspark.sql import functions as F

    far: dict[str, Column] = {}
    for name, kind in delivery_types(payload).items():
        of_values = kind.element or kind
        if of_values.kind in ("DATE", "TIMESTAMP"):
            far[name] = _is_beyond_calendar(F.col(name), kind)
    return far


def _is_beyond_calendar(value: "Column", kind: ColumnType) -> "Column":
    """Whether a date or time, or one of an array of them, lies beyond the calendar (UTC, both ends
    included)."""
    from pyspark.sql import functions as F

    if (element := kind.element) is not None:
        return F.exists(value, lambda one: _is_beyond_calendar(one, element))
    first, last = CALENDAR
    ends = (first, f"{last} 23:59:59.999999") if kind.kind == "TIMESTAMP" else CALENDAR
    return ~value.between(*(F.lit(end).cast(kind.spark) for end in ends))


def _payload_rules(column: PayloadColumn) -> "list[Rule]":
    """When an upsert's value of a payload column is unusable (undeclared ones have bounds), and
    why."""
    from pyspark.sql import functions as F

    value = F.col(column.name)
    if column.name == "value" and column in DEFAULT_PAYLOAD:
        beyond = ~value.between(-GREATEST_VALUE, GREATEST_VALUE)
        return [
            (value.isNull(), "value is NULL or no whole number of 64 bits"),
            (beyond, f"value lies beyond {GREATEST_VALUE} (2^53)"),
        ]
    if column.name == "flag" and column in DEFAULT_PAYLOAD:
        return [(value.isNull() | ~value.isin(0, 1), "flag is neither 0 nor 1")]
    if column.nullable:
        return []
    return [(value.isNull(), f"{column.name} is NULL or no {column.type}")]


def split_day_rows(
    judged: "DataFrame", too_late: "Column", landed: str, columns: Sequence[str]
) -> "DataFrame":
    """Add `outcome` to the rows of whole arrival days: the table they go to (the `landed` one,
    quarantine), else `duplicate`, `too late`, `not due`. `columns` are a delivery's.

    `seq` is unique within its arrival day: of rows with one seq the first by (content, row number),
    as landed, stays that is not `too_late`; equal rows count as duplicates of it, and others go to
    quarantine. Rows that are `too_late` would be landed otherwise. Rows not `due` (they arrived at
    or after `as_of`) wait.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    content = F.struct(*columns)
    good = F.col("reason").isNull() & F.col("due")
    # A row that was released stays so when its like comes again in a file that was not.
    peers = Window.partitionBy("arrival_date", "seq", good).orderBy(too_late, ORIGIN, PLACE)
    first = F.first(content).over(peers.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    placed = judged.withColumns(
        {"__place": F.row_number().over(peers), "__same": content.eqNullSafe(first)}
    )
    outcome = (
        F.when(~F.col("due"), "not due")
        .when(~good, QUARANTINE)
        .when((F.col("__place") == 1) & too_late, "too late")
        .when(F.col("__place") == 1, landed)
        .when(F.col("__same"), "duplicate")
        .otherwise(QUARANTINE)
    )
    clash = F.lit("another row of the same arrival day has this seq and other content")
    taken = placed.withColumn("outcome", outcome).withColumn(
        "reason", F.when(good & (F.col("outcome") == QUARANTINE), clash).otherwise(F.col("reason"))
    )
    as_text = row_text((f.name, F.col(f.name), f) for f in judged.select(*columns).schema.fields)
    rest = F.when(F.col("outcome") == QUARANTINE, F.coalesce("text", as_text))
    return taken.withColumn("text", rest).drop("__place", "__same")
