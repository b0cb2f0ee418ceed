"""Rows, bad rows and usable rows of landed contents per arrival day, by the rules of loads, and declared totals.

Also getting a content from the content store. Not here: recording counts (`scan`), the rules (`deliveries`), and
reading manifests (`landing.declared`), whose totals are held against contents here, exactly and without a JVM.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING

from backfill_assets.core.engines import SHORT_OF_MEMORY
from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.core.scans import OF_TOTALS, UNFIT
from backfill_assets.core.texts import plain
from backfill_assets.engine.loss import is_disk_full, is_engine_loss
from backfill_assets.lake.embedded import connection, literal
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.forgotten import REASON as FORGOTTEN
from backfill_assets.lake.heirs import origins
from backfill_assets.lake.ledger import FileRecord
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.source_log import TableFile
from backfill_assets.landing.batches import BAD_REASON, BAD_TEXT, ROW_NUMBER
from backfill_assets.landing.content_store import DIALECT, StoredFile, find
from backfill_assets.landing.declared import MOST_DIGITS, DeclaredTotals, exact_number
from backfill_assets.landing.files import Hashes, LandedFile
from backfill_assets.landing.ingest import DEFAULT_LIMITS, ingest
from backfill_assets.landing.mapping import is_of_the_data
from backfill_assets.landing.parquet_files import undecoded
from backfill_assets.landing.select import uses_path
from backfill_assets.landing.text_lines import Unreadable
from backfill_assets.load.deliveries import read_deliveries
from backfill_assets.load.landed_changes import landed_by_content
from backfill_assets.load.table_changes import commit_of, is_lost, nowhere
from backfill_assets.load.table_contents import take_in

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

Days = dict[date | None, tuple[int, int, int]]
REASON_CHARS = 300
EXACT = Context(prec=4 * MOST_DIGITS)  # a sum of 10^400 numbers beside 400 digits behind the point
EXACT_TYPES = re.compile(r"U?(TINY|SMALL|BIG)INT|U?INTEGER|DECIMAL\((1?\d|2[0-8]),\d+\)")  # 38 digits hold their sums
AT_ONCE = 10_000  # values
OF_THE_MACHINE = ("08", "53", "57", "58")  # SQL states: connection, resources, operators, files


@dataclass
class Counted:
    """A content's rows, bad rows and usable rows per arrival day (None: no usable arrival time)."""

    days: Days = field(default_factory=dict)
    refused: str | None = None  # why no row of it can be judged; it then counts as one bad row
    example: str = ""  # why one of its rows is bad

    @property
    def usable_rows(self) -> int:
        """Its usable rows of all days."""
        return sum(usable for _, _, usable in self.days.values())


def count_days(
    session: "SparkSession", files: Sequence[StoredFile], settings: LakeSettings, is_gone: str = ""
) -> dict[str, Counted]:
    """Count every content, by one query where all can be judged; else halving finds contents to be refused.

    An error of a living engine over one content alone is the content's fault. Raises SettingsError where `select` fits
    no file, errors of the machine, and the error of all contents if there are several and none is judged.
    """
    found, failed = _judged_by_halves(session, files, settings, is_gone) if files else ({}, {})
    are_faulty = any(is_of_the_data(e) or isinstance(e, Unreadable) for e in failed.values())
    if len(failed) > 1 and not (found or are_faulty):
        raise next(iter(failed.values()))
    return found | {f.sha256: _refused(failed[f.sha256], f) for f in files if f.sha256 in failed}


def _judged_by_halves(
    session: "SparkSession", files: Sequence[StoredFile], settings: LakeSettings, is_gone: str
) -> tuple[dict[str, Counted], dict[str, Exception]]:
    """The counts of contents that can be judged, and the errors of the others, by content."""
    try:
        return _count_files(session, files, settings, is_gone), {}
    except Exception as error:
        if _is_of_the_machine(error):
            raise
        if len(files) == 1:
            if not (is_of_the_data(error) or _lives(session)):
                raise
            return {}, {files[0].sha256: error}
    ordered = sorted(files, key=lambda f: (f.kind, f.sha256))  # files of one kind fail together
    middle = len(ordered) // 2
    one, other = (_judged_by_halves(session, half, settings, is_gone) for half in (ordered[:middle], ordered[middle:]))
    return one[0] | other[0], one[1] | other[1]


def _is_of_the_machine(error: Exception) -> bool:
    """Whether the machine failed, and not the content: settings, a lost engine, a disk, memory, a connection."""
    if isinstance(error, BackfillError) or (isinstance(error, OSError) and error.errno is not None):
        return True
    state = str(getattr(error, "getSqlState", lambda: None)())
    is_engines = is_engine_loss(error) or is_disk_full(error) or SHORT_OF_MEMORY.search(str(error)) is not None
    return is_engines or state.startswith(OF_THE_MACHINE)


