"""Full dumps: each day's files are the whole table as of then; what they say is the difference to
the dump before.

A key that vanished is a delete, a key whose row is as it was says nothing new. So the dumps of all
days, in any order of loading, give at every time the newest dump before it. Not here: which rows
are usable (`deliveries`), and writing them (`placing`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.engines.lake_session import small_frame
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.counting import recorded_contents
from backfill_assets.intake.declared import DeclaredTotals
from backfill_assets.intake.declared_totals import totals_disagreement
from backfill_assets.intake.deliveries import PLACE, read_deliveries
from backfill_assets.intake.forgotten import forgotten_condition
from backfill_assets.intake.ledger import OF_DUMP, FileRecord, contents_of_dumps, dump_before
from backfill_assets.intake.select import ORIGIN, arrival_at_day_end, selected_names
from backfill_assets.intake.settings import landed_source
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.sections import SourceSettings
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OF_THE_DUMP = frozenset(["op", "seq", "version_ts", "arrival_ts"])
UNCHANGED = "__unchanged"  # a usable row of a key that is in the dump before as it is here
# The day of the dump for which a row is looked at, and whether the row is of the dump before it.
OF, IS_BEFORE = "__dump", "__is_before"
# What a delete has of the row that vanished: whose it is, and where that row stood.
KEPT_OF_VANISHED = frozenset(
    [OF, ORIGIN, PLACE, "sha256", "row_number", "source_file", "due", "seq", "event_key"]
)


def refuse_dump_columns(source: SourceSettings) -> None:
    """Raise SettingsError where `select` of dumps gives a column that follows from the dump's
    day."""
    if source.kind != "snapshot":
        return
    named = sorted(OF_THE_DUMP.intersection(selected_names(source.select)))
    if named:
        raise SettingsError(
            "[source] select in lake.toml",
            f'it gives {", ".join(named)}, and files are dumps (kind = "snapshot")',
            "Nothing was read",
            "Leave it out: the day in a dump's path says when its rows hold, and what vanished",
        )


def dumps_before(
    days: Collection[date], records: Iterable[FileRecord]
) -> tuple[dict[date, date | None], list[FileRecord]]:
    """Per day the day of the dump before it (None for the first, and for days without a dump), and
    the records of those dumps whose days are not among `days`. `records`: the ledger."""
    live = [r for r in records if not r.withdrawn]
    dumps = contents_of_dumps(live)
    pairs, wanted = dict[date, date | None](), set[str]()
    for day in days:
        before = dump_before(day, dumps) if day in dumps else None
        pairs[day] = before
        if before is not None and before not in days:
            wanted |= dumps[before]
    return pairs, [r for r in live if r.sha256 in wanted]


def dump_changes(
    session: "SparkSession",
    judged: "DataFrame",
    pairs: Mapping[date, date | None],
    content: Sequence[str],
) -> "DataFrame":
    """The judged rows of the days of `pairs`, with UNCHANGED, and a delete for each key that is in
    the dump before and not in theirs. `judged` has the rows of both; `content`: the columns that
    make two rows of a key equal.

    Of several usable rows of a key in a dump the one with the greatest `seq` counts. A row that is
    unusable keeps its key from vanishing. A delete bears the place of a row that vanished.
    """
    rows = _paired_with_dumps(session, judged, pairs)
    states = _last_of_keys(rows)
    now, before = states.where(f"NOT {IS_BEFORE}"), states.where(IS_BEFORE)
    own = _marked_unchanged(rows.where(f"NOT {IS_BEFORE}").drop(IS_BEFORE), now, before, content)
    gone = before.join(now.select(OF, "event_key"), [OF, "event_key"], "left_anti").drop(IS_BEFORE)
    return own.unionByName(_as_deletes(gone, own)).drop(OF)


def _paired_with_dumps(
    session: "SparkSession", judged: "DataFrame", pairs: Mapping[date, date | None]
) -> "DataFrame":
    """The rows of each dump twice: as rows of its own day (`OF`), and, with `IS_BEFORE`, as rows of
    the dump before the next one."""
    from pyspark.sql import functions as F

    sides = [(day, day, False) for day in pairs]
    sides += [(day, before, True) for day, before in pairs.items() if before]
    paired = small_frame(session, sides, f"{OF} date, __day date, {IS_BEFORE} boolean")
    return judged.join(F.broadcast(paired), F.col("arrival_date") == F.col("__day")).drop("__day")


def _last_of_keys(rows: "DataFrame") -> "DataFrame":
    """Of each key in each dump the row that counts: a usable one with the greatest `seq`, else any
    unusable one."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keyed = rows.where(~_is_blank(F.col("event_key")))
    of_key = Window.partitionBy(OF, IS_BEFORE, "event_key")
    last = of_key.orderBy(F.col("reason").isNull().desc(), F.desc("seq"), ORIGIN, PLACE)
    numbered = keyed.withColumn("__last", F.row_number().over(last))
    return numbered.where("__last = 1").drop("__last")


