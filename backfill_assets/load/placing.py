"""Placing judged rows: each landed row of a load ends in raw, quarantine, `too_late` or as a duplicate, and is counted.

Not here: judging a row by itself (`deliveries`) and the commits (`raw`). Where no row can be late or not due, rows are
written as they are read; if a number came twice within a day, and otherwise, a window over all rows of a day decides.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import midnight
from backfill_assets.core.errors import LandingError
from backfill_assets.core.payload import LANDED
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.states import States
from backfill_assets.core.texts import plain
from backfill_assets.lake.audit import audit, count_rows
from backfill_assets.lake.ledger import QUARANTINE, FileRecord, of_source
from backfill_assets.lake.session import free, small_frame
from backfill_assets.lake.settings import LatenessSettings
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.too_late import contract_of, is_too_late
from backfill_assets.lake.writing import conform, stage
from backfill_assets.landing.mapping import delivery_types
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.counting import stocked
from backfill_assets.load.deliveries import read_deliveries, split_day_rows
from backfill_assets.load.steadiness import refuse_changed_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Accounts = dict[date, dict[str, dict[str, int]]]  # rows per arrival day, path of a file, and outcome
Counts = Mapping[tuple[date, str], Mapping[str, int]]  # of an arrival day and content: rows per outcome
OF_A_FILE = ("source_file",)


@dataclass(frozen=True)
class PlacedPart:
    """The rows of a load for one table, staged and audited; None where it has none."""

    contract: Contract
    staged: Staged | None = None
    profiles: Mapping[date | None, DayProfile] = field(default_factory=dict)


@dataclass(frozen=True)
class Placed:
    """The parts of a load for raw, `too_late` and quarantine, and the account of its rows."""

    raw: PlacedPart
    late: PlacedPart
    quarantine: PlacedPart
    accounts: Accounts

    def drop(self) -> None:
        """Delete staged files that were not published."""
        _drop((self.raw, self.late, self.quarantine))


def place(request: RebuildRequest, states: States, days: Sequence[date], records: Sequence[FileRecord]) -> Placed:
    """Stage the rows that landed on these due days; `records` are the contents with such rows, each once.

    The session of the request is narrowed to the table's source. Raises LandingError where the account of the rows does
    not add up.
    """
    contract = request.table.contract
    if not records:
        late, quarantine = contract_of(contract), of_source(QUARANTINE, contract.source)
        return Placed(PlacedPart(contract), PlacedPart(late), PlacedPart(quarantine), {d: {} for d in days})
    in_time = all_in_time(request.lake_session.lake.settings.lateness, states.view.as_of, days)
    placed = _as_read(request, states, days, records) if in_time else None
    return placed or _by_window(request, states, days, records)


def all_in_time(lateness: LatenessSettings, as_of: datetime | None, days: Sequence[date]) -> bool:
    """Whether no usable row of these days can be late, or arrive at or after `as_of`."""
    cut = as_of is not None and midnight(as_of.date()) != as_of and as_of.date() in days
    return lateness.window_days is None and not cut


def judged_rows(
    request: RebuildRequest, states: States, days: Sequence[date], records: Sequence[FileRecord]
) -> "DataFrame":
    """The rows of the landed contents for these days, with `source_file` and whether they are `due`."""
    from pyspark.sql import functions as F

    lake_session = request.lake_session
    session, settings = lake_session.spark(), lake_session.lake.settings
    files = stocked(lake_session, records)
    if not files:
        schema = "sha256 string, row_number bigint, text string, reason string, source_file string, arrival_date date, "
        columns = ", ".join(f"`{n}` {t}" for n, t in delivery_types(settings.source.payload_columns).items())
        return small_frame(session, [], schema + columns + ", usable_arrival boolean, due boolean")
    judged = read_deliveries(session, files, settings).withColumn("source_file", F.col("sha256"))
    due = F.lit(True)
    if states.view.as_of is not None:
        limit = F.lit(states.view.as_of.isoformat()).cast("timestamp")
        due = ~F.col("usable_arrival") | (F.col("arrival_ts") < limit)
    first, last = min(days), max(days)
    near = judged.where(F.col("arrival_date").between(F.lit(first), F.lit(last))).withColumn("due", due)
    return near.where(F.col("arrival_date").isin(sorted(days))) if len(days) <= (last - first).days else near


def with_bad_rows(records: Iterable[FileRecord], days: Sequence[date]) -> list[FileRecord]:
    """The contents with a row, on one of the days, that the scan found to be unusable."""
    wanted = set(days)
    return [r for r in records if any(bad for d, (_, bad, _) in r.days.items() if d in wanted)]


def _as_read(
    request: RebuildRequest, states: States, days: Sequence[date], records: Sequence[FileRecord]
) -> Placed | None:
    """Write good rows as they are read, and those of files with bad rows once more for these; None where a number came
    twice within a day."""
    contract, bad = request.table.contract, with_bad_rows(records, days)
    quarantine = of_source(QUARANTINE, contract.source)
    good = judged_rows(request, states, days, records).where("reason IS NULL").select(*contract.column_names)
    unusable = judged_rows(request, states, days, bad).where("reason IS NOT NULL") if bad else None
    kept = unusable.select(*QUARANTINE.column_names) if unusable is not None else None
    raw, aside = parts = _staged_parts(request, len(days), [(contract, good), (quarantine, kept)])
    try:
        if any(p.duplicates for p in raw.profiles.values()):
            _drop(parts)
            return None
        counts: dict[tuple[date, str], dict[str, int]] = defaultdict(dict)
        for outcome, part in ((contract.name, raw), (QUARANTINE.name, aside)):
            files = part.staged.paths if part.staged else []
            for day, sha256, rows in count_rows(request.lake_session.lake, files, part.contract, OF_A_FILE):
                counts[day, sha256][outcome] = rows
        return Placed(raw, PlacedPart(contract_of(contract)), aside, accounted(days, records, counts))
    except BaseException:
        _drop(parts)
        raise


def _by_window(request: RebuildRequest, states: States, days: Sequence[date], records: Sequence[FileRecord]) -> Placed:
    """Compare all rows of a day that share a number, and keep the judged rows for the three tables."""
    contract, lateness = request.table.contract, request.lake_session.lake.settings.lateness
    late = is_too_late(lateness, states.view.source(contract.name).releases)
    delivered = [c for c in contract.column_names if c not in LANDED]
    judged = judged_rows(request, states, days, records)
    rows = split_day_rows(judged, late, contract.name, delivered).persist()
    try:
        counts: dict[tuple[date, str], dict[str, int]] = defaultdict(dict)
        with request.phases.phase("read"):
            found = rows.groupBy("arrival_date", "sha256", "outcome").count().collect()
        for row in found:
            counts[row["arrival_date"], row["sha256"]][row["outcome"]] = row["count"]
        accounts = accounted(days, records, counts)
        outcomes = {o for by_outcome in counts.values() for o in by_outcome}
        wanted = (
            (contract, contract.name, contract),
            (contract_of(contract), "too late", contract),
            (of_source(QUARANTINE, contract.source), QUARANTINE.name, QUARANTINE),
        )
        frames = [
            (table, rows.where(f"outcome = '{o}'").select(*like.column_names) if o in outcomes else None)
            for table, o, like in wanted
        ]
        raw, beyond, kept = _staged_parts(request, len(days), frames)
        return Placed(raw, beyond, kept, accounts)
    finally:
        free(rows)


def _staged_parts(
    request: RebuildRequest, days: int, wanted: "Sequence[tuple[Contract, DataFrame | None]]"
) -> list[PlacedPart]:
    """Stage and audit the rows of each table; drops all where one fails."""
    made, session = list[PlacedPart](), request.lake_session
    try:
        with request.phases.phase("write"):
            refuse_changed_settings(session.spark(), f"the table {wanted[0][0].name}")
            for contract, frame in wanted:
                staged = stage(session.lake, contract, conform(frame, contract), days) if frame else None
                made.append(PlacedPart(contract, staged))
        with request.phases.phase("audit"):
            return [
                p if p.staged is None else replace(p, profiles=audit(session.lake, p.staged.paths, p.contract))
                for p in made
            ]
    except BaseException:
        _drop(made)
        raise


def _drop(parts: Iterable[PlacedPart]) -> None:
    for part in parts:
        if part.staged is not None:
            part.staged.drop()


def accounted(days: Sequence[date], records: Iterable[FileRecord], counts: Counts) -> Accounts:
    """Rows per day, file (path) and outcome; raises LandingError unless they are as many as the ledger counted."""
    accounts: Accounts = {d: {} for d in days}
    for record in records:
        for day in set(record.days) & set(accounts):
            outcomes = counts.get((day, record.sha256), {})
            if sum(outcomes.values()) != record.days[day][0]:
                raise LandingError(
                    f"the landed file {plain(record.path)}",
                    f"it has {record.days[day][0]} rows of {day}, Spark gave {sum(outcomes.values())}: {outcomes}",
                    "Nothing was written",
                    "Run `backfill-assets scan`; if it persists, keep the file and report this",
                )
            accounts[day][record.path] = dict(outcomes)
    return accounts
