"""What the ledger `files` says of each arrival day, as the receipts of its commits name it.

A commit names the days that it changes in its receipt, as every other table's do: how many contents
there are, the digest of their names, their usable rows. So a look folds receipts, beside the
table's kept states, and reads no row of the ledger, however much ever landed. Not here: what
the rows are (`ledger`), what they are appended for (`scan`), and folding receipts
(`kernel.log.log_state`).
Where a commit of ours moved rows and names no days (of an earlier release, or one that mended the
table), the days follow from all rows, until the next scan names them all.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_assets.intake.ledger import (
    FILES,
    Event,
    FileRecord,
    landed_days,
    ledger_of_source,
    read_events,
    records_of,
)
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.ledgers import source_table_name
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.core.view import LandedDay, TableView
from backfill_assets.kernel.tables.columns import arrow_type
from backfill_assets.kernel.tables.folder import LakeFolder
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import (
    Staged,
    begin_staging,
    fill_staging,
    sweep_writes,
)
from backfill_assets.kernel.tables.store import TableStore

if TYPE_CHECKING:
    import pyarrow.compute as pc

EventReader = Callable[["pc.Expression"], Sequence[Event]]
RULES = 1  # raised when the same events say something else of a day
CONTENTS = "contents"  # the count of a day's entry
NOBODY = DayEntry(0, "", "", counts={CONTENTS: 0})  # of a day that no content names any more


def landed_by_day(lake: Lake, source: str) -> Mapping[date, LandedDay]:
    """The landed days of a source; without the names of their contents where receipts name the
    days."""
    store, rules = lake.store, _rules(are_dumps(lake, source))
    table = source_table_name(FILES.name, source)

    def read() -> Mapping[date, LandedDay]:
        view = store.view(table, FILES.day_column)
        named_days = _named_days(store, view, table, rules)
        return _days_of_all(lake, source) if named_days is None else named_days

    return store.kept(table, f"landed days by {rules}", read)


def with_names(
    lake: Lake, source: str, landed: Mapping[date, LandedDay], days: Collection[date]
) -> Mapping[date, LandedDay]:
    """The landed days, those among `days` with the names of their contents."""
    lacking = sorted(d for d in days if d in landed and landed[d].names is None)
    if not lacking:
        return landed

    def read() -> Mapping[date, LandedDay]:
        """The days that lack names, by their events; of dumps all days, which follow from each
        other."""
        if are_dumps(lake, source):
            return _days_of_all(lake, source)
        found = landed_days(records_around(event_reader(lake.store, source), of_days(lacking)))
        return {day: found[day] for day in lacking}

    name = f"contents of {digest_of(list(map(str, lacking)))}"
    return {**landed, **lake.store.kept(source_table_name(FILES.name, source), name, read)}


def are_dumps(lake: Lake, source: str) -> bool:
    """Whether a source delivers dumps: what vanished from a day's follows from the one before."""
    own = source == lake.source  # of a lake of several sources, or as one of them sees it
    settings = lake.settings.delivered.get("" if own else source)
    return settings is not None and settings.kind == "snapshot"


def append_events(lake: Lake, rows: Sequence[Sequence[object]], reason: str, note: str) -> None:
    """Append rows (cells in the order of the columns) to the ledger of the lake's source, in one
    commit that names the days which they change. Without rows it names all days where the commits
    before do not, and else writes nothing."""
    contract = ledger_of_source(FILES, lake.source)
    if not rows and (not lake.store.exists(contract.name) or names_days(lake)):
        return
    staged = stage_rows(lake, contract, rows) if rows else begin_staging(lake, contract)
    receipt = Receipt(
        write_id=staged.write_id, table=contract.name, reason=reason, days={}, note=note
    )
    events = [dict(zip(contract.column_names, row, strict=True)) for row in rows]
    try:
        with lake.store.lock(contract.name):
            sweep_writes(lake, contract.name, staged.write_id)
            lake.store.append(contract, staged, _with_named_days(lake, contract, events, receipt))
    finally:
        staged.drop()


def stage_rows(lake: LakeFolder, contract: Contract, rows: Sequence[Sequence[Any]]) -> Staged:
    """Write a few rows, cells in the contract's order, to one file by pyarrow, for a table without
    partitions.

    Timestamps are aware.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with fill_staging(lake, contract) as staged:
        columns = zip(contract.columns, zip(*rows, strict=True), strict=True)
        table = pa.table(
            {c.name: pa.array(list(cells), arrow_type(c.kind)) for c, cells in columns}
        )
        pq.write_table(table, staged.folder / "part-0.parquet", compression="zstd")
        staged.files = staged.found("")
    return staged


def names_days(lake: Lake) -> bool:
    """Whether the receipts of the ledger of the lake's source name all landed days."""
    table = source_table_name(FILES.name, lake.source)
    view = lake.store.view(table, FILES.day_column)
    rules = _rules(are_dumps(lake, lake.source))
    return _named_days(lake.store, view, table, rules) is not None


