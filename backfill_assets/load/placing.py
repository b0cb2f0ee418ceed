"""Placing judged rows: each landed row of a load ends in raw, quarantine, `too_late` or as a duplicate, and is counted.

Lives here: the short way (rows are written as they are read; what was written shows whether a number came twice), the
careful way (a window over all rows of a day, kept for several passes), and the account of both. Does not live here:
judging a row by itself (`deliveries`) and the commits (`raw`).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import LandingError
from backfill_assets.core.payload import LANDED
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.texts import plain
from backfill_assets.lake.audit import audit, count_rows
from backfill_assets.lake.ledger import QUARANTINE, FileRecord, of_source
from backfill_assets.lake.session import LakeSession, free
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.too_late import contract_of
from backfill_assets.lake.writing import conform, stage
from backfill_assets.load.deliveries import split_day_rows
from backfill_assets.load.phases import Phases
from backfill_assets.load.steadiness import refuse_changed_settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Accounts = dict[date, dict[str, dict[str, int]]]
Counts = Mapping[tuple[date, str], Mapping[str, int]]  # of an arrival day and content: rows per outcome


@dataclass(frozen=True)
class LandedRows:
    """What a load has to place: the contents by sha256, the due days, and how to get the judged rows of contents."""

    lake_session: LakeSession
    contract: Contract
    records: Mapping[str, FileRecord]
    days: Sequence[date]
    judged: "Callable[[Sequence[FileRecord]], DataFrame]"
    phases: Phases

    @property
    def quarantine(self) -> Contract:
        """The ledger that takes the rows which cannot be deliveries."""
        return of_source(QUARANTINE, self.contract.source)

    def with_bad_rows(self) -> list[FileRecord]:
        """The contents with a row, on one of the days, that the scan found to be unusable."""
        days = set(self.days)
        return [r for r in self.records.values() if any(bad for d, (_, bad, _) in r.days.items() if d in days)]


@dataclass(frozen=True)
class PlacedPart:
    """The rows of a load for one table, staged and audited; None where it has none."""

    contract: Contract
    staged: Staged | None = None
    profiles: Mapping[date | None, DayProfile] = field(default_factory=dict)

    def drop(self) -> None:
        """Delete what was staged and not published."""
        if self.staged is not None:
            self.staged.drop()


@dataclass(frozen=True)
class Placed:
    """The parts of a load, and per arrival day and path of a file the rows of each outcome."""

    raw: PlacedPart
    beyond: PlacedPart
    kept: PlacedPart
    accounts: Accounts

    def drop(self) -> None:
        """Delete what was staged and not published."""
        for part in (self.raw, self.beyond, self.kept):
            part.drop()


def place(landed: LandedRows, late: "Column", *, simple: bool) -> Placed:
    """The landed rows in their places. `simple`: no row can be too late or not due yet, so that only rows which share
    a number within their day need the careful way. Raises LandingError where the account does not add up.
    """
    if not landed.records:
        return Placed(*_no_rows(landed), {d: {} for d in landed.days})
    return (_short_way(landed) if simple else None) or _careful_way(landed, late)


def _no_rows(landed: LandedRows) -> tuple[PlacedPart, PlacedPart, PlacedPart]:
    return PlacedPart(landed.contract), PlacedPart(contract_of(landed.contract)), PlacedPart(landed.quarantine)


def _short_way(landed: LandedRows) -> Placed | None:
    """Read, judged and written once; None where a number came twice within a day. Files without bad rows are read
    once, the others a second time for these."""
    columns, bad = landed.contract.column_names, landed.with_bad_rows()
    good = landed.judged(list(landed.records.values())).where("reason IS NULL").select(*columns)
    unusable = landed.judged(bad).where("reason IS NOT NULL").select(*QUARANTINE.column_names) if bad else None
    raw, kept = _staged_parts(landed, [(landed.contract, good), (landed.quarantine, unusable)])
    try:
        if any(p.duplicates for p in raw.profiles.values()):
            raw.drop()
            kept.drop()
            return None
        counts: dict[tuple[date, str], dict[str, int]] = defaultdict(dict)
        for outcome, part in ((landed.contract.name, raw), (QUARANTINE.name, kept)):
            files = part.staged.paths if part.staged else []
            for day, sha256, rows in count_rows(landed.lake_session.lake, files, part.contract, _OF):
                counts[day, sha256][outcome] = rows
        return Placed(raw, PlacedPart(contract_of(landed.contract)), kept, _accounts(landed, counts))
    except BaseException:
        raw.drop()
        kept.drop()
        raise


_OF = ("source_file",)  # per arrival day


def _careful_way(landed: LandedRows, late: "Column") -> Placed:
    contract, judged = landed.contract, landed.judged(list(landed.records.values()))
    delivered = [c for c in contract.column_names if c not in LANDED]
    rows = split_day_rows(judged, late, contract.name, delivered).persist()
    try:
        counts: dict[tuple[date, str], dict[str, int]] = defaultdict(dict)
        with landed.phases.phase("read"):
            found = rows.groupBy("arrival_date", "sha256", "outcome").count().collect()
        for row in found:
            counts[row["arrival_date"], row["sha256"]][row["outcome"]] = row["count"]
        accounts = _accounts(landed, counts)
        wanted_rows = (rows.where(f"outcome = '{o}'") for o in (contract.name, "too late"))
        good, late_rows = (r.select(*contract.column_names) for r in wanted_rows)
        bad = rows.where(f"outcome = '{QUARANTINE.name}'").select(*QUARANTINE.column_names)
        parts = (
            (contract, good, contract.name),
            (contract_of(contract), late_rows, "too late"),
            (landed.quarantine, bad, QUARANTINE.name),
        )
        outcomes = {o for by_outcome in counts.values() for o in by_outcome}
        wanted = [(c, f) if o in outcomes else (c, None) for c, f, o in parts]
        raw, beyond, kept = _staged_parts(landed, wanted)
        return Placed(raw, beyond, kept, accounts)
    finally:
        free(rows)


def _staged_parts(landed: LandedRows, wanted: "Sequence[tuple[Contract, DataFrame | None]]") -> list[PlacedPart]:
    """The parts of a load, staged and audited; all dropped where one fails."""
    made, session, days = list[PlacedPart](), landed.lake_session, len(landed.days)
    try:
        with landed.phases.phase("write"):
            refuse_changed_settings(session.spark(), f"the table {wanted[0][0].name}")
            for contract, frame in wanted:
                staged = stage(session.lake, contract, conform(frame, contract), days) if frame else None
                made.append(PlacedPart(contract, staged))
        with landed.phases.phase("audit"):
            return [
                p if p.staged is None else replace(p, profiles=audit(session.lake, p.staged.paths, p.contract))
                for p in made
            ]
    except BaseException:
        for part in made:
            part.drop()
        raise


def _accounts(landed: LandedRows, counts: Counts) -> Accounts:
    """Rows per day, file (path) and outcome; raises LandingError unless they add up to what the ledger counted."""
    accounts: Accounts = {d: {} for d in landed.days}
    for record in landed.records.values():
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
