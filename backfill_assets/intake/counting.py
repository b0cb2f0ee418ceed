"""Rows, bad rows and usable rows of landed contents per arrival day, by the rules of loads.

Also getting a content from the content store. Not here: recording counts (`scan`), the rules
(`deliveries`), and totals that manifests declare (`declared_totals`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from backfill_assets.engines.abilities import SHORT_OF_MEMORY
from backfill_assets.engines.loss import is_disk_full, is_engine_loss
from backfill_assets.engines.server import SERVERS, engine_named
from backfill_assets.engines.session import explained_error, is_of_this_machine
from backfill_assets.engines.workers import GIVE_FOLDER, failed_worker
from backfill_assets.intake.casting import UNFIT
from backfill_assets.intake.content_store import (
    DIALECT_KEY,
    StoredFile,
    find_content,
    refuse_replaced,
)
from backfill_assets.intake.deliveries import NOT_SEEN, read_deliveries
from backfill_assets.intake.files import Hashes, LandedFile, LandingError
from backfill_assets.intake.forgotten import FORGOTTEN_REASON
from backfill_assets.intake.heirs import erased_origins
from backfill_assets.intake.ingest import DEFAULT_LIMITS, decoded_content
from backfill_assets.intake.landed_changes import landed_by_content
from backfill_assets.intake.ledger import NO_ROWS, REFUSED_WHOLE, FileRecord, RowCounts
from backfill_assets.intake.mapping import is_data_fault
from backfill_assets.intake.parquet_files import odd_encodings
from backfill_assets.intake.select import uses_path
from backfill_assets.intake.settings import landed_source
from backfill_assets.intake.source_log import TableFile
from backfill_assets.intake.table_changes import (
    commit_of_record,
    is_content_lost,
    lost_content_error,
    noted_names,
    take_in_content,
)
from backfill_assets.intake.tasks import Intake
from backfill_assets.intake.text_lines import Unreadable
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REASON_CHARS = 300
# Queries over a file that a machine elsewhere could not read, before the file is judged by it.
TRIED_AGAIN = 2
DEADLY = "the engine ended over them twice, as it does where a file says too little of its pages"
OF_THE_MACHINE = ("08", "53", "57", "58")  # SQL states: connection, resources, operators, files


@dataclass
class Counted:
    """A content's rows per arrival day (None: no usable arrival time)."""

    days: dict[date | None, RowCounts] = field(default_factory=dict)
    refused: str | None = None  # why no row of it can be judged; it then counts as one bad row
    example: str = ""  # why one of its rows is bad

    @property
    def usable_rows(self) -> int:
        """Its usable rows of all days."""
        return sum(count.usable for count in self.days.values())

    @property
    def bad_rows(self) -> int:
        """Its bad rows of all days."""
        return sum(count.bad for count in self.days.values())

    @property
    def rows(self) -> int:
        """All its rows."""
        return sum(count.rows for count in self.days.values())


class _Judged(NamedTuple):
    """Contents by their digests: the counts of those that could be judged, the errors of others."""

    counts: dict[str, Counted]
    errors: dict[str, Exception]


def count_days(
    engine: "Callable[[], SparkSession]",
    files: Sequence[StoredFile],
    settings: LakeSettings,
    forgotten_sql: str = "",
) -> dict[str, Counted]:
    """Count every content, by one query where all can be judged; else halving finds contents to be
    refused. `engine` gives a session on a living engine, a new one if need be. `forgotten_sql`: as
    `intake.forgotten.forgotten_condition` gives it.

    An error of a living engine over one content alone is its fault. So is the end of an engine over
    one content alone whose pages nobody decoded before, if another ended over it just before.
    Raises SettingsError where `select` fits no file, errors of the machine, and the error of all
    contents if there are several and none is judged.
    """
    if not files:
        return {}
    counts, errors = _Judge(engine, settings, forgotten_sql).judged_by_halves(files)
    are_faulty = any(is_data_fault(e) or isinstance(e, Unreadable) for e in errors.values())
    if len(errors) > 1 and not counts and not are_faulty:
        raise next(iter(errors.values()))
    for file in files:
        if file.sha256 in errors:
            counts[file.sha256] = _refused_count(errors[file.sha256], file)
        elif file.is_undecoded and file.sha256 in counts:
            counts[file.sha256] = _checked_against_footer(counts[file.sha256], file)
    return counts


def _checked_against_footer(counted: Counted, file: StoredFile) -> Counted:
    """`counted`, or one refused row in its place where it is not as many rows as the file's footer
    promises."""
    if counted.refused or counted.rows == file.rows:
        return counted
    why = f"its footer promises {file.rows} rows, its pages hold {counted.rows}"
    return Counted({None: REFUSED_WHOLE}, why)