def _marked_unchanged(
    own: "DataFrame", now: "DataFrame", before: "DataFrame", content: Sequence[str]
) -> "DataFrame":
    """The rows `own` of a dump with UNCHANGED: whether the row is usable and its key has the same
    `content` in both dumps. `now`, `before`: the rows that count of these dumps."""
    from pyspark.sql import functions as F

    good, facts = F.col("reason").isNull(), F.struct(*content)
    one = now.where(good).select(OF, "event_key", facts.alias("is"))
    other = before.where(good).select(OF, "event_key", facts.alias("was"))
    alike = one.join(other, [OF, "event_key"]).where(F.col("is").eqNullSafe(F.col("was")))
    same = alike.select(OF, "event_key", F.lit(True).alias(UNCHANGED))
    is_unchanged = F.coalesce(UNCHANGED, F.lit(False)) & good
    return own.join(same, [OF, "event_key"], "left").withColumn(UNCHANGED, is_unchanged)


def _as_deletes(gone: "DataFrame", like: "DataFrame") -> "DataFrame":
    """Deletes in place of the rows that vanished, at the end of the dump's day, with the columns of
    `like`: what a delete does not say is NULL."""
    from pyspark.sql import functions as F

    said = {
        "op": F.lit("delete"),
        "arrival_ts": arrival_at_day_end(F.col(OF)),
        "version_ts": arrival_at_day_end(F.col(OF)),
        "arrival_date": F.col(OF),
        "usable_arrival": F.lit(True),
        UNCHANGED: F.lit(False),
    }
    unsaid = {
        field.name: F.lit(None).cast(field.dataType)
        for field in like.schema.fields
        if field.name not in (*KEPT_OF_VANISHED, *said)
    }
    return gone.withColumns({**unsaid, **said})


def unchanged_as_duplicates(rows: "DataFrame", landed: str) -> "DataFrame":
    """The rows with an `outcome`, where those of unchanged keys count as duplicates in place of
    `landed` ones."""
    from pyspark.sql import functions as F

    is_same = F.col(UNCHANGED) & (F.col("outcome") == landed)
    return rows.withColumn(
        "outcome", F.when(is_same, "duplicate").otherwise(F.col("outcome"))
    ).drop(UNCHANGED)


def _is_blank(key: "Column") -> "Column":
    """Whether a key is NULL or blank."""
    from pyspark.sql import functions as F

    return key.isNull() | (F.trim(key) == "")


def _one_if(condition: "Column") -> "Column":
    """1 where the condition holds, else 0: to be summed."""
    from pyspark.sql import functions as F

    return F.when(condition, 1).otherwise(0)


def content_faults(
    lake_session: Session,
    counted: Sequence[FileRecord],
    records: Sequence[FileRecord],
    files: Mapping[str, StoredFile],
    declared: Mapping[str, Sequence[DeclaredTotals]],
) -> dict[str, str]:
    """Per content of `counted` why it is not what its manifests declare, or why its dump is not
    taken for a whole one; dumps that raw may hold, and those whose manifests agree, are. `records`:
    the ledger; `files`: known contents."""
    known = {r.sha256: r for r in (*records, *counted)}
    contents = _Contents(lake_session, known, files)
    declaring = [r.sha256 for r in counted if declared.get(r.sha256)]
    found = {
        f.sha256: totals_disagreement(lake_session.lake, f, declared[f.sha256])
        for f in contents.of(declaring)
    }
    source = lake_session.lake.settings.source
    if source.kind != "snapshot":
        return found
    refuse_dump_columns(source)
    loaded = {r.sha256 for r in records if not r.withdrawn and r.usable_rows}
    judged = [r for r in counted if r.sha256 not in loaded]
    return _with_faults_of_dumps(contents, judged, records, found)