def _lives(session: "SparkSession") -> bool:
    """Whether the engine still answers a query over nothing that landed."""
    with suppress(Exception):  # the error before this one is raised
        return bool(session.range(1).count())
    return False


def _count_files(
    session: "SparkSession", files: Sequence[StoredFile], settings: LakeSettings, is_gone: str
) -> dict[str, Counted]:
    from pyspark.sql import functions as F

    counts = (
        read_deliveries(session, files, settings, is_gone)
        .groupBy("sha256", "arrival_date")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count("reason").alias("bad_rows"),
            F.count("text"),  # what a load will keep of a bad row: that must not fail there either
            F.max(F.when(F.col("row_number") == 0, F.col("reason"))).alias("whole"),
            F.max("reason").alias("example"),
        )
    )
    found: dict[str, Counted] = {}
    for row in counts.collect():
        counted = found.setdefault(row["sha256"], Counted())
        counted.days[row["arrival_date"]] = (row["rows"], row["bad_rows"], row["rows"] - row["bad_rows"])
        counted.refused = counted.refused or row["whole"]
        counted.example = counted.example or row["example"] or ""
    return found


def refuse_rules_that_fit_nothing(
    files: Sequence[StoredFile], counted: Mapping[str, Counted], known: Mapping[str, FileRecord]
) -> None:
    """Raise SettingsError where `select` fits no file, and no file was ever read under it."""
    reasons = [counted[f.sha256].refused or "" for f in files if f.refused is None and f.sha256 in counted]
    if reasons and all(r.startswith(UNFIT) for r in reasons) and all(r.refused for r in known.values()):
        raise SettingsError(
            "[source] select in lake.toml", f"it fits none of the {len(reasons)} file(s): {reasons[0]}",
            "Nothing was recorded", "Correct the expression (it sees the files' columns only), or remove the files",
        )  # fmt: skip


def refuse_rules_that_leave_nothing(counted: Mapping[str, Counted], again: Sequence[FileRecord]) -> None:
    """Raise SettingsError where contents had usable rows, and none has any by the rules of today: a mistyped column
    would empty every day that is loaded again. An entity that was forgotten counts as usable."""
    before = {r.sha256: r.usable_rows for r in again if r.usable_rows and r.sha256 in counted}
    now = [counted[sha] for sha in before]
    if now and not any(c.usable_rows or c.example == FORGOTTEN for c in now):
        why = next((c.refused or c.example for c in now if c.refused or c.example), "nothing says why")
        raise SettingsError(
            "lake.toml", f"by its rules of today none of {sum(before.values()):,} row(s) is usable that was: {why}",
            "Nothing was recorded or loaded", "Correct [source] select and payload, start_date and [lateness]",
        )  # fmt: skip


def unless_flooding(counted: Counted, size: int) -> Counted:
    """`counted`, or one refused row in its place where a content of `size` bytes holds too many unusable rows."""
    why = DEFAULT_LIMITS.flood(sum(bad for _, bad, _ in counted.days.values()), size)
    return Counted({None: (1, 1, 0)}, why) if why else counted


def _refused(error: Exception, file: StoredFile) -> Counted:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    line = (undecoded(file.parquet) if "FAILED_READ_FILE" in line else "") or line
    return Counted({None: (1, 1, 0)}, f"its rows cannot be judged: {line[:REASON_CHARS]}")


def settle_days(counted: Days, start: date) -> tuple[dict[date, tuple[int, int, int]], date]:
    """Rows without a usable arrival time go to the file's earliest usable day, else to `start`."""
    days = {d: c for d, c in counted.items() if d is not None}
    home = min(days, default=start)
    homeless = counted.get(None)
    if homeless:
        before = days.get(home, (0, 0, 0))
        days[home] = (before[0] + homeless[0], before[1] + homeless[1], before[2])
    return days or {home: (0, 0, 0)}, home


def stored_contents(lake_session: LakeSession, records: Sequence[FileRecord]) -> list[StoredFile]:
    """Contents of the records in the content store. Lost or altered ones are ingested again from the landing folder.

    Refused contents come from the ledger alone.
    """
    found = iter(contents_of(lake_session, [r for r in records if r.refused is None]))
    return [_refused_file(lake_session.lake, r) if r.refused is not None else next(found) for r in records]


def _refused_file(lake: LakeFolder, record: FileRecord) -> StoredFile:
    return StoredFile(record.sha256, lake.stock, "", {}, "", record.first_scan, record.home_day, refused=record.refused)