def _with_named_days(
    lake: Lake, contract: Contract, events: Sequence[Event], receipt: Receipt
) -> Receipt:
    """The receipt of the next commit, which appends these events, with the days that they change;
    with all days, where the commits before do not name theirs."""
    store, is_of_dumps = lake.store, are_dumps(lake, lake.source)
    rules, view = _rules(is_of_dumps), store.view(contract.name, FILES.day_column)
    known = _named_days(store, view, contract.name, rules)
    if known is None or is_of_dumps:
        days = _days_of_all(lake, lake.source, events)
        touched = {*days, *view.latest}
    else:
        touched, days = _days_around(event_reader(store, lake.source), events)
    entries = dict[date, DayEntry]()
    for day in sorted(touched):
        if known is None or known.get(day) != days.get(day):
            entries[day] = _entry_of(days.get(day))
    becomes = {contract.name: max(view.version, 0) + 1}  # behind the commit that makes the table
    return replace(receipt, days=entries, settings_digest=rules, inputs=becomes)


def _rules(is_of_dumps: bool) -> str:
    """The name, in receipts, of the rules by which days follow from events."""
    return digest_of([RULES, is_of_dumps])


def _entry_of(day: LandedDay | None) -> DayEntry:
    """A landed day as the entry of a receipt; None: no content names it any more."""
    if day is None:
        return NOBODY
    return DayEntry(day.usable_rows, day.digest, "", counts={CONTENTS: day.contents})


def _named_days(
    store: TableStore, view: TableView, table: str, rules: str
) -> dict[date, LandedDay] | None:
    """The days by receipts alone; None where those do not name all days by these rules."""
    if not _is_named(store, table, view):
        return None
    if any(receipt.settings_digest != rules for receipt in view.latest.values()):
        return None
    entries = {day: receipt.entry for day, receipt in view.latest.items()}
    return {
        day: LandedDay(entry.counts[CONTENTS], entry.fingerprint, entry.rows)
        for day, entry in entries.items()
        if entry.counts[CONTENTS]
    }


def _is_named(store: TableStore, table: str, view: TableView) -> bool:
    """Whether the newest commit of ours that moved rows is one that names days. Its receipt names
    the version that it became, unless another came first: then it does not know that one's."""
    newest = view.inputs.get(table, -1)
    if not 0 <= newest <= view.version:
        return False
    if newest == view.version:
        return True
    later = (c for c in store.commits(table, newest) if c.version <= view.version)
    return not any(c.receipt is not None and store.moves_rows(table, c.version) for c in later)


def _days_of_all(lake: Lake, source: str, events: Sequence[Event] = ()) -> dict[date, LandedDay]:
    """The landed days by all events of the ledger, and these."""
    ledger = [*read_events(lake.store, source), *events]
    return landed_days(records_of(ledger), are_dumps(lake, source))


def _days_around(
    read: EventReader, news: Sequence[Event]
) -> tuple[set[date], dict[date, LandedDay]]:
    """The days that new events may change, and what they are with them."""
    same = at_paths({e["path"] for e in news}) | of_contents({e["sha256"] for e in news})
    paths, events = _events_around(read, same, news)
    changed = [*records_of(events), *records_of([*events, *news])]
    touched = {day for record in changed if record.path in paths for day in record.days}
    paths, events = _events_around(read, of_days(touched), news)
    days = landed_days([r for r in records_of([*events, *news]) if r.path in paths])
    return touched, {day: days[day] for day in touched if day in days}


def at_paths(paths: Collection[str]) -> "pc.Expression":
    """Which events are of some paths."""
    return _is_one_of("path", paths)


def of_days(days: Collection[date]) -> "pc.Expression":
    """Which events are of some arrival days."""
    return _is_one_of("arrival_date", days)


def of_contents(contents: Collection[str]) -> "pc.Expression":
    """Which events are of some contents."""
    return _is_one_of("sha256", contents)


def _is_one_of(column: str, values: Collection[str] | Collection[date]) -> "pc.Expression":
    """Which events have one of these values in a column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.date32() if column == "arrival_date" else pa.string()
    return pc.field(column).isin(pa.array(sorted(values), kind))


def event_reader(store: TableStore, source: str) -> EventReader:
    """Reads the events of a source's ledger, as it is now, for which an expression holds."""
    table = source_table_name(FILES.name, source)
    files = store.own_files(table, FILES.day_column)
    return lambda where: store.own_rows_where(table, files, where)


def records_around(read: EventReader, where: "pc.Expression") -> list[FileRecord]:
    """The records of a ledger at all paths that have an event for which `where` holds, each as all
    events give it."""
    paths, events = _events_around(read, where, ())
    return [r for r in records_of(events) if r.path in paths]


def _events_around(
    read: EventReader, where: "pc.Expression", more: Sequence[Event]
) -> tuple[set[str], list[Event]]:
    """The paths that have an event for which `where` holds, or one of `more`, and all events of the
    ledger that decide their records: those at these paths, and of the same contents elsewhere."""
    paths = {e["path"] for e in (*read(where), *more)}
    events = read(at_paths(paths))
    contents = {e["sha256"] for e in (*events, *more)}
    copies = [e for e in read(of_contents(contents)) if e["path"] not in paths]
    return paths, [*events, *copies]
