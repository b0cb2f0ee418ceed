"""Full dumps: each day's files are the whole table as of then; what they say is the difference to
the dump before.

A key that vanished is a delete, a key whose row is as it was says nothing new. So the dumps of all
days, in any order of loading, give at every time the newest dump before it. Not here: which rows
are usable (`deliveries`), and writing them (`placing`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.engines.lake_session import small_frame
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.counting import contents_of
from backfill_assets.intake.declared import DeclaredTotals
from backfill_assets.intake.declared_totals import disagreement
from backfill_assets.intake.deliveries import PLACE, read_deliveries
from backfill_assets.intake.forgotten import is_forgotten
from backfill_assets.intake.ledger import FileRecord, dump_before, dumps_of
from backfill_assets.intake.select import ORIGIN, arrival_of, names_of
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.scans import OF_DUMP
from backfill_assets.kernel.tables.sections import SourceSettings
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OF_THE_DUMP = frozenset(["op", "seq", "version_ts", "arrival_ts"])
UNCHANGED = "__unchanged"  # a usable row of a key that is in the dump before as it is here
OF, IS_BEFORE = "__dump", "__is_before"


def refuse_what_a_dump_says(source: SourceSettings) -> None:
    """Raise SettingsError where `select` of dumps gives a column that follows from the dump's
    day."""
    if source.kind == "snapshot" and (
        named := sorted(OF_THE_DUMP.intersection(names_of(source.select)))
    ):
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
    dumps = dumps_of(live)
    pairs = {day: dump_before(day, dumps) if day in dumps else None for day in days}
    wanted = {
        content
        for day in pairs.values()
        if day is not None and day not in days
        for content in dumps[day]
    }
    return pairs, [r for r in live if r.sha256 in wanted]


def as_changes(
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
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    sides = [(day, day, False) for day in pairs] + [
        (day, before, True) for day, before in pairs.items() if before
    ]
    paired = small_frame(session, sides, f"{OF} date, __day date, {IS_BEFORE} boolean")
    rows = judged.join(F.broadcast(paired), F.col("arrival_date") == F.col("__day")).drop("__day")
    keyed = rows.where(~_is_blank(F.col("event_key")))
    good = F.col("reason").isNull()
    last = Window.partitionBy(OF, IS_BEFORE, "event_key").orderBy(
        good.desc(), F.desc("seq"), ORIGIN, PLACE
    )
    states = (
        keyed.withColumn("__last", F.row_number().over(last)).where("__last = 1").drop("__last")
    )
    now, before = states.where(f"NOT {IS_BEFORE}"), states.where(IS_BEFORE)
    facts = F.struct(*content)
    one, other = (
        s.where(good).select(OF, "event_key", facts.alias(n))
        for s, n in ((now, "is"), (before, "was"))
    )
    alike = one.join(other, [OF, "event_key"]).where(F.col("is").eqNullSafe(F.col("was")))
    same = alike.select(OF, "event_key", F.lit(True).alias(UNCHANGED))
    own = (
        rows.where(f"NOT {IS_BEFORE}")
        .drop(IS_BEFORE)
        .join(same, [OF, "event_key"], "left")
        .withColumn(UNCHANGED, F.coalesce(UNCHANGED, F.lit(False)) & good)
    )
    gone = before.join(now.select(OF, "event_key"), [OF, "event_key"], "left_anti").drop(IS_BEFORE)
    kept = {OF, ORIGIN, PLACE, "sha256", "row_number", "source_file", "due", "seq", "event_key"}
    given = {
        "op": F.lit("delete"),
        "arrival_ts": arrival_of(F.col(OF)),
        "version_ts": arrival_of(F.col(OF)),
        "arrival_date": F.col(OF),
        "usable_arrival": F.lit(True),
        UNCHANGED: F.lit(False),
    }
    nothing = {
        f.name: F.lit(None).cast(f.dataType)
        for f in own.schema.fields
        if f.name not in (*kept, *given)
    }
    return own.unionByName(gone.withColumns({**nothing, **given})).drop(OF)


def without_unchanged(rows: "DataFrame", landed: str) -> "DataFrame":
    """The rows with an `outcome`, where those of unchanged keys count as duplicates in place of
    `landed` ones."""
    from pyspark.sql import functions as F

    is_same = F.col(UNCHANGED) & (F.col("outcome") == landed)
    return rows.withColumn(
        "outcome", F.when(is_same, "duplicate").otherwise(F.col("outcome"))
    ).drop(UNCHANGED)


def _is_blank(key: "Column") -> "Column":
    from pyspark.sql import functions as F

    return key.isNull() | (F.trim(key) == "")


def _one_if(condition: "Column") -> "Column":
    from pyspark.sql import functions as F

    return F.when(condition, 1).otherwise(0)


def faults_of(
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

    def contents(names: Iterable[str]) -> list[StoredFile]:
        named = {*names}
        lost = [r for name, r in known.items() if name in named - files.keys()]
        return [
            *(files[name] for name in sorted(named & files.keys())),
            *contents_of(lake_session, lost),
        ]

    held = [name for r in counted if declared.get(name := r.sha256)]
    found = {
        f.sha256: disagreement(lake_session.lake, f, declared[f.sha256]) for f in contents(held)
    }
    if lake_session.lake.settings.source.kind != "snapshot":
        return found
    refuse_what_a_dump_says(lake_session.lake.settings.source)
    loaded = {r.sha256 for r in records if not r.withdrawn and r.usable_rows}
    judged = [r for r in counted if r.sha256 not in loaded]
    paths = {r.path for r in judged}
    dumps = dumps_of(r for r in records if r.path not in paths)
    for day in sorted({d for r in judged if (d := r.path_day) is not None}):
        mine = {r.sha256 for r in judged if r.path_day == day}
        before = dump_before(day, dumps)
        faults, is_vouched = (
            [found[m] for m in mine if found.get(m)],
            all(found.get(m) == "" for m in mine),
        )
        why = f"{OF_DUMP}{day} has a file that is not as declared" if faults else ""
        if before is not None and not (faults or is_vouched):
            why = _why_broken(
                lake_session,
                day,
                before,
                mine,
                contents((*mine, *dumps.get(day, ()), *dumps[before])),
            )
        if why:
            found |= {m: found.get(m) or why for m in mine}
        else:
            dumps[day] = dumps.get(day, frozenset()) | mine
    return found


def _why_broken(
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
    if refused := next(
        (f.refused for f in files if f.sha256 in mine and f.refused is not None), None
    ):
        return f"{OF_DUMP}{day} has a file that cannot be read: {refused}"
    rows = read_deliveries(lake_session.spark(), files, lake.settings, is_forgotten(lake))
    is_new, has_key = F.col("sha256").isin(sorted(mine)), ~_is_blank(F.col("event_key"))
    now, then = (has_key & F.col("arrival_date").eqNullSafe(F.lit(d)) for d in (day, before))
    facts = {
        "lost": F.sum(_one_if(is_new & ~now)),
        "now": F.max(_one_if(now)),
        "then": F.max(_one_if(then)),
    }
    keys = rows.groupBy("event_key").agg(*(fact.alias(name) for name, fact in facts.items()))
    vanishes = _one_if((F.col("then") == 1) & (F.col("now") == 0))
    (found,) = keys.agg(
        *(F.coalesce(F.sum(c), F.lit(0)) for c in (F.col("lost"), F.col("then"), vanishes))
    ).collect()
    lost, many, vanished = found
    if lost:
        return (
            f"{OF_DUMP}{day} has {lost} row(s) without a key or of another day: nobody knows what "
            "vanished"
        )
    most = lake.settings.source.max_vanished_share
    if vanished <= most * many:
        return ""
    many_more = f"more than max_vanished_share = {most}"
    return f"{OF_DUMP}{day} lacks {vanished} of {many} key(s) of the dump of {before}: {many_more}"
