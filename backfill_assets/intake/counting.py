"""Rows, bad rows and usable rows of landed contents per arrival day, by the rules of loads.

Also getting a content from the content store. Not here: recording counts (`scan`), the rules
(`deliveries`), and totals that manifests declare (`declared_totals`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.engines.loss import is_disk_full, is_engine_loss
from backfill_assets.engines.server import SERVERS, engine_named
from backfill_assets.engines.session import explained_error, is_of_this_machine
from backfill_assets.engines.workers import GIVE_FOLDER, failed_worker
from backfill_assets.intake.casting import UNFIT
from backfill_assets.intake.content_store import DIALECT, StoredFile, find_content, refuse_replaced
from backfill_assets.intake.deliveries import NOT_SEEN, read_deliveries
from backfill_assets.intake.files import Hashes, LandedFile
from backfill_assets.intake.forgotten import REASON as FORGOTTEN
from backfill_assets.intake.heirs import erased_origins
from backfill_assets.intake.ingest import DEFAULT_LIMITS, decoded_content
from backfill_assets.intake.landed_changes import landed_by_content
from backfill_assets.intake.ledger import FileRecord
from backfill_assets.intake.mapping import is_data_fault
from backfill_assets.intake.parquet_files import odd_encodings
from backfill_assets.intake.select import uses_path
from backfill_assets.intake.settings import landed_source
from backfill_assets.intake.source_log import TableFile
from backfill_assets.intake.table_changes import (
    commit_of_record,
    is_content_lost,
    lost_content_error,
    take_in_content,
)
from backfill_assets.intake.tasks import Intake
from backfill_assets.intake.text_lines import Unreadable
from backfill_assets.kernel.core.engines import SHORT_OF_MEMORY
from backfill_assets.kernel.core.errors import BackfillError, LandingError, SettingsError
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Days = dict[date | None, tuple[int, int, int]]
REASON_CHARS = 300
# Queries over a file that a machine elsewhere could not read, before the file is judged by it.
TRIED_AGAIN = 2
DEADLY = "the engine ended over them twice, as it does where a file says too little of its pages"
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
    engine: "Callable[[], SparkSession]",
    files: Sequence[StoredFile],
    settings: LakeSettings,
    is_gone: str = "",
) -> dict[str, Counted]:
    """Count every content, by one query where all can be judged; else halving finds contents to be
    refused. `engine` gives a session on a living engine, a new one if need be.

    An error of a living engine over one content alone is its fault. So is the end of an engine over
    one content alone whose pages nobody decoded before, if another ended over it just before.
    Raises SettingsError where `select` fits no file, errors of the machine, and the error of all
    contents if there are several and none is judged.
    """
    if not files:
        return {}
    found, failed = _judged_by_halves(engine, files, settings, is_gone)
    are_faulty = any(is_data_fault(e) or isinstance(e, Unreadable) for e in failed.values())
    if len(failed) > 1 and not found and not are_faulty:
        raise next(iter(failed.values()))
    for file in files:
        if file.sha256 in failed:
            found[file.sha256] = _refused_count(failed[file.sha256], file)
        elif file.is_undecoded and file.sha256 in found:
            found[file.sha256] = _checked_against_footer(found[file.sha256], file)
    return found


def _checked_against_footer(counted: Counted, file: StoredFile) -> Counted:
    """`counted`, or one refused row in its place where it is not as many rows as the file's footer
    promises."""
    rows = sum(total for total, _, _ in counted.days.values())
    if counted.refused or rows == file.rows:
        return counted
    why = f"its footer promises {file.rows} rows, its pages hold {rows}"
    return Counted({None: (1, 1, 0)}, why)


def _judged_by_halves(
    engine: "Callable[[], SparkSession]",
    files: Sequence[StoredFile],
    settings: LakeSettings,
    is_gone: str,
    has_ended_one: bool = False,
) -> tuple[dict[str, Counted], dict[str, Exception]]:
    """The counts of contents that can be judged, and the errors of the others, by content.
    `has_ended_one`: an engine ended over them, perhaps with others, just before."""
    session, ends = engine(), False
    try:
        return _count_files(session, files, settings, is_gone), {}
    except Exception as error:
        ends = is_engine_loss(error) and any(f.is_undecoded for f in files)
        if ends:
            explained_error(error)  # an engine that answers and yet fails for ever ends here
        elif _is_machine_error(error):
            raise
        refuse_replaced(files)
        _refuse_unseen(files, error)
        if len(files) == 1 and (has_ended_one or not ends):
            if is_data_fault(error):
                return {}, {files[0].sha256: error}
            if not _is_alive(engine() if ends else session):
                raise
            if ends or is_of_this_machine(session):
                return {}, {files[0].sha256: error}
            return _judged_by_retries(session, files[0], settings, is_gone, error)
    ordered = sorted(files, key=lambda f: (f.kind, f.sha256))  # files of one kind fail together
    middle = len(ordered) // 2
    counts, errors = dict[str, Counted](), dict[str, Exception]()
    for half in (ordered[:middle], ordered[middle:]):
        if half:
            found, failed = _judged_by_halves(engine, half, settings, is_gone, ends)
            counts |= found
            errors |= failed
    return counts, errors


def _refuse_unseen(files: Sequence[StoredFile], error: Exception) -> None:
    """Raise LandingError where the engine says that a file lacks which lies here."""
    if not NOT_SEEN.search(str(error)):
        return
    for file in files:
        if file.store.exists(file.name):
            raise _unseen_file_error(file, failed_worker(error)) from None


def _judged_by_retries(
    session: "SparkSession",
    file: StoredFile,
    settings: LakeSettings,
    is_gone: str,
    error: Exception,
) -> tuple[dict[str, Counted], dict[str, Exception]]:
    """The counts of a content over which machines of an engine elsewhere failed, by whichever of
    them can read it; else its error. Spark may have given all attempts of a task to one machine,
    and chooses anew for each query."""
    for _ in range(TRIED_AGAIN):
        try:
            return _count_files(session, [file], settings, is_gone), {}
        except Exception as again:
            if _is_machine_error(again) or NOT_SEEN.search(str(again)):
                raise
    return {}, {file.sha256: error}


def _unseen_file_error(file: StoredFile, worker: str) -> LandingError:
    """The error for a file that lies here, and not for a machine of the engine."""
    by = f"the engine's worker {worker}" if worker else "the engine"
    if file.mark and not file.store.is_store:
        what, path = f"{by} does not see it where it landed", str(file.parquet.resolve())
        advice = (
            "Let its machines read the landing folder under this path, or leave in_place out of "
            "lake.toml"
        )
    else:
        what = f"{by} does not see its copy {file.store.uri(file.name)}, which lies here"
        path = file.path
        advice = GIVE_FOLDER
    return LandingError(
        f"the landed file {printable_text(path or file.sha256)}",
        what,
        "Nothing was recorded or loaded",
        advice,
    )


def _is_machine_error(error: Exception) -> bool:
    """Whether the machine failed, and not the content: settings, a lost engine, a disk, memory, a
    connection."""
    if isinstance(error, BackfillError):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return True
    if is_engine_loss(error) or is_disk_full(error) or SHORT_OF_MEMORY.search(str(error)):
        return True
    state = str(getattr(error, "getSqlState", lambda: None)())
    return state.startswith(OF_THE_MACHINE)


def _is_alive(session: "SparkSession") -> bool:
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
        counted.days[row["arrival_date"]] = (
            row["rows"],
            row["bad_rows"],
            row["rows"] - row["bad_rows"],
        )
        counted.refused = counted.refused or row["whole"]
        counted.example = counted.example or row["example"] or ""
    return found


def refuse_rules_that_fit_nothing(
    files: Sequence[StoredFile], counted: Mapping[str, Counted], known: Mapping[str, FileRecord]
) -> None:
    """Raise SettingsError where `select` fits no file, and no file was ever read under it."""
    judged = [counted[f.sha256] for f in files if f.refused is None and f.sha256 in counted]
    reasons = [one.refused or "" for one in judged]
    fits_none = all(reason.startswith(UNFIT) for reason in reasons)
    none_was_read = all(record.refused for record in known.values())
    if reasons and fits_none and none_was_read:
        raise SettingsError(
            "[source] select in lake.toml",
            f"it fits none of the {len(reasons)} file(s): {reasons[0]}",
            "Nothing was recorded",
            "Correct the expression (it sees the files' columns only), or remove the files",
        )


def refuse_rules_that_leave_nothing(
    counted: Mapping[str, Counted], again: Sequence[FileRecord]
) -> None:
    """Raise SettingsError where contents had usable rows, and none has any by the rules of today: a
    mistyped column would empty every day that is loaded again. An entity that was forgotten counts
    as usable."""
    usable = {r.sha256: r.usable_rows for r in again if r.usable_rows}
    before = {sha256: rows for sha256, rows in usable.items() if sha256 in counted}
    now = [counted[sha256] for sha256 in before]
    if now and not any(c.usable_rows or c.example == FORGOTTEN for c in now):
        reasons = [c.refused or c.example for c in now]
        why = next(filter(None, reasons), "nothing says why")
        raise SettingsError(
            "lake.toml",
            f"by its rules of today none of {sum(before.values()):,} row(s) is usable that was: "
            f"{why}",
            "Nothing was recorded or loaded",
            "Correct [source] select and payload, start_date and [lateness]",
        )


def refuse_lost_rows(path: str, expected: int, days: Mapping[date, tuple[int, int, int]]) -> None:
    """Raise LandingError unless the days of a landed file hold as many rows as it has."""
    if (counted := sum(r for r, _, _ in days.values())) != expected:
        raise LandingError(
            f"the landed file {printable_text(path)}",
            f"it has {expected} rows, Spark's reader gave {counted}",
            "Nothing of it was recorded or loaded",
            "Keep the file and report this: a reader lost rows",
        )


def refused_if_flooded(counted: Counted, size: int) -> Counted:
    """`counted`, or one refused row in its place where a content of `size` bytes holds too many
    unusable rows."""
    why = DEFAULT_LIMITS.flood(sum(bad for _, bad, _ in counted.days.values()), size)
    return Counted({None: (1, 1, 0)}, why) if why else counted


def _refused_count(error: Exception, file: StoredFile) -> Counted:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    why = odd_encodings(file.parquet) if "FAILED_READ_FILE" in line else ""
    if why:
        decoding = [name for name, engine in SERVERS.items() if not engine.has_row_metadata]
        settings = " or ".join(f'engine = "{name}"' for name in decoding)
        line = f"{why}, or set {settings}"
    if is_engine_loss(error):
        line = DEADLY
    return Counted({None: (1, 1, 0)}, f"its rows cannot be judged: {line[:REASON_CHARS]}")


def assign_home_day(counted: Days, start: date) -> tuple[dict[date, tuple[int, int, int]], date]:
    """Rows without a usable arrival time go to the file's earliest usable day, else to `start`."""
    days = {d: c for d, c in counted.items() if d is not None}
    home = min(days, default=start)
    homeless = counted.get(None)
    if homeless:
        before = days.get(home, (0, 0, 0))
        days[home] = (before[0] + homeless[0], before[1] + homeless[1], before[2])
    return days or {home: (0, 0, 0)}, home