@dataclass(frozen=True)
class _Judge:
    """Counts contents by queries of an engine, and finds those over which a query fails."""

    engine: "Callable[[], SparkSession]"  # gives a session on a living engine
    settings: LakeSettings
    forgotten_sql: str

    def judged_by_halves(self, files: Sequence[StoredFile], has_ended_one: bool = False) -> _Judged:
        """Count the contents by one query; where that fails, each half by queries of its own, and a
        single content as `_judged_alone` says. Raises errors of the machine.

        `has_ended_one`: an engine ended over these contents, perhaps with others, just before. A
        single content is judged once more in that case, because the engine may have ended for
        another reason.
        """
        session = self.engine()
        try:
            return _Judged(self._counts(session, files), {})
        except Exception as error:
            has_ended = _has_ended_over_pages(error, files)
            if has_ended:
                # Called for what it does: it ends an engine that answers and yet fails for ever.
                explained_error(error)
            elif _is_machine_error(error):
                raise
            refuse_replaced(files)
            _refuse_unseen(files, error)
            may_be_chance = has_ended and not has_ended_one
            if len(files) == 1 and not may_be_chance:
                return self._judged_alone(files[0], error, None if has_ended else session)
        ordered = sorted(files, key=lambda f: (f.kind, f.sha256))  # files of one kind fail together
        middle = len(ordered) // 2
        whole = _Judged({}, {})
        for half in (ordered[:middle], ordered[middle:]):
            if half:
                judged = self.judged_by_halves(half, has_ended)
                whole.counts.update(judged.counts)
                whole.errors.update(judged.errors)
        return whole

    def _judged_alone(
        self, file: StoredFile, error: Exception, session: "SparkSession | None"
    ) -> _Judged:
        """The verdict on a content over which alone a query failed with `error`: it is the
        content's fault if the engine still answers, else the error is raised. `session`: of the
        query; None if its engine ended."""
        is_refused = _Judged({}, {file.sha256: error})
        if is_data_fault(error):
            return is_refused
        if not _is_alive(session or self.engine()):
            raise error
        if session is None or is_of_this_machine(session):
            return is_refused
        return self._judged_by_retries(session, file, error)

    def _judged_by_retries(
        self, session: "SparkSession", file: StoredFile, error: Exception
    ) -> _Judged:
        """The count of a content over which machines of an engine elsewhere failed, by whichever of
        them can read it; else its `error`. Spark may have given all attempts of a task to one
        machine, and chooses anew for each query."""
        for _ in range(TRIED_AGAIN):
            try:
                return _Judged(self._counts(session, [file]), {})
            except Exception as again:
                if _is_machine_error(again) or NOT_SEEN.search(str(again)):
                    raise
        return _Judged({}, {file.sha256: error})

    def _counts(self, session: "SparkSession", files: Sequence[StoredFile]) -> dict[str, Counted]:
        """The counts by one query, which fails if one of the files cannot be judged."""
        return _count_files(session, files, self.settings, self.forgotten_sql)


def _has_ended_over_pages(error: Exception, files: Sequence[StoredFile]) -> bool:
    """Whether an engine ended over contents of which some have pages that nobody decoded before."""
    return is_engine_loss(error) and any(file.is_undecoded for file in files)


def _refuse_unseen(files: Sequence[StoredFile], error: Exception) -> None:
    """Raise LandingError if `error` of an engine says that it found no file, and the file lies
    here: then the engine's machines do not see this place."""
    if not NOT_SEEN.search(str(error)):
        return
    for file in files:
        if file.store.exists(file.name):
            raise _unseen_file_error(file, failed_worker(error)) from None


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
    session: "SparkSession", files: Sequence[StoredFile], settings: LakeSettings, forgotten_sql: str
) -> dict[str, Counted]:
    """Count the rows of the files per content and arrival day, by one query."""
    from pyspark.sql import functions as F

    # Row 0 stands for a content as a whole. Reasons are few: grouped by them first, rows need not
    # be sorted for the greatest one, which took a fifth of the CPU.
    rows = read_deliveries(session, files, settings, forgotten_sql).withColumn(
        "is_whole", F.col("row_number") == 0
    )
    by_reason = rows.groupBy("sha256", "arrival_date", "reason", "is_whole").agg(
        F.count(F.lit(1)).alias("rows"),
        # What a load will keep of a bad row: that must not fail there either.
        F.count("text").alias("texts"),
    )
    counts = by_reason.groupBy("sha256", "arrival_date").agg(
        F.sum("rows").alias("rows"),
        F.sum(F.when(F.col("reason").isNotNull(), F.col("rows")).otherwise(0)).alias("bad_rows"),
        F.sum("texts"),
        F.max(F.when(F.col("is_whole"), F.col("reason"))).alias("whole"),
        F.max("reason").alias("example"),
    )
    found: dict[str, Counted] = {}
    for row in counts.collect():
        counted = found.setdefault(row["sha256"], Counted())
        rows, bad = row["rows"], row["bad_rows"]
        counted.days[row["arrival_date"]] = RowCounts(rows, bad, usable=rows - bad)
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
    before = dict[str, int]()
    for record in again:
        if record.usable_rows and record.sha256 in counted:
            before[record.sha256] = record.usable_rows
    now = [counted[sha256] for sha256 in before]
    if now and not any(c.usable_rows or c.example == FORGOTTEN_REASON for c in now):
        reasons = [c.refused or c.example for c in now]
        why = next(filter(None, reasons), "nothing says why")
        raise SettingsError(
            "lake.toml",
            f"by its rules of today none of {sum(before.values()):,} row(s) is usable that was: "
            f"{why}",
            "Nothing was recorded or loaded",
            "Correct [source] select and payload, start_date and [lateness]",
        )


