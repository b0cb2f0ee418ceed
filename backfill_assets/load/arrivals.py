"""The ledger `arrivals`: which arrival day touches which event day, kept exact whatever the order of loading.

Lives here: which days of it a load changes, and its commit, which declares a load of raw complete. Does not live here:
its rows as SQL (`arrivals_sql`), reading it (`lake.ledger`, `lake.view`) and what follows from it (`core.digests`).

The embedded engine computes it from raw's own files: a shuffle of all keys through Spark cost ten times as much, and on
thin days its plans and jobs cost more than the load. Cost: finding the other deliveries of a loaded key reads the
columns event_key, op, event_ts of all loaded raw days.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.core.contracts import Contract, versions_of
from backfill_assets.core.frontier import Frontiers
from backfill_assets.core.payload import LANDED
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.readings import Sets, deliveries_read
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.view import LakeView, Source, TableView
from backfill_assets.lake.audit import audit
from backfill_assets.lake.embedded import AT_ONCE, connection, materialized
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, of_source
from backfill_assets.lake.replace import Provenance, Published, Write, replace_days
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.staging import Staged, begin
from backfill_assets.lake.writing import stage_query
from backfill_assets.load.arrivals_sql import changed_days, ledger_rows, of_keys, placed_keys

WHOLE_SHARE = 0.5  # above this share of loaded days it is cheaper to compute all rows than to find the touched ones


def commit_arrivals(
    lake_session: LakeSession, contracts: Sequence[Contract], view: LakeView, provenance: Provenance
) -> Published:
    """Bring the ledger up to raw's head and name its version. `view` is read after raw's commit; the load lock is held.
    `contracts` are those of all tables: what they read of a delivery has fingerprints of its own. The source is the one
    that the lake is narrowed to.

    The days looked at are those whose raw receipt is newer than the version the ledger names, so that a load that was
    cut off is completed by the next one. A ledger that another program changed is written anew as a whole: it cannot
    say what it held.
    """
    name = lake_session.lake.source
    raw_contract = next(c for c in contracts if c.is_landed and c.source == name)
    source, ledger = view.source(raw_contract.name), of_source(ARRIVALS, name)
    raw, named = source.loaded, source.loaded_version
    loaded = {d for d, s in raw.stamps.items() if s.entry.rows}
    moved = {d for d, s in raw.stamps.items() if s.version > named}
    parts = _parts(contracts, raw_contract)
    deliveries = _Deliveries(lake_session.lake, raw_contract, named, raw.version, parts)
    doubted = source.doubted_arrivals()
    affected = moved | loaded | doubted if doubted else _affected(deliveries, moved, loaded, source)
    staged = _staged(deliveries, ledger, affected & loaded, loaded)
    try:
        found = audit(lake_session.lake, staged.paths, ledger)
        entries = {d: _entry(found.get(d, DayProfile()), raw, d) for d in affected}
        after = replace(view, tables={**view.tables, ledger.name: _naming(source, raw.version)})
        write = Write(
            ledger,
            staged,
            entries,
            source.ledger.version,
            _signed(provenance, Frontiers([raw_contract], after), source.table, raw.version),
            always=named != raw.version,
            force=bool(doubted),
        )
        return replace_days(lake_session.lake, write, lambda days: {d: entries[d].input_digest for d in days})
    finally:
        staged.drop()


def _parts(contracts: Sequence[Contract], raw: Contract) -> Sets:
    """What is read of the deliveries of this raw: tables of versions of other sources say nothing of it."""
    others = {name for name, landed in versions_of(contracts).items() if landed != raw.name}
    mine = (c for c in contracts if c.name not in others)
    return deliveries_read(mine, (c for c in raw.column_names if c not in LANDED))


def _signed(said: Provenance, frontiers: Frontiers, raw: str, version: int) -> Provenance:
    """The provenance of the ledger: it names raw's head, and the frontier that follows."""
    tags = {**(said.tags or {}), **frontiers.told(raw)}
    return replace(said, inputs={raw: version}, frontier=frontiers.of_table(raw), tags=tags)


def _naming(source: Source, version: int) -> TableView:
    """The ledger as it will be after this commit: naming raw's head."""
    ledger = source.ledger
    return replace(ledger, version=max(ledger.version, 0), inputs={**ledger.inputs, source.table: version})


def _entry(found: DayProfile, raw: TableView, day: date) -> DayEntry:
    stamp = raw.stamps.get(day)
    return DayEntry(found.rows, found.fingerprint, stamp.entry.fingerprint if stamp else "")


@dataclass(frozen=True)
class _Deliveries:
    """Raw as the ledger named it last and as it is now, to be read from its files."""

    lake: Lake
    contract: Contract
    named: int
    head: int
    parts: Sets

    def before(self, days: set[date]) -> list[str]:
        """The files of these days as the ledger knew them, altered ones too: they are what a load replaces."""
        return self.lake.store.data_files(self.contract, self.named, days, altered=True)

    def now(self, days: set[date] | None = None) -> list[str]:
        """The files of these days (None: all) as they are."""
        return self.lake.store.data_files(self.contract, self.head, days)

    def materialized(
        self, files: list[str], asked: Callable[[str], str] = str, *, keep: bool = False
    ) -> AbstractContextManager[str]:
        """A query for what is asked of their rows (`lake.embedded`)."""
        return materialized(self.lake, files, self.contract, asked, keep=keep)


def _affected(deliveries: _Deliveries, moved: set[date], loaded: set[date], source: Source) -> set[date]:
    """The arrival days whose rows a load may change: the loaded ones, and all days of keys whose event days changed.

    Rows of days that were not loaded are the same before and after, so they are read once.
    """
    if not moved:
        return set()
    if deliveries.named < 0 or len(moved & loaded) > WHOLE_SHARE * len(loaded):
        return moved | loaded
    # Nothing of these days in the ledger: what they held before, if anything, gave no key an event day.
    known = any(a in moved for rows in source.arrivals.values() for a, _ in rows)
    others = deliveries.now(loaded - moved)
    many = len(others) > AT_ONCE
    with (
        deliveries.materialized(deliveries.before(moved if known else set()), placed_keys, keep=many) as before,
        deliveries.materialized(deliveries.now(moved), placed_keys, keep=many) as after,
        deliveries.materialized(others, _near(many, before, after)) as near,
        connection(deliveries.lake) as engine,
    ):
        return moved | {day for (day,) in engine.execute(changed_days(before, after, near)).fetchall()}


def _near(many: bool, *keys: str) -> Callable[[str], str]:
    """What is asked of the rows of other days. Of `many` files, which are asked in turn, just those of these keys are
    kept; of few files the query itself leaves the others out."""
    return lambda rows: of_keys(placed_keys(rows), *keys) if many else placed_keys(rows)


def _staged(deliveries: _Deliveries, ledger: Contract, days: set[date], loaded: set[date]) -> Staged:
    """The ledger's rows for these arrival days."""
    if not days:
        return begin(deliveries.lake, ledger)
    others = [] if days == loaded else deliveries.now()
    many = len(others) > AT_ONCE
    with (
        deliveries.materialized(deliveries.now(days), keep=many) as mine,
        deliveries.materialized(others, lambda rows: of_keys(rows, mine) if many else rows) as near,
    ):
        everything = None if days == loaded else near
        rows = ledger_rows(mine, everything, deliveries.contract, deliveries.parts)
        return stage_query(deliveries.lake, ledger, rows)