def stored_contents(lake_session: Session, records: Sequence[FileRecord]) -> list[StoredFile]:
    """Contents of the records in the content store. Lost or altered ones are ingested again from
    the landing folder.

    Refused contents come from the ledger alone.
    """
    read = iter(recorded_contents(lake_session, [r for r in records if r.refused is None]))
    files = list[StoredFile]()
    for record in records:
        is_refused = record.refused is not None
        files.append(_refused_file(lake_session.lake, record) if is_refused else next(read))
    return files


def _refused_file(lake: LakeFolder, record: FileRecord) -> StoredFile:
    return StoredFile(
        record.sha256,
        lake.stock,
        "",
        {},
        "",
        record.first_scan,
        record.home_day,
        refused=record.refused,
    )


def recorded_contents(lake_session: Session, records: Sequence[FileRecord]) -> list[StoredFile]:
    """Contents of the records in the content store, refused ones too. Lost ones are ingested again.

    Lists the landing folder once, and only if one is lost. Raises LandingError where a content
    exists nowhere.
    """
    lake = lake_session.lake
    found = _found_in_stock(lake_session, records)
    lost = [record for record, file in zip(records, found, strict=True) if file is None]
    if lost:
        _ingest_again(lake_session, lost)
    files, origins_of = list[StoredFile](), erased_origins(lake)
    by_path, is_table = uses_path(lake.settings.source.select), bool(lake.settings.source.table)
    for record, known in zip(records, found, strict=True):
        file = known or _stored_content(lake_session, record)
        if file is None:
            raise lost_content_error(lake.settings.source.table, record)
        file = _readable_content(lake_session, file)
        path, day = (record.path, record.path_day) if by_path else ("", None)
        origin = origins_of.of(record.sha256, record.names, path)
        commit = commit_of_record(record) if is_table else None
        files.append(replace(file, path=path, path_day=day, origin=origin, commit=commit))
    if lake.stock.is_store and not lake_session.computes_here:
        # This machine kept them for itself while it computed.
        lake.stock.sync_new([file.name for file in files])
    return files