def refuse_lost_rows(path: str, expected: int, days: Mapping[date, RowCounts]) -> None:
    """Raise LandingError unless the `days` of the landed file at `path` hold the `expected` number
    of rows."""
    if (counted := sum(count.rows for count in days.values())) != expected:
        raise LandingError(
            f"the landed file {printable_text(path)}",
            f"it has {expected} rows, Spark's reader gave {counted}",
            "Nothing of it was recorded or loaded",
            "Keep the file and report this: a reader lost rows",
        )


def refused_if_flooded(counted: Counted, size: int) -> Counted:
    """`counted`, or one refused row in its place where a content of `size` bytes holds too many
    unusable rows."""
    why = DEFAULT_LIMITS.flood(counted.bad_rows, size)
    return Counted({None: REFUSED_WHOLE}, why) if why else counted


def _refused_count(error: Exception, file: StoredFile) -> Counted:
    """One refused row for a content over which a query failed, with the reason in words: the
    encodings that this engine cannot decode, and which engine can, else the error's first line."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    why = odd_encodings(file.parquet) if "FAILED_READ_FILE" in line else ""
    if why:
        # Engines that do not judge pages by themselves get them decoded in advance.
        decoding = [name for name, engine in SERVERS.items() if not engine.has_row_metadata]
        settings = " or ".join(f'engine = "{name}"' for name in decoding)
        line = f"{why}, or set {settings}"
    if is_engine_loss(error):
        line = DEADLY
    return Counted({None: REFUSED_WHOLE}, f"its rows cannot be judged: {line[:REASON_CHARS]}")


def assign_home_day(
    counted: Mapping[date | None, RowCounts], start: date
) -> tuple[dict[date, RowCounts], date]:
    """Give rows without a usable arrival time (None) to the file's earliest usable day, else to
    `start`: the counts per day, and that home day."""
    days = {day: count for day, count in counted.items() if day is not None}
    home = min(days, default=start)
    homeless = counted.get(None)
    if homeless is not None:
        own = days.get(home, NO_ROWS)
        # Rows without an arrival time are never usable.
        days[home] = own._replace(rows=own.rows + homeless.rows, bad=own.bad + homeless.bad)
    return days or {home: NO_ROWS}, home


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
    """A refused content, of which nothing is read."""
    return StoredFile(
        record.sha256,
        lake.stock,
        name="",
        first_scan=record.first_scan,
        home_day=record.home_day,
        refused=record.refused,
    )


def recorded_contents(lake_session: Session, records: Sequence[FileRecord]) -> list[StoredFile]:
    """Contents of the records in the content store, refused ones too. Lost ones are ingested again.

    Lists the landing folder once, and only if one is lost. Raises LandingError where a content
    exists nowhere.
    """
    lake = lake_session.lake
    source = lake.settings.source
    found = _found_in_stock(lake_session, records)
    lost = [record for record, file in zip(records, found, strict=True) if file is None]
    if lost:
        _ingest_again(lake_session, lost)
    files, origins_of = list[StoredFile](), erased_origins(lake)
    by_path, is_table = uses_path(source.select), bool(source.table)
    renamed = noted_names(lake.stock)
    for record, known in zip(records, found, strict=True):
        file = known or _stored_content(lake_session, record)
        if file is None:
            raise lost_content_error(source.table, record)
        file = _readable_content(lake_session, file)
        path, day = (record.path, record.path_day) if by_path else ("", None)
        origin = origins_of.of(record.sha256, record.names, path)
        commit = commit_of_record(record) if is_table else None
        file = replace(file, path=path, path_day=day, origin=origin, commit=commit)
        files.append(replace(file, renamed=renamed))
    if lake.stock.is_store and not lake_session.computes_here:
        # This machine kept them for itself while it computed.
        lake.stock.sync_new([file.name for file in files])
    return files


def _stored_content(lake_session: Session, record: FileRecord) -> StoredFile | None:
    """The content of a record in the content store; None where it lacks, or was parsed in another
    dialect."""
    lake = lake_session.lake
    rules = {DIALECT_KEY: landed_source(lake.settings.source).dialect.declared}
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
            # Another name than that of its bytes is one by its path.
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
    return Intake(
        format=source.format,
        dialect=source.dialect,
        by_path=uses_path(source.select) if by_path is None else by_path,
        in_place=source.in_place,
        is_undecoded=bool(source.in_place) and lake_session.reads_undecoded(),
    )