@dataclass(frozen=True)
class _Contents:
    """Contents of the ledger, which are read from the store where they are not at hand."""

    lake_session: Session
    records: Mapping[str, FileRecord]  # by content
    files: Mapping[str, StoredFile]  # at hand, by content

    def of(self, names: Iterable[str]) -> list[StoredFile]:
        """The contents of these names; a name without content and record is left out."""
        wanted = {*names}
        missing = wanted - self.files.keys()
        lost = [record for name, record in self.records.items() if name in missing]
        at_hand = [self.files[name] for name in sorted(wanted & self.files.keys())]
        return [*at_hand, *recorded_contents(self.lake_session, lost)]


def _with_faults_of_dumps(
    contents: _Contents,
    judged: Sequence[FileRecord],
    records: Sequence[FileRecord],
    found: Mapping[str, str],
) -> dict[str, str]:
    """`found`, which says per content why it is not as declared ("": it is), and why the dump of a
    content of `judged` is not taken for a whole one. A dump that is taken is the one before that of
    the next day."""
    paths = {r.path for r in judged}
    dumps = contents_of_dumps(r for r in records if r.path not in paths)
    by_day = defaultdict[date, set[str]](set)
    for record in judged:
        if record.path_day is not None:
            by_day[record.path_day].add(record.sha256)
    faults = {**found}
    for day, mine in sorted(by_day.items()):
        why = _fault_of_dump(contents, day, mine, dumps, faults)
        if why:
            faults |= {name: faults.get(name) or why for name in mine}
        else:
            dumps[day] = dumps.get(day, frozenset()) | mine
    return faults


def _fault_of_dump(
    contents: _Contents,
    day: date,
    mine: Collection[str],
    dumps: Mapping[date, frozenset[str]],
    found: Mapping[str, str],
) -> str:
    """Why the dump of `day`, of which `mine` are new contents, is not taken for a whole one; empty
    if it is: as the first one, and where manifests agree with all of `mine`."""
    if any(found.get(name) for name in mine):
        return f"{OF_DUMP}{day} has a file that is not as declared"
    before = dump_before(day, dumps)
    agrees_with_manifests = all(name in found for name in mine)
    if before is None or agrees_with_manifests:
        return ""
    files = contents.of((*mine, *dumps.get(day, ()), *dumps[before]))
    return _incomplete_dump_reason(contents.lake_session, day, before, mine, files)


def _incomplete_dump_reason(
    lake_session: Session,
    day: date,
    before: date,
    mine: Collection[str],
    files: Sequence[StoredFile],
) -> str:
    """Why the dump of `day`, of which `mine` are new contents, may not be whole; empty if it is.
    `files`: of both."""
    from pyspark.sql import functions as F

    lake = lake_session.lake
    for file in files:
        if file.sha256 in mine and file.refused is not None:
            return f"{OF_DUMP}{day} has a file that cannot be read: {file.refused}"
    rows = read_deliveries(lake_session.spark(), files, lake.settings, forgotten_condition(lake))
    is_new, has_key = F.col("sha256").isin(sorted(mine)), ~_is_blank(F.col("event_key"))
    now = has_key & F.col("arrival_date").eqNullSafe(F.lit(day))
    then = has_key & F.col("arrival_date").eqNullSafe(F.lit(before))
    keys = rows.groupBy("event_key").agg(
        F.sum(_one_if(is_new & ~now)).alias("lost"),
        F.max(_one_if(now)).alias("now"),
        F.max(_one_if(then)).alias("then"),
    )
    vanishes = _one_if((F.col("then") == 1) & (F.col("now") == 0))
    sums = [F.sum("lost"), F.sum("then"), F.sum(vanishes)]
    totals = keys.agg(*(F.coalesce(total, F.lit(0)) for total in sums))
    ((lost, many, vanished),) = totals.collect()
    if lost:
        return (
            f"{OF_DUMP}{day} has {lost} row(s) without a key or of another day: nobody knows what "
            "vanished"
        )
    most = landed_source(lake.settings.source).max_vanished_share
    if vanished <= most * many:
        return ""
    many_more = f"more than max_vanished_share = {most}"
    return f"{OF_DUMP}{day} lacks {vanished} of {many} key(s) of the dump of {before}: {many_more}"
