"""Housekeeping of a lake: what nothing needs any more goes, ledgers and days in many small files
get larger ones.

Not here: how a table's folder is read (`upkeep.housekeeping`), which copies of landed files can be
made again (`intake.landed_changes`), and Dagster's own runs and events.
"""

import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice
from typing import TypeVar

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.session import LINKS
from backfill_assets.intake.content_store import discard
from backfill_assets.intake.landed_changes import unneeded_copies
from backfill_assets.intake.ledger import ARRIVALS, FILES, QUARANTINE, of_source
from backfill_assets.kernel.core.clock import utc_now, utc_today
from backfill_assets.kernel.core.contracts import Contract, refuse_external
from backfill_assets.kernel.core.days import ranges
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.place.port import Held, load_lock
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import (
    entries,
    entry_name,
    find_version,
    forget_silent_markers,
    record,
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
    compact,
    find_unneeded,
    remove_unneeded,
    uneven_files,
)

T = TypeVar("T")
LINKS_STAY = timedelta(days=7)
# Until then a machine that was off finds the runs that died with it by their markers, and ends them
# in Dagster.
MARKERS_STAY = timedelta(days=7)


@dataclass(frozen=True)
class Upkeep:
    """The upkeep of a lake, found or done."""

    since: datetime  # no version after this loses a file
    tables: tuple[Unneeded, ...]  # per table the files that can be deleted
    uneven: Mapping[
        str, tuple[date, ...]
    ]  # days whose files are too small or too large; of ledgers no single day
    copies: tuple[int, int] = (
        0,
        0,
    )  # number and bytes of parsed contents that the landing folder can give again
    done: bool = False  # whether it was carried out

    @property
    def bytes(self) -> int:
        """Bytes of the files that can go."""
        return sum(t.bytes for t in self.tables) + self.copies[1]

    def lines(self) -> list[str]:
        """The upkeep in words, a line per table that has something."""
        verb = "deleted" if self.done else "to delete"
        found = [
            f"{t.table}: {len(t.replaced)} replaced data file(s), {len(t.no_version)} that no "
            "version names, "
            f"{len(t.checkpoints)} old checkpoint(s) {verb}, {t.bytes / 1e6:,.1f} MB"
            for t in self.tables
            if t.names
        ]
        if self.copies[0]:
            found.append(
                f"{self.copies[0]} parsed content(s) {verb}, {self.copies[1] / 1e6:,.1f} MB, "
                "whose files the landing "
                "folder still has"
            )
        written = "written again" if self.done else "to write again"
        spans = {table: ranges(days) or "the ledger" for table, days in self.uneven.items()}
        return [
            *found,
            *(
                f"{t}: files of {span} {written} in better sizes, no row changed"
                for t, span in spans.items()
            ),
        ]


def maintain(
    lake: Lake, pipeline: Pipeline, tables: Collection[str] = (), act: bool = True
) -> Upkeep:
    """Do the upkeep of some tables and ledgers (empty: all), table by table, each under its lock;
    without `act` only find what can go, and write nothing.

    Replaced files stay for `[retention] rollback_days`, those of an unfinished plan's days longer.
    New layouts come first, so that the files that they replace are counted from now on. Stopped at
    any moment, the lake holds the same rows; the next call goes on. Raises BackfillError for an
    unknown table, and for a log that is damaged.
    """
    since, chosen = _since(lake), _contracts(lake, pipeline, tables)
    lay_out, clear = (_compacted, remove_unneeded) if act else (uneven_files, find_unneeded)
    size = lake.settings.retention.file_mib * MIB
    layouts = {c.name: lay_out(scoped, c, size) for scoped, c in chosen}
    uneven = {
        name: tuple(date.fromisoformat(day) for day in found if day)
        for name, found in layouts.items()
        if found
    }
    if act:
        record(lake, pipeline.contracts, REASON)  # readers move on before files go
        _forget_versions(lake, since)
        _forget_links(lake)
        forget_silent_markers(lake, MARKERS_STAY.total_seconds())
        lake.place.clear_locks()
        for whole in (snapshots_of(lake.place), candidates_of(lake.place)):
            with (
                suppress(Held),
                whole.alone(seconds=0),
            ):  # what stopped commands left goes; one that runs is left alone
                pass
    cleared = tuple(clear(scoped, c, since) for scoped, c in chosen)
    return Upkeep(since, cleared, uneven, (0, 0) if tables else _copies(lake, act), act)


