"""Housekeeping of a lake: what nothing needs any more goes, ledgers and days in many small files
get larger ones.

Not here: how a table's folder is read (`upkeep.housekeeping`), which copies of landed files can be
made again (`intake.landed_changes`), and Dagster's own runs and events.
"""

import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TypeVar

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.session import LINKS
from backfill_assets.intake.content_store import discard_content
from backfill_assets.intake.landed_changes import unneeded_copies
from backfill_assets.intake.ledger import ARRIVALS, FILES, QUARANTINE, ledger_of_source
from backfill_assets.kernel.core.clock import utc_now, utc_today
from backfill_assets.kernel.core.contracts import Contract, refuse_external
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.view import TableView, exists_at
from backfill_assets.kernel.place.port import Gone, Held, load_lock
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import (
    KeptEntries,
    forget_silent_markers,
    record_versions,
    versions_seen,
)
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.claims import active_plans
from backfill_assets.reading.whole import candidates_of, snapshots_of
from backfill_assets.upkeep.housekeeping import (
    MIB,
    REASON,
    Layout,
    Unneeded,
    compact_files,
    find_unneeded,
    remove_unneeded,
    uneven_files,
)
from backfill_assets.upkeep.remembered import recall, remember
from backfill_assets.upkeep.settings import retention_of
from backfill_assets.upkeep.thinning import Thinned, unneeded_entries

T = TypeVar("T")
LINKS_STAY = timedelta(days=7)
THINNED = "lake versions"  # what is remembered of them; no table has such a name
# Until then a machine that was off finds the runs that died with it by their markers, and ends them
# in Dagster.
MARKERS_STAY = timedelta(days=7)


@dataclass(frozen=True)
class Upkeep:
    """The upkeep of a lake, found or done."""

    since: datetime  # no version after this loses a file
    tables: tuple[Unneeded, ...]  # per table the files that can be deleted
    # days whose files are too small or too large; of ledgers no single day
    uneven: Mapping[str, tuple[date, ...]]
    # number and bytes of parsed contents that the landing folder can give again
    copies: tuple[int, int] = (0, 0)
    done: bool = False  # whether it was carried out

    @property
    def bytes(self) -> int:
        """Bytes of the files that can go."""
        return sum(t.bytes for t in self.tables) + self.copies[1]

    def lines(self) -> list[str]:
        """The upkeep in words, a line per table that has something."""
        verb = "deleted" if self.done else "to delete"
        found = [_unneeded_line(t, verb) for t in self.tables if t.names]
        if self.copies[0]:
            found.append(
                f"{self.copies[0]} parsed content(s) {verb}, {self.copies[1] / 1e6:,.1f} MB, "
                "whose files the landing folder still has"
            )
        written = "written again" if self.done else "to write again"
        for table, days in self.uneven.items():
            span = ranges_text(days) or "the ledger"
            found.append(f"{table}: files of {span} {written} in better sizes, no row changed")
        return found


def _unneeded_line(table: Unneeded, verb: str) -> str:
    return (
        f"{table.table}: {len(table.replaced)} replaced data file(s), {len(table.no_version)} that "
        f"no version names, {len(table.checkpoints)} old checkpoint(s) {verb}, "
        f"{table.bytes / 1e6:,.1f} MB"
    )


def maintain_tables(
    lake: Lake, pipeline: Pipeline, tables: Collection[str] = (), act: bool = True
) -> Upkeep:
    """Do the upkeep of some tables and ledgers (empty: all), table by table, each under its lock;
    without `act` only find what can go, and write nothing.

    Replaced files stay for `[retention] rollback_days`, those of an unfinished plan's days longer.
    New layouts come first, so that the files that they replace are counted from now on. Stopped at
    any moment, the lake holds the same rows; the next call goes on. Raises BackfillError for an
    unknown table, and for a log that is damaged.
    """
    since, chosen = _kept_since(lake), _chosen_contracts(lake, pipeline, tables)
    lay_out, clear = (_compact_table, remove_unneeded) if act else (uneven_files, find_unneeded)
    size = retention_of(lake.settings).file_mib * MIB
    layouts = {c.name: lay_out(scoped, c, size) for scoped, c in chosen}
    uneven = {name: _days_of(layout) for name, layout in layouts.items() if layout}
    if act:
        record_versions(lake, pipeline.contracts, REASON)  # readers move on before files go
        _clear_leftovers(lake, since)
    cleared = tuple(clear(scoped, c, since) for scoped, c in chosen)
    copies = (0, 0) if tables else _delete_copies(lake, act)
    return Upkeep(since, cleared, uneven, copies, act)


def _days_of(layout: Layout) -> tuple[date, ...]:
    """The days of a layout; none of a ledger that is laid out as a whole."""
    return tuple(date.fromisoformat(day) for day in layout if day)


def _clear_leftovers(lake: Lake, since: datetime) -> None:
    """Delete what no table holds: old lake versions, links, markers, locks, and what stopped
    commands left of snapshots and candidates. One that a command works on is left alone."""
    _delete_old_versions(lake, since)
    _delete_old_links(lake)
    forget_silent_markers(lake, MARKERS_STAY.total_seconds())
    lake.place.clear_locks()
    for whole in (snapshots_of(lake.place), candidates_of(lake.place)):
        with suppress(Held), whole.alone(seconds=0):
            pass


