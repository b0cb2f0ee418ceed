"""The write mode `merge`: upsert by key. Rows of a day stay where the new rows have no such key.

Here: which tables and days may be merged, and the refusal to keep rows without `--keep-removed`. Not here: copying kept
rows (`lake.writing`) and the states of merged days (`core.states`).

A row that the new rows lack was mostly removed by a correction, or moved to another day; no landed delivery accounts
for it. So a merge that would keep one refuses without `--keep-removed`. A day that keeps rows gets `Built.MERGED` and
shows as outdated: no sensor rebuilds it for that; a plain backfill or late data replaces it. A merge that keeps no row
is an overwrite.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import contiguous
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import MERGE_KEEPING
from backfill_assets.core.receipts import KEPT, Built, DayEntry
from backfill_assets.core.states import States
from backfill_assets.lake.audit import sample_keys
from backfill_assets.lake.home import Lake
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.writing import keep_rows
from backfill_assets.load.candidate import RebuildRequest

SHOWN_RANGES = 5
SHOWN_KEYS = 3


def refuse_merge(contract: Contract, asked: Iterable[Contract] = ()) -> None:
    """Raise BackfillError where a table cannot be merged: landed tables, and tables with several days in a file. The
    advice names those of the tables `asked` for that can be."""
    if culprit := _unfit(contract):
        fit = ",".join(c.name for c in asked if not _unfit(c))
        raise BackfillError(
            f"the table {contract.name}", f"its days cannot be merged: {culprit}", "Nothing was written",
            f"Leave it out of the plan (--tables{fit and f' {fit}'}), or use --write-mode overwrite",
        )  # fmt: skip


def _unfit(contract: Contract) -> str:
    if contract.is_landed:
        return "it holds every delivery that landed, which is loaded as a whole or not at all"
    return "its files hold several days each" if contract.partition_column != contract.day_column else ""


def merged(request: RebuildRequest, states: States, staged: Staged, days: Sequence[date]) -> Mapping[date, int]:
    """Add to `staged` the rows of `days` that the new rows lack, and return their number per day.

    Empty where the request does not merge. Raises BackfillError where rows would be kept without `MERGE_KEEPING`, and
    for days that are not complete.
    """
    if not request.merges:
        return {}
    contract, lake = request.table.contract, request.lake_session.lake
    refuse_merge(contract)
    made = len(staged.files)
    kept = keep_rows(lake, contract, staged, states.view.table(contract.name).version, days)
    unready = [d for d in kept if states.built_as(contract.name, d) is not Built.COMPLETE]
    if unready:
        raise BackfillError(
            f"the table {contract.name}",
            f"{_listed(unready)} cannot be merged: its cut has not come, or required input days are missing",
            "Nothing was written",
            "Name days without them, or use --write-mode overwrite",
        )
    if kept and request.mode != MERGE_KEEPING:
        raise _removed(lake, contract, kept, [str(f.path) for f in staged.files[made:]])
    return kept


def as_merged(entry: DayEntry, kept: int) -> DayEntry:
    """Entry of a day that keeps `kept` rows; unchanged for 0."""
    return replace(entry, built=Built.MERGED, counts={**entry.counts, KEPT: kept}) if kept else entry


def _removed(lake: Lake, contract: Contract, kept: Mapping[date, int], files: Sequence[str]) -> BackfillError:
    first = min(kept)
    keys = sample_keys(lake, files, contract, first, "")[:SHOWN_KEYS]
    return BackfillError(
        f"the table {contract.name}",
        f"{sum(kept.values())} row(s) that stand on {_listed(kept)} are not among those made now: a merge would keep "
        f"what a correction removed or moved; for example on {first}: {', '.join(keys)}",
        "Nothing was written",
        "Plan with --write-mode overwrite, which takes them away, or with --keep-removed if they are to stay",
    )


def _listed(days: Mapping[date, int] | Sequence[date]) -> str:
    spans = contiguous(days)
    return ", ".join(map(str, spans[:SHOWN_RANGES])) + (", ..." if len(spans) > SHOWN_RANGES else "")
