"""The rows of a table for some days, as a plan that the engine has not run; and rows that an upsert by key keeps.

Not here: staging, auditing and committing (`derived`), copying kept rows (`lake.writing`). A merge keeps rows of a day
whose key the new rows lack. Mostly a correction removed or moved them, so a merge refuses without `--keep-removed`. A
day that keeps rows gets `Built.MERGED` and shows as outdated; no sensor rebuilds it for that, late data replaces it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Basis, Contract, Input
from backfill_assets.core.days import DayRange, contiguous, covering
from backfill_assets.core.digests import days_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import MERGE_KEEPING
from backfill_assets.core.receipts import KEPT, Built, DayEntry
from backfill_assets.core.states import States
from backfill_assets.core.view import LakeView
from backfill_assets.lake.audit import sample_keys
from backfill_assets.lake.columns import spark_name
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import Staged
from backfill_assets.lake.writing import keep_rows
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.load.steadiness import refuse_unsteady, settings_kept, telling_mistakes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN_RANGES = 5
SHOWN_KEYS = 3
MOST_SPANS = 8  # stale days far apart are computed apart; each span is one more plan for Spark to make (about 0.5 s)
ROWS_OF_A_PLAN = 100_000  # of so many between two spans, read and made, the work is no more than that of another plan


def made(request: RebuildRequest, states: States, todo: Sequence[date], settled: Collection[date]) -> "DataFrame":
    """The rows of the days to do, as a plan that Spark has not run."""
    table, spans = request.table, _spans(states.view, request.table.contract, todo)
    request.lake_session.expect(input_rows(states, table.contract, todo))
    wanted, frontier = frozenset(todo), states.frontier(table.name)
    parts = [Chunk(s, frontier, None if wanted.issuperset(s) else wanted.intersection(s)) for s in spans]
    made = [
        _of_its_span(_transformed(request.lake_session, states, table, p), table.contract, p.days, spans) for p in parts
    ]
    frame = made[0]
    for other in made[1:]:
        frame = frame.unionByName(other)
    return _without_days(frame, table.contract, [d for span in spans for d in span if d in settled])


def _spans(view: LakeView, contract: Contract, todo: Sequence[date]) -> list[DayRange]:
    """The ranges that are computed apart, settled days of few rows between them along with them. Days made from
    deliveries are one, however far apart they are: the same deliveries would be read for most of them."""
    if all(i.basis is Basis.ARRIVALS for i in contract.inputs):
        return covering(todo, 1)
    spans: list[DayRange] = []
    for span in covering(todo, MOST_SPANS):
        if spans and _rows_on(view, contract, DayRange(spans[-1].end, span.start)) < ROWS_OF_A_PLAN:
            spans[-1] = DayRange(spans[-1].start, span.end)
        else:
            spans.append(span)
    return spans


def _rows_on(view: LakeView, contract: Contract, days: DayRange) -> int:
    """How many rows a table and those that it is made from hold on these days, by their receipts."""
    stamps = [view.table(name).stamps for name in {contract.name, *(i.table for i in contract.inputs)}]
    return sum(found[d].entry.rows for found in stamps for d in days if d in found)


def input_rows(states: States, contract: Contract, todo: Iterable[date]) -> int:
    """About how many rows the input days of these days hold, by their receipts."""
    rows = 0
    for wanted in contract.inputs:
        stamps = states.view.table(wanted.table).stamps
        if wanted.basis is Basis.ARRIVALS:
            days = {a for d in todo for a, _ in states.view.source(wanted.table).arrivals.get(d, ())}
        else:
            days = {d for day in todo for d in days_of(wanted, day, states.view)}
        rows += sum(stamps[d].entry.rows for d in days if d in stamps)
    return rows


def _of_its_span(frame: "DataFrame", contract: Contract, span: DayRange, spans: Sequence[DayRange]) -> "DataFrame":
    """The rows made for one of several spans. One that lies on another day of the chunk loses its day: it would count
    as made for that day, so it is refused as rows without a day are."""
    from pyspark.sql import functions as F

    if len(spans) == 1:
        return frame
    day = frame[contract.day_column]
    own = day.between(F.lit(span.start), F.lit(span.last))
    other = day.between(F.lit(spans[0].start), F.lit(spans[-1].last))
    return frame.withColumn(contract.day_column, F.when(own | ~other, day))


def _without_days(frame: "DataFrame", contract: Contract, days: Collection[date]) -> "DataFrame":
    """The frame without the rows of these days. A row without a day stays: it is refused by name, never dropped."""
    if not days:
        return frame
    day = frame[contract.day_column]
    return frame.where(day.isNull() | ~day.isin(sorted(days)))


def _transformed(lake_session: LakeSession, states: States, table: Table, chunk: Chunk) -> "DataFrame":
    if table.transform is None:
        raise ValueError(f"{table.name} has no transform: it is loaded, not built")
    days = chunk.days
    frames = {i.table: _input_frame(lake_session, states, table.contract, i, chunk) for i in table.contract.inputs}
    session = lake_session.spark()
    with telling_mistakes(table), settings_kept(session, table):
        frame = table.transform(frames, chunk)
        refuse_unsteady(session, table, frame, frames, states.contracts)
    pending = [d for d in days if states.is_pending(table.contract, d)]
    # for what may not be learnt from while an input is missing
    dropped = [d for d in days if table.drops_incomplete and states.built_as(table.name, d) is Built.INCOMPLETE]
    return _without_days(frame, table.contract, [*pending, *dropped])


def _input_frame(
    lake_session: LakeSession, states: States, contract: Contract, wanted: Input, chunk: Chunk
) -> "DataFrame":
    """The input's days that the range needs, pinned at the version that the view saw (raw: that arrivals names)."""
    view, days = states.view, chunk.days
    upstream, version = states.contracts[wanted.table], version_read(view, wanted)
    if wanted.basis is Basis.ARRIVALS:
        source = view.source(wanted.table)
        listed = {a for d in chunk.wanted or days for a, _ in source.arrivals.get(d, ())}
        everything = len(listed) >= sum(1 for s in source.loaded.stamps.values() if s.entry.rows)
        days_read = None if everything else listed
        return _with_columns(lake_session.read(wanted.table, version, upstream.day_column, days_read), upstream)
    needed = {d for day in (days.start, days.last) for d in days_of(wanted, day, view)}
    span = DayRange(min(needed), contiguous(needed)[-1].end)
    frame = _with_columns(lake_session.read(wanted.table, version, upstream.day_column, span), upstream)
    return frame.select(*wanted.columns) if wanted.columns else frame