def _delete_old_versions(lake: Lake, before: datetime) -> None:
    """Delete the lake versions from before an instant (aware), and thin out those after it, from
    where the last upkeep ended; never the newest."""
    last = recall(lake.place, THINNED, Thinned) or Thinned()
    named = partial(_named_instants, lake)
    with suppress(Gone):  # another machine does the same now
        entries = KeptEntries(lake.place)
        unneeded, thinned = unneeded_entries(entries, before, utc_now(), named, last)
        entries.delete(unneeded)
        if thinned != last:
            remember(lake.place, THINNED, thinned)


def _named_instants(lake: Lake) -> list[datetime]:
    """When something was made, ascending, that is held against what readers saw then: unfinished
    plans, snapshots and candidates."""
    made = [plan.created for plan in active_plans(lake)]
    for whole in (snapshots_of(lake.place), candidates_of(lake.place)):
        tokens = (whole.place.token(f"{name}/{whole.file}") for name in whole.names())
        made += [datetime.fromtimestamp(token.changed_at, UTC) for token in tokens if token]
    return sorted(made)


def _delete_old_links(lake: Lake) -> None:
    """Delete links for a project's own Spark session that killed processes left: no step takes a
    week over one."""
    before = (utc_now() - LINKS_STAY).timestamp()
    for name in lake.place.names(str(LINKS)):
        token = lake.place.token(f"{LINKS}/{name}")
        if token is not None and token.changed_at < before:
            lake.place.delete_below(f"{LINKS}/{name}")


def _delete_copies(lake: Lake, act: bool) -> tuple[int, int]:
    """The number and bytes of parsed contents that `[retention] copy_days` lets go; with `act` they
    are deleted."""
    days = retention_of(lake.settings).copy_days
    if days is None:
        return 0, 0
    count, size, before = 0, 0, utc_today() - timedelta(days=days)
    for scoped in lake.by_source():
        with load_lock(scoped.place, scoped.source) if act else nullcontext():
            found = unneeded_copies(LakeSession(scoped), before)
            if act:
                for content in found:
                    discard_content(scoped.stock, content)
        count, size = count + len(found), size + sum(found.values())
    return count, size


def _compact_table(lake: Lake, contract: Contract, size: int) -> Layout:
    """The files of a table that were written again in better sizes."""
    return (
        rewrite_layout(lake, contract, lambda: compact_files(LakeSession(lake), contract, size))
        or {}
    )


def rewrite_layout(lake: Lake, contract: Contract, work: Callable[[], T]) -> T | None:
    """Do `work`, which rewrites a table's files without changing a row. A landed table is left
    alone (None) after a load that was cut off, which the next load completes; and afterwards its
    ledger names the new version: builds read the landed table at that version, whose files stay."""
    if not contract.is_landed:
        return work()
    scoped = lake.of_source(contract.source)
    with load_lock(scoped.place, scoped.source):
        ledger = ledger_of_source(ARRIVALS, scoped.source)
        ledger_view = lake.store.view(ledger.name, ledger.day_column)
        recorded = ledger_view.input_version(contract.name)
        before = lake.store.view(contract.name, contract.day_column)
        if _was_loaded_since(before, recorded):
            return None
        result = work()
        after = lake.store.view(contract.name, contract.day_column)
        head = after.version
        # A load that took the lock over names its own version, or the next load completes it.
        is_layout = head > recorded and not _was_loaded_since(after, recorded)
        if exists_at(recorded) and is_layout:
            note = (
                f"names version {head} of {contract.name}, which holds the same rows as {recorded}"
            )
            inputs = {contract.name: head}
            receipt = Receipt(
                write_id=uuid.uuid4().hex,
                table=ledger.name,
                reason=REASON,
                days={},
                inputs=inputs,
                note=note,
            )
            with lake.store.lock(ledger.name):
                lake.store.replace_days(ledger, None, (), receipt, ledger_view.version)
        return result


def _was_loaded_since(view: TableView, version: int) -> bool:
    """Whether a day of a landed table was written after a version of it."""
    return any(receipt.version > version for receipt in view.latest.values())


def _kept_since(lake: Lake) -> datetime:
    """Since when replaced files stay: as long as a rollback is promised, and whatever an unfinished
    plan, or readers of the newest lake version, may need."""
    needed = [utc_now() - timedelta(days=lake.settings.retention.rollback_days)]
    needed += [plan.created for plan in active_plans(lake)]
    for name, version in (versions_seen(lake) or {}).items():
        # The first commit after the version that readers see took files of it out.
        needed += [commit.at for commit in islice(lake.store.commits(name, version), 1)]
    return min(needed)


def _chosen_contracts(
    lake: Lake, pipeline: Pipeline, tables: Collection[str]
) -> list[tuple[Lake, Contract]]:
    """The chosen tables that exist, each with the lake scoped to its source; ledgers go by their
    own names."""
    owned = [(lake, c) for c in pipeline.contracts if not c.external]
    for scoped in lake.by_source():
        owned += [
            (scoped, ledger_of_source(c, scoped.source)) for c in (FILES, ARRIVALS, QUARANTINE)
        ]
    known = {c.name for _, c in owned}
    for name in tables:
        if name not in known:
            refuse_external(pipeline.contract(name, "Nothing was deleted"))
    chosen = [(scoped, c) for scoped, c in owned if not tables or c.name in tables]
    own = [(scoped, c) for scoped, c in chosen if lake.writes(c.name)]
    return [(scoped, c) for scoped, c in own if lake.store.exists(c.name)]
