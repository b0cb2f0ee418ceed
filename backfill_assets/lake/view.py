"""The state of a lake (`core.view.LakeView`) from its store, and switches of several tables at once.

Not here: the states of days that follow (`core.states`), and what is switched (`operations.publications`,
`operations.rollback`). Until the last commit of a switch, readers see every table as it was before its first
(`settled_view`); writers always read the heads (`read_view`). It needs no JVM and takes milliseconds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError, TransientError
from backfill_assets.core.ledgers import TOO_LATE, named
from backfill_assets.core.receipts import Receipt
from backfill_assets.core.view import Deliveries, LakeView, Stamp, TableView
from backfill_assets.lake.files import read_json, write_json
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, FILES, QUARANTINE, landed_days, read_arrivals, read_files, releases
from backfill_assets.lake.store import TableStore

FILE = ".switch.json"  # absent: no switch ever ran
LOOKS = 10  # a switch of six tables takes a second, a look milliseconds


def read_view(lake: Lake, contracts: Iterable[Contract]) -> LakeView:
    """The view of the lake now; `contracts` stand upstream first.

    A table is read before its inputs, and before arrivals: a write of another run in between shows as days to be
    rebuilt or not yet loaded, and as newer than the version that fences a write of ours (`lake.replace`).
    """
    known = tuple(contracts)
    read = {c.name: lake.store.view(c.name, c.day_column) for c in reversed(known)}
    tables = {c.name: read[c.name] for c in known}
    landed = {c.source: c.name for c in reversed(known) if c.is_landed}  # the first of a source is the one
    delivered = {table: _delivered(lake, source, tables) for source, table in (landed or {"": ""}).items()}
    return LakeView(lake.settings.start_date, lake.settings.as_of, lake.settings.grace, tables, delivered)


def _delivered(lake: Lake, source: str, tables: dict[str, TableView]) -> Deliveries:
    """Deliveries of a source; adds the heads of its ledgers to `tables`."""
    store, files = lake.store, named(FILES.name, source)
    for ledger in (QUARANTINE.name, TOO_LATE, ARRIVALS.name):
        tables[named(ledger, source)] = store.view(named(ledger, source), ARRIVALS.day_column)
    arrivals = named(ARRIVALS.name, source)
    version = tables[arrivals].version
    days = store.kept(arrivals, "event days", lambda: read_arrivals(store, version, source), version)
    tables[arrivals] = _doubting(tables[arrivals], days)
    return Deliveries(
        landed=store.kept(files, "landed days", lambda: landed_days(read_files(store, source))),
        arrivals=days,
        releases=releases(lake, source),
        name=source,
    )


def _doubting(ledger: TableView, arrived: Mapping[date, tuple[tuple[date, str], ...]]) -> TableView:
    """The ledger with days as foreign that have other numbers of rows than their receipts say: before 2026-11-22 a load
    could write a day twice that came again unchanged. The next load rewrites them."""
    lines = Counter(day for rows in arrived.values() for day, _ in rows)
    wrong = {d for d, s in ledger.stamps.items() if s.entry.rows != lines[d]}
    return replace(ledger, foreign=ledger.foreign | wrong) if wrong else ledger


def writes_of(
    store: TableStore, table: str, stamps: Mapping[date, Stamp]
) -> Iterator[tuple[Receipt | None, Mapping[date, Stamp]]]:
    """Each write that made some of these days, with those days, in the order of their first; None: without a receipt.

    Raises BackfillError if a commit is torn.
    """
    found = defaultdict[int, dict[date, Stamp]](dict)
    for day, stamp in stamps.items():
        found[stamp.version][day] = stamp
    if found:
        receipts = {c.version: c.receipt for c in store.commits(table, min(found) - 1) if c.version in found}
        yield from ((receipts[version], days) for version, days in found.items())


@dataclass(frozen=True)
class Switch:
    """The switch of a lake: its number (each start and each end adds one), what it is for (empty: none runs), and the
    versions that readers see meanwhile."""

    number: int = 0
    what: str = ""
    tables: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """The switch as a line for people; empty if none runs."""
        if not self.what:
            return ""
        return (
            f"{self.what} runs or was stopped: readers see {', '.join(self.tables)} as before it. If it was stopped, "
            "do it again, or take it back with `backfill-assets rollback --plan ID`"
        )


def switch_of(lake: Lake) -> Switch:
    """The switch that runs or was stopped."""
    return Switch(**read_json(lake.root / FILE))


@contextmanager
def switching(lake: Lake, what: str, contracts: Iterable[Contract], takes_over: bool = False) -> Iterator[None]:
    """Within, readers see these tables as they are now; afterwards as they are then.

    Stopped inside after a commit, they stay as before, until the same switch is done again or one that `takes_over`.
    Raises BackfillError if another one was stopped.
    """
    known, before = tuple(contracts), switch_of(lake)
    if before.what and before.what != what and not takes_over:
        raise BackfillError(f"the lake {lake.root}", str(before), "Nothing was switched", "Finish that first")

    def heads() -> dict[str, int]:
        """The newest version of each table."""
        return {c.name: lake.store.view(c.name, c.day_column).version for c in known}

    now = heads()
    _write(lake, Switch(before.number + 1, what, {**now, **before.tables}))
    try:
        yield
    except BaseException:
        if not before.what and heads() == now:
            _write(lake, Switch(before.number + 2))
        raise
    _write(lake, Switch(before.number + 2))


def _write(lake: Lake, switch: Switch) -> None:
    write_json(lake.root / FILE, asdict(switch))


def settled_view(lake: Lake, contracts: Iterable[Contract]) -> LakeView:
    """The view of the lake as readers see it: all tables before a switch or all after it, never between.

    Raises TransientError if switches come too fast to look between them.
    """
    known = tuple(contracts)
    for _ in range(LOOKS):
        switch = switch_of(lake)
        view = read_view(lake, known)
        if switch_of(lake).number == switch.number:
            columns = {c.name: c.day_column for c in known if c.name in switch.tables}
            pinned = {n: lake.store.view(n, columns[n], switch.tables[n]) for n in columns}
            return replace(view, tables={**view.tables, **pinned}) if pinned else view
    raise TransientError(
        f"the lake {lake.root}", "its tables were switched at every look", "Nothing was read", "Read again"
    )