def _with_columns(frame: "DataFrame", contract: Contract) -> "DataFrame":
    """The columns of today's contract: what the table has not got yet is NULL, what it has beside them is left out."""
    from pyspark.sql import functions as F

    there = set(frame.columns)
    if there == set(contract.column_names):
        return frame
    absent = {c.name: F.lit(None).cast(spark_name(c.kind)) for c in contract.columns if c.name not in there}
    added = frame.withColumns(absent) if absent else frame  # Spark Connect refuses to add none
    return added.select(*contract.column_names)


def version_read(view: LakeView, wanted: Input) -> int:
    """The version of an input that a build reads and its receipt names: the head; of raw, what arrivals names."""
    if wanted.basis is Basis.ARRIVALS:
        return view.source(wanted.table).ledger.inputs[wanted.table]
    return view.table(wanted.table).version


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
        first, files = min(kept), [str(f.path) for f in staged.files[made:]]
        keys = ", ".join(sample_keys(lake, files, contract, first, "")[:SHOWN_KEYS])
        raise BackfillError(
            f"the table {contract.name}",
            f"{sum(kept.values())} row(s) that stand on {_listed(kept)} are not among those made now: a merge would "
            f"keep what a correction removed or moved; for example on {first}: {keys}",
            "Nothing was written",
            "Plan with --write-mode overwrite, which takes them away, or with --keep-removed if they are to stay",
        )
    return kept


def as_merged(entry: DayEntry, kept: int) -> DayEntry:
    """Entry of a day that keeps `kept` rows; unchanged for 0."""
    return replace(entry, built=Built.MERGED, counts={**entry.counts, KEPT: kept}) if kept else entry


def _listed(days: Mapping[date, int] | Sequence[date]) -> str:
    spans = contiguous(days)
    return ", ".join(map(str, spans[:SHOWN_RANGES])) + (", ..." if len(spans) > SHOWN_RANGES else "")
