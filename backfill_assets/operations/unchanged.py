"""Whether a backfill would change nothing: known from receipts, ledgers and the landing folder, so that no run is made.

Lives here: that one question, and what such a backfill says of its tables. Does not live here: what is settled
(`core.states`), the gates (`load.judging`), and runs. Whatever is not plainly settled, a file that landed, a day that a
gate refuses, is a run's affair, which tells it and acts on it. Nothing is told to Dagster here.
"""

from collections.abc import Sequence

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.frontier import recorded
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.view import read_view
from backfill_assets.load.derived import refuse_unbuildable
from backfill_assets.load.judging import judged_by_receipts
from backfill_assets.load.known import is_scanned


def unchanged_rows(lake: Lake, pipeline: Pipeline, names: Sequence[str], days: DayRange) -> dict[str, int] | None:
    """The rows that these days hold per table, if a run of them, in order, would compute nothing, write nothing and
    refuse nothing; else None. Reads only; holds no lock."""
    states = pipeline.states(read_view(lake, pipeline.contracts))
    doubted = any(source.doubted_arrivals() for source in states.view.sources.values())
    if doubted or not all(states.is_settled(name, d) for name in names for d in days):
        return None
    if any(states.contracts[name].is_landed for name in names) and not _is_loaded(lake, states):
        return None
    if not all(_is_let_through(lake, states, name, days) for name in names):
        return None
    return {name: sum(_rows(states, name, days)) for name in names}


def _rows(states: States, name: str, days: DayRange) -> list[int]:
    stamps = states.view.table(name).stamps
    return [stamps[d].entry.rows for d in days]


def _is_loaded(lake: Lake, states: States) -> bool:
    """Whether a load would find nothing that landed, and no `as_of` that was lowered."""
    as_of = states.view.as_of
    named = [recorded(source.ledger, source) for source in states.view.sources.values()]
    lowered = as_of is not None and any(f is not None and f > as_of for f in named)
    return not lowered and is_scanned(LakeSession(lake))


def _is_let_through(lake: Lake, states: States, name: str, days: DayRange) -> bool:
    try:
        refuse_unbuildable(states, states.contracts[name], days)
    except BackfillError:
        return False
    gates = lake.settings.gates
    if name not in gates.tables and gates.incomplete != "refuse":
        return True  # what was written passed all that no setting moves
    findings = judged_by_receipts(lake.settings, states, states.contracts[name], list(days))
    return not any(f.refuses for found in findings.values() for f in found)
