"""Up-to-date days computed again from the same inputs, and compared with what was written; commits nothing.

Not here: the engine that computes them and the report (`operations.check_engine`). A day from which a rebuild would
make other rows anyway is passed over, with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.days import from_inclusive
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.receipts import Built
from backfill_assets.core.states import States
from backfill_assets.core.view import Stamp
from backfill_assets.engine.session import open_session
from backfill_assets.lake.differences import DayDifference, SampleRow, Sides, differences
from backfill_assets.lake.session import LakeSession, telling_losses
from backfill_assets.lake.staging import Staged
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.declared_limits import refuse_settings
from backfill_assets.load.derived import profiled, written
from backfill_assets.load.raw import placed_again

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_COMPARABLE = {
    Built.HELD: "a rollback put it back", Built.MERGED: "a merge kept rows that its inputs do not give",
    Built.PENDING: "it is pending, and empty on purpose",
}  # fmt: skip
Stamps = Mapping[date, Stamp]


@dataclass(frozen=True)
class SessionElsewhere(LakeSession):
    """A lake's session on a server of its own, whose state lies in the folder `home` and not in the lake's."""

    home: Path = Path()

    def spark(self) -> "SparkSession":
        """A live session on that server, started if need be."""
        return open_session(self.home, self.engine)


@dataclass(frozen=True)
class Recomputed:
    """One day: its rows as written and as computed again, and whether their fingerprints are equal; or why it was
    passed over (`passed_over`, "" where it was computed)."""

    day: date
    rows: int
    rows_again: int = 0
    equal: bool = True
    passed_over: str = ""


@dataclass(frozen=True)
class RecomputeVerdict:
    """The days of a table computed again, and the differences of those whose rows are others."""

    table: str
    days: tuple[Recomputed, ...]
    differing: tuple[DayDifference, ...] = ()
    samples: tuple[SampleRow, ...] = ()


@telling_losses()
def recompute(request: RebuildRequest) -> RecomputeVerdict:
    """Compute the days of the request on the engine of its session, and compare each with its receipt.

    Commits nothing and deletes what it staged. Raises what a rebuild raises before its commit.
    """
    refuse_settings(request.lake_session.lake.settings, request.pipeline.contracts, request.table.name)
    states, table = request.states(), request.table
    stamps = {d: s for d in request.days if (s := states.stamp(table.name, d)) is not None}
    passed = {d: why for d, s in stamps.items() if (why := _passed_over(states, table.name, d, s))}
    todo = {d: s for d, s in stamps.items() if d not in passed}
    found = RecomputeVerdict(table.name, ())
    if todo:
        found = _recomputed(replace(request, days=from_inclusive(min(todo), max(todo))), states, todo)
    skipped = (Recomputed(d, stamps[d].entry.rows, passed_over=why) for d, why in passed.items())
    return replace(found, days=tuple(sorted((*skipped, *found.days), key=lambda d: d.day)))


def _passed_over(states: States, table: str, day: date, stamp: Stamp) -> str:
    """Why a day cannot be compared with its receipt; "" where it can."""
    if stamp.entry.built in NOT_COMPARABLE:
        return NOT_COMPARABLE[stamp.entry.built]
    if not states.codes[table].are_of(stamp):
        return "it was made with other code or settings"
    return "" if states.is_settled(table, day) else "its inputs changed since, or another program wrote it"


def _recomputed(request: RebuildRequest, states: States, stamps: Stamps) -> RecomputeVerdict:
    """Stage the days, compare them, and delete what was staged."""
    if request.table.is_landed:
        source = request.lake_session.of_source(request.table.contract.source)
        placed = placed_again(replace(request, lake_session=source), states, sorted(stamps))
        try:
            return _compared(request, stamps, placed.raw.staged, placed.raw.profiles)
        finally:
            placed.drop()
    staged = written(request, states, sorted(stamps))
    try:
        return _compared(request, stamps, staged, profiled(request, staged))
    finally:
        staged.drop()


def _compared(
    request: RebuildRequest, stamps: Stamps, staged: Staged | None, profiles: Mapping[date | None, DayProfile]
) -> RecomputeVerdict:
    """Each day beside its receipt; rows of other days are left out."""
    lake, contract, found = request.lake_session.lake, request.table.contract, []
    for day, stamp in stamps.items():
        again = profiles.get(day, DayProfile())
        found.append(Recomputed(day, stamp.entry.rows, again.rows, stamp.entry.agrees_with(again)))
    differing = [d.day for d in found if not d.equal]
    if not differing:
        return RecomputeVerdict(contract.name, tuple(found))
    before = {f for d in differing for f in lake.store.data_files(contract, stamps[d].version, [d])}
    after = [str(f.path) for f in staged.files if f.day in differing] if staged is not None else []
    told = differences(lake, contract, Sides(sorted(before), after, from_inclusive(min(differing), max(differing))))
    return RecomputeVerdict(contract.name, tuple(found), told.days, told.samples)
