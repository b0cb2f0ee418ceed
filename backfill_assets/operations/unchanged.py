"""What a backfill will come to, from receipts, ledgers and the landing folder: nothing, or a run that needs the engine.

Not here: the states (`core.states`), the gates (`load.judging`), and runs. In doubt (a landed file, a day that a gate
refuses) there is a run. Dagster gets no event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.frontier import is_lowered
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.view import read_view
from backfill_assets.load.derived import refuse_unbuildable
from backfill_assets.load.judging import judged_by_receipts
from backfill_assets.load.landed_changes import landed


@dataclass(frozen=True)
class Foreseen:
    """The outcome of a backfill: `rows` per table where a run would compute, write and refuse nothing; else None, and
    whether the run surely needs the engine."""

    rows: Mapping[str, int] | None
    needs_engine: bool = False


def foreseen(lake: Lake, pipeline: Pipeline, names: Sequence[str], days: DayRange, force: bool = False) -> Foreseen:
    """Foresee a run of these tables, upstream first. Reads only; holds no lock."""
    states = pipeline.states(read_view(lake, pipeline.contracts))
    lands = any(states.contracts[name].is_landed for name in names)
    there = landed(LakeSession(lake)) if lands else None
    open_ones = [name for name in names if force or not all(states.is_settled(name, d) for d in days)]
    unsound = any(source.doubted_arrivals() or is_lowered(source) for source in states.view.sources.values())
    refused = unsound or (there is not None and bool(there.disputed))
    if open_ones or refused or not (there is None or there.is_scanned):
        counts = there is not None and there.counts_rows
        builds = bool(open_ones) and _is_buildable(states, open_ones[0], days)
        return Foreseen(None, not refused and (counts or builds))
    if not all(_is_let_through(lake, states, name, days) for name in names):
        return Foreseen(None)
    stamps = {name: states.view.table(name).stamps for name in names}
    return Foreseen({name: sum(stamps[name][d].entry.rows for d in days) for name in names})


def _is_buildable(states: States, name: str, days: DayRange) -> bool:
    try:
        refuse_unbuildable(states, states.contracts[name], days)
    except BackfillError:
        return False
    return True


def _is_let_through(lake: Lake, states: States, name: str, days: DayRange) -> bool:
    gates = lake.settings.gates
    if name not in gates.tables and gates.incomplete != "refuse":
        return _is_buildable(states, name, days)  # what was written passed all that no setting moves
    findings = judged_by_receipts(lake.settings, states, states.contracts[name], list(days))
    return _is_buildable(states, name, days) and not any(f.refuses for found in findings.values() for f in found)