def _stored_content(lake_session: Session, record: FileRecord) -> StoredFile | None:
    """The content of a record in the content store; None where it lacks, or was parsed in another
    dialect."""
    lake = lake_session.lake
    rules = {DIALECT: landed_source(lake.settings.source).dialect.declared}
    return find_content(lake.stock, record.sha256, record.first_scan, record.home_day, rules)


def _found_in_stock(
    lake_session: Session, records: Sequence[FileRecord]
) -> list[StoredFile | None]:
    """The contents of the records in the content store. Of a table None, too, where an earlier
    release took one in without its place in the log: it is looked for once more."""
    found = [_stored_content(lake_session, record) for record in records]
    if not lake_session.lake.settings.source.table:
        return found
    return [file if file and file.rows_before is not None else None for file in found]


def _ingest_again(lake_session: Session, lost: Sequence[FileRecord]) -> None:
    """Ingest contents from the landing folder that the content store has not, as `select` was when
    they landed."""
    landed, hashes = landed_by_content(lake_session, lost), Hashes(lake_session.lake.stock)
    for record in lost:
        for file in landed[record.sha256]:
            if file.size != record.size or is_content_lost(file):
                continue
            by_path = not file.sha256 and hashes.sha256(file) != record.sha256
            if ingest_into_lake(lake_session, file, by_path).sha256 == record.sha256:
                break