def contents_of(lake_session: LakeSession, records: Sequence[FileRecord]) -> list[StoredFile]:
    """Contents of the records in the content store, refused ones too. Lost ones are ingested again.

    Lists the landing folder once, and only if one is lost. Raises LandingError where a content exists nowhere.
    """
    stock, source = lake_session.lake.stock, lake_session.lake.settings.source
    by_path, rules = uses_path(source.select), {DIALECT: source.dialect.declared}
    found = [find(stock, r.sha256, r.first_scan, r.home_day, rules) for r in records]
    lost = [r for r, file in zip(records, found, strict=True) if file is None]
    landed = landed_by_content(lake_session, lost) if lost else {}
    hashes = Hashes(stock)
    for record in lost:
        for file in (f for f in landed[record.sha256] if f.size == record.size and not is_lost(f)):
            # As `select` was when it landed.
            named_by_path = not file.sha256 and hashes.sha256(file) != record.sha256
            if ingested(lake_session, file, named_by_path).sha256 == record.sha256:
                break
    files, origins_of = [], origins(lake_session.lake)
    for record, kept in zip(records, found, strict=True):
        file_again = kept or find(stock, record.sha256, record.first_scan, record.home_day, rules)
        if file_again is None:
            raise nowhere(source.table, record)
        place = (record.path, record.path_day) if by_path else ("", None)
        origin = origins_of.of(record.sha256, record.names, place[0])
        commit = commit_of(record) if source.table else None
        files.append(replace(file_again, path=place[0], path_day=place[1], origin=origin, commit=commit))
    return files


def ingested(lake_session: LakeSession, file: LandedFile, by_path: bool | None = None) -> StoredFile:
    """Ingest a landed file into the lake's content store, named by its path, too, where rows depend on that today, or
    as `by_path` says."""
    lake, source = lake_session.lake, lake_session.lake.settings.source
    if isinstance(file, TableFile):
        return take_in(lake, file)
    by_path = uses_path(source.select) if by_path is None else by_path
    return ingest(file, source.format, lake.stock, by_path=by_path, dialect=source.dialect)


def disagreement(lake: LakeFolder, file: StoredFile, declared: Sequence[DeclaredTotals]) -> str:
    """Say how a content differs from the totals that its manifests declare; "" where it agrees.

    Rows are all records of the file, quarantined ones too. A sum is over all values of a column of the file that are
    numbers: a fraction counts as its shortest decimal, NULL and other texts count for nothing.
    """
    for one in declared:
        if one.fault:
            return f"{OF_TOTALS}{one.manifest}) cannot be read: {one.fault}"
    reasons = [(d.manifest, why) for d in declared for why in _differences_from_totals(lake, file, d)]
    return f"{OF_TOTALS}{reasons[0][0]}) disagree: {'; '.join(why for _, why in reasons)}" if reasons else ""


def _differences_from_totals(lake: LakeFolder, file: StoredFile, declared: DeclaredTotals) -> list[str]:
    differences = []
    if declared.rows not in (None, file.rows):
        differences.append(f"the file has {file.rows} rows, declared are {declared.rows}")
    if not declared.sums:
        return differences
    with connection(lake) as engine:
        rows = f"read_parquet({literal(str(file.parquet))}, hive_partitioning = false)"
        kinds = {n: str(t) for n, t, *_ in engine.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()}
        there = kinds.keys() - {ROW_NUMBER, BAD_TEXT, BAD_REASON}
        for column, wanted in declared.sums.items():
            if column not in there:
                differences.append(f"the file has no column {plain(column)!r}")
                continue
            found, others = _summed(engine, rows, column, kinds[column])
            if found != wanted:
                besides = f" and {others} value(s) that are no numbers" if others else ""
                differences.append(f"the sum of {plain(column)} is {found:f}{besides}, declared is {wanted:f}")
    return differences


def _summed(engine: "DuckDBPyConnection", rows: str, column: str, kind: str) -> tuple[Decimal, int]:
    """The exact sum of a column, and how many of its values are no numbers."""
    name = quoted(column)
    query = f"SELECT CAST({name} AS VARCHAR), count(*) FROM {rows} WHERE {name} IS NOT NULL GROUP BY 1"
    if EXACT_TYPES.fullmatch(kind):
        query = f"SELECT CAST(sum({name}) AS VARCHAR), 1 FROM {rows} HAVING count({name}) > 0"
    result, total, others = engine.execute(query), Decimal(0), 0
    with localcontext(EXACT):
        while batch := result.fetchmany(AT_ONCE):
            for text, times in batch:
                number = exact_number(text)
                if number is not None:
                    total += number * times
                elif text.strip():
                    others += times
    return total, others