def _forget_versions(lake: Lake, before: datetime) -> None:
    """Delete the lake versions from before an instant (aware), never the newest."""
    for number in entries(lake.place)[:-1]:
        if (entry := find_version(lake, number)) is not None and entry.at < before:
            lake.place.delete(entry_name(number))


def _forget_links(lake: Lake) -> None:
    """Delete links for a project's own Spark session that killed processes left: no step takes a
    week over one."""
    before = (utc_now() - LINKS_STAY).timestamp()
    for name in (f"{LINKS}/{name}" for name in lake.place.names(str(LINKS))):
        if (token := lake.place.token(name)) and token.changed_at < before:
            lake.place.delete_below(name)


def _copies(lake: Lake, act: bool) -> tuple[int, int]:
    """The number and bytes of parsed contents that `[retention] copy_days` lets go; with `act` they
    are deleted."""
    if (days := lake.settings.retention.copy_days) is None:
        return 0, 0
    count, size, before = 0, 0, utc_today() - timedelta(days=days)
    for scoped in lake.by_source():
        with load_lock(scoped.place, scoped.source) if act else nullcontext():
            found = unneeded_copies(LakeSession(scoped), before)
            for content in found if act else ():
                discard(scoped.stock, content)
        count, size = count + len(found), size + sum(found.values())
    return count, size


def _compacted(lake: Lake, contract: Contract, size: int) -> Layout:
    """The files of a table that were written again in better sizes."""
    return laid_out_again(lake, contract, lambda: compact(lake, contract, size)) or {}


def laid_out_again(lake: Lake, contract: Contract, work: Callable[[], T]) -> T | None:
    """Do `work`, which rewrites a table's files without changing a row. A landed table is left
    alone (None) after a load that was cut off, which the next load completes; and afterwards its
    ledger names the new version: builds read the landed table at that version, whose files stay."""
    if not contract.is_landed:
        return work()
    scoped = lake.of_source(contract.source)
    with load_lock(scoped.place, scoped.source):
        ledger = of_source(ARRIVALS, scoped.source)
        recorded = lake.store.view(ledger.name, ledger.day_column).inputs.get(contract.name, -1)
        latest = lake.store.view(contract.name, contract.day_column).latest.values()
        if any(s.version > recorded for s in latest):
            return None
        result = work()
        head = lake.store.view(contract.name, contract.day_column).version
        if head > recorded >= 0:
            note = (
                f"names version {head} of {contract.name}, which holds the same rows as {recorded}"
            )
            receipt = Receipt(
                uuid.uuid4().hex, ledger.name, REASON, {}, inputs={contract.name: head}, note=note
            )
            with lake.store.lock(ledger.name):
                lake.store.replace_days(ledger, None, (), receipt)
        return result


def _since(lake: Lake) -> datetime:
    """Since when replaced files stay: as long as a rollback is promised, and whatever an unfinished
    plan, or readers of the newest lake version, may need."""
    kept = timedelta(days=lake.settings.retention.rollback_days)
    after = (
        lake.store.commits(name, version) for name, version in (versions_seen(lake) or {}).items()
    )
    switched = [commit.at for commits in after for commit in islice(commits, 1)]
    return min([utc_now() - kept, *(plan.created for plan in active_plans(lake)), *switched])


def _contracts(
    lake: Lake, pipeline: Pipeline, tables: Collection[str]
) -> list[tuple[Lake, Contract]]:
    """The chosen tables that exist, each with the lake scoped to its source; ledgers go by their
    own names."""
    owned = [(lake, c) for c in pipeline.contracts if not c.external]
    for scoped in lake.by_source():
        owned += [(scoped, of_source(c, scoped.source)) for c in (FILES, ARRIVALS, QUARANTINE)]
    known = {c.name for _, c in owned}
    for name in tables:
        if name not in known:
            refuse_external(pipeline.contract(name, "Nothing was deleted"))
    return [
        (scoped, c)
        for scoped, c in owned
        if (not tables or c.name in tables) and lake.writes(c.name) and lake.store.exists(c.name)
    ]