def _readable_content(lake_session: Session, file: StoredFile) -> StoredFile:
    """The content, decoded in advance where the engine does not judge pages by itself."""
    lake = lake_session.lake
    engine, source = engine_named(lake.settings.spark.engine), lake.settings.source
    if not file.is_undecoded or engine.has_row_metadata:
        return file
    return decoded_content(file, "delta" if source.table else source.format)


def ingest_into_lake(
    lake_session: Session, file: LandedFile, by_path: bool | None = None
) -> StoredFile:
    """Ingest a landed file into the lake's content store, named by its path, too, where rows depend
    on that today, or as `by_path` says. Pages of copies are decoded in advance; those of others,
    too, for some engines."""
    lake = lake_session.lake
    is_local = lake.stock.is_store and lake_session.computes_here
    if isinstance(file, TableFile):
        return take_in_content(lake, file, is_local, lake_session.reads_undecoded())
    return source_intake(lake_session, by_path).stored(file, lake.stock, is_local)


def source_intake(lake_session: Session, by_path: bool | None = None) -> Intake:
    """How files of the lake's source are taken in; `by_path` as `ingest_into_lake` says."""
    source = landed_source(lake_session.lake.settings.source)
    by_path = uses_path(source.select) if by_path is None else by_path
    is_undecoded = bool(source.in_place) and lake_session.reads_undecoded()
    return Intake(source.format, source.dialect, by_path, source.in_place, is_undecoded)
