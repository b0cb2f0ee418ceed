"""The rows of a table for some days: planned over pinned inputs, computed and staged, and of a
user's code compared.

One day of a user's code is computed again, in another order. Not here: auditing and committing rows
(`derived`), checks of a transform before it runs (`engines.steadiness`), and days of receipts
(`recompute`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.contracts import Contract, Input, InputKind
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges, covering_ranges
from backfill_assets.kernel.core.digests import input_days_of
from backfill_assets.kernel.core.errors import (
    OTHER_ROWS_AGAIN,
    OTHER_ROWS_ALONE,
    ContractBroken,
)
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import LakeView, TableView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.model import Chunk, Table
from backfill_assets.kernel.write.session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Stale days far apart are computed apart; each span is one more plan for Spark to make (about 0.5
# s).
MOST_SPANS = 8
ROWS_OF_A_PLAN = 100_000  # read and made: so many rows cost no more than a further plan


def plan_rows(request: RebuildRequest, states: States, todo: Sequence[date]) -> "DataFrame":
    """Plan the rows of the days `todo`; Spark has not run it."""
    table = request.table
    contract = request.table.contract
    wanted = frozenset(todo)
    spans = _spans_to_compute(states.view, contract, todo)
    frontier = states.frontier(table.name)
    request.lake_session.expect(input_rows(states.view, contract, todo))
    frames, left_out = [], set[date]()
    for span in spans:
        keys = contract.calendar.keys_in(span)
        chosen = wanted.intersection(keys)
        chunk = Chunk(span, frontier, None if len(chosen) == len(span) else chosen)
        frame = _transformed_frame(request.lake_session, states, table, chunk)
        frames.append(_within_span(frame, contract, span, spans))
        left_out.update(span if contract.calendar.is_of_days else keys)
    rows = reduce(lambda one, other: one.unionByName(other), frames)
    left_out -= wanted
    left_out |= {day for day in wanted if _stays_empty(states, table, day)}
    return _without_days(rows, contract, left_out)


def _stays_empty(states: States, table: Table, day: date) -> bool:
    """Whether the cutoff of a day is not loaded, or the day must be complete and lacks an input."""
    if states.is_pending(table.contract, day):
        return True
    return table.drops_incomplete and bool(states.missing_inputs(table.name, day))


def _spans_to_compute(view: LakeView, contract: Contract, todo: Sequence[date]) -> list[DayRange]:
    """Ranges to compute apart: one where the table and its inputs have few rows on its days, by
    their receipts. Days whose input is deliveries form one, however far apart they are: most of
    them would read the same deliveries. So do days that are nearer than their windows are long,
    which would read more input days apart than the gap has."""
    covered = {day for key in todo for day in contract.calendar.span(key)}
    (whole,) = covering_ranges(covered, 1)
    if all(wanted.kind is InputKind.ARRIVALS for wanted in contract.inputs):
        return [whole]
    names = {contract.name, *(wanted.table for wanted in contract.inputs)}
    rows = sum(_rows_on(view.table(name), whole) for name in names)
    if rows < ROWS_OF_A_PLAN:
        return [whole]
    reach = max((i.before + i.after for i in contract.inputs if i.is_daily), default=0)
    return covering_ranges(covered, MOST_SPANS, apart=reach)


def _rows_on(view: TableView, days: Iterable[date]) -> int:
    """The rows of these days by their receipts."""
    return sum(view.latest[day].entry.rows for day in days if day in view.latest)


def days_read(view: LakeView, wanted: Input, days: Iterable[date]) -> set[date]:
    """Days of the input `wanted` that `days` read; of deliveries the days that the ledger lists."""
    read = set[date]()
    if wanted.kind is InputKind.ARRIVALS:
        arrivals = view.source(wanted.table).arrivals
        for day in days:
            read.update(arrival for arrival, _ in arrivals.get(day, ()))
        return read
    for day in days:
        read.update(input_days_of(wanted, day, view))
    return read


def input_rows(view: LakeView, contract: Contract, todo: Iterable[date]) -> int:
    """Estimate how many rows the days `todo` read from all inputs, by receipts."""
    return sum(_rows_on(view.table(i.table), days_read(view, i, todo)) for i in contract.inputs)


def _within_span(
    frame: "DataFrame", contract: Contract, span: DayRange, spans: Sequence[DayRange]
) -> "DataFrame":
    """Rows computed for `span`. A row on another day of the chunk loses its day, and is refused
    like rows without a day."""
    from pyspark.sql import functions as F

    if len(spans) == 1:
        return frame
    day = frame[contract.day_column]
    own = day.between(F.lit(span.start), F.lit(span.last))
    other = day.between(F.lit(spans[0].start), F.lit(spans[-1].last))
    return frame.withColumn(contract.day_column, F.when(own | ~other, day))


def _without_days(frame: "DataFrame", contract: Contract, days: Collection[date]) -> "DataFrame":
    """The frame without the rows of these days. A row without a day stays: it is refused by name,
    never dropped."""
    if not days:
        return frame
    day = frame[contract.day_column]
    return frame.where(day.isNull() | ~day.isin(sorted(days)))


def _transformed_frame(
    lake_session: Session, states: States, table: Table, chunk: Chunk
) -> "DataFrame":
    frames = {i.table: _input_frame(lake_session, states, i, chunk) for i in table.contract.inputs}
    return lake_session.transformed_frame(table, frames, chunk, states.contracts)


def _input_frame(lake_session: Session, states: States, wanted: Input, chunk: Chunk) -> "DataFrame":
    """Read the input days that the chunk needs, at the version in the view (raw: the version that
    its ledger names)."""
    view, upstream = states.view, states.contracts[wanted.table]
    days: Iterable[date] | None
    if wanted.kind is InputKind.ARRIVALS:
        days = _arrival_days(view, wanted, chunk)
    else:
        edges = (chunk.days.start, chunk.days.last)
        needed = contiguous_ranges(days_read(view, wanted, edges))
        # None, for days before the first month of the input.
        days = DayRange(needed[0].start, needed[-1].end) if needed else ()
    read = lake_session.read(wanted.table, version_read(view, wanted), upstream.day_column, days)
    frame = _with_columns(read, upstream)
    return frame.select(*wanted.columns) if wanted.columns else frame


def _arrival_days(view: LakeView, wanted: Input, chunk: Chunk) -> set[date] | None:
    """The days whose deliveries the chunk reads; None: every day."""
    listed = days_read(view, wanted, chunk.wanted or chunk.days)
    loaded = view.source(wanted.table).loaded.latest.values()
    with_rows = sum(1 for receipt in loaded if receipt.entry.rows)
    return None if len(listed) >= with_rows else listed


def _with_columns(frame: "DataFrame", contract: Contract) -> "DataFrame":
    """Select the columns of today's contract: NULL for a column that the frame lacks; further ones
    are dropped."""
    from pyspark.sql import functions as F

    present = set(frame.columns)
    if present == set(contract.column_names):
        return frame
    absent = [column for column in contract.columns if column.name not in present]
    if absent:  # Spark Connect refuses to add none
        frame = frame.withColumns({c.name: F.lit(None).cast(c.kind.spark) for c in absent})
    return frame.select(*contract.column_names)


def version_read(view: LakeView, wanted: Input) -> int:
    """Version of an input that a build reads and its receipt names: the head; for raw, that in its
    ledger."""
    if wanted.kind is InputKind.ARRIVALS:
        return view.source(wanted.table).ledger.inputs[wanted.table]
    return view.table(wanted.table).version


# Some hundred thousand rows: one day of them is cheap to compute twice.
ALWAYS_ALONE_BYTES = 4 * 2**20


def stage_days(request: RebuildRequest, states: States, todo: Sequence[date]) -> Staged:
    """Compute and stage the rows of the days `todo`. The caller deletes what it returns."""
    contract = request.table.contract
    if request.given is not None:
        with request.phases.phase("write"):
            return request.given.stage()
    with request.phases.phase("transform"):
        frame = plan_rows(request, states, todo)
    with request.phases.phase("write"):
        request.lake_session.refuse_changed_settings(f"the table {contract.name}")
        return request.lake_session.write(contract, frame, len(todo))


def refuse_dependent_days(
    request: RebuildRequest, states: States, staged: Staged, days: Sequence[date]
) -> None:
    """Compute the middle one of these days again, alone, from input rows in another order and other
    partitions, and raise ContractBroken if its rows differ from the rows in `staged`: a join or
    window that does not name the day reads rows of the other days that a run hands over at once;
    chance, a tie, a list as it comes, a sum of DOUBLEs give others.

    Done at the first write by each version of a table's code, at its first write of several days,
    and at later ones of little data: the days of the first one may have had no key in common. For
    no table of this package, and not where rows of other days came, which are refused by name. A
    tie that does not show on that day waits for `prove`.
    """
    table, asked = request.table, {str(d) for d in days}
    if request.given is not None or not table.brings_code:
        return
    if table.contract.is_by_day and {f.partition for f in staged.files} - asked:
        return
    if _has_passed_before(states, table.name, staged, len(days)):
        return
    day = days[len(days) // 2]
    lake = request.lake_session.lake
    contract = table.contract
    reordered = replace(request, lake_session=request.lake_session.reordered())
    with request.phases.phase("alone"):
        alone = stage_days(reordered, states, [day])
        try:
            sides = _files_of_day(contract, staged, day), _files_of_day(contract, alone, day)
            one, other = (_day_content(lake, contract, files, day) for files in sides)
            if one != other:
                changes = _changes_in_words(lake, contract, sides, day)
                raise _dependence_error(table.name, day, len(days), changes)
        finally:
            alone.drop()


def _files_of_day(contract: Contract, staged: Staged, day: date) -> list[str]:
    """The paths of staged files that may hold rows of a day."""
    return [f.path for f in staged.files if not contract.is_by_day or f.partition == str(day)]


def _day_content(
    lake: Lake, contract: Contract, files: Sequence[str], day: date
) -> tuple[int, str, int]:
    """Rows, fingerprint and scheme of a day in these files."""
    return audit_files(lake, files, contract).get(day, DayProfile()).content


def _changes_in_words(
    lake: Lake, contract: Contract, sides: Sequence[Sequence[str]], day: date
) -> str:
    """How the rows of a day in two sets of files differ, as far as a room can say it."""
    say = offered_function("day_changes")
    return "by their fingerprints" if say is None else str(say(lake, contract, *sides, day))


def _dependence_error(table: str, day: date, days: int, changes: str) -> ContractBroken:
    what = f"{OTHER_ROWS_ALONE} {days} days" if days > 1 else OTHER_ROWS_AGAIN
    return ContractBroken(
        f"the transform of {table}",
        f"{day} {what}: {changes}",
        "Nothing was written",
        "A run hands over all its days at once, in no order: join and aggregate within the window "
        "of each row's own day, order by columns that hold the key, sort lists, sum DECIMALs in "
        "place of DOUBLEs, take chance from a hash of the key (`backfill-assets guide "
        "own-tables`)",
    )


def _has_passed_before(states: States, table: str, staged: Staged, days: int) -> bool:
    """Whether today's code made a present day before, and, for a write of several days that is not
    small, several present days by one write."""
    codes, writes = states.codes[table], Counter[int]()
    for receipt in states.view.table(table).latest.values():
        if codes.are_of(receipt):
            writes[receipt.version] += 1
    most_at_once = max(writes.values(), default=0)
    if days == 1:
        return most_at_once > 0
    return most_at_once > 1 and sum(f.size for f in staged.files) > ALWAYS_ALONE_BYTES
