"""Snapshots: days of tables under a name, whose files are kept whatever happens to the tables.

A snapshot is one folder, `.snapshots/NAME` (`reading.whole`): `snapshot.json` and copies of the
data files, each with its SHA-256. In a store it names the tables' own files instead, which upkeep
leaves alone (`reading.kept_files`). Before it counts, all its rows are compared with the
receipts. Not here: reading its rows (`reader`).
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from backfill_assets.intake.forgotten import all_erasures
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.place.port import AlreadyThere, Changed, Place
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.table_places import SNAPSHOTS
from backfill_assets.kernel.tables.view import settled_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.fitness import (
    Unfit,
    differing_days,
    settle_changing_days,
    settle_unfit_days,
    unfit_days_now,
)
from backfill_assets.reading.kept_files import bytes_pinned_by, digests_here, keep_files
from backfill_assets.reading.kept_snapshots import (
    NAME,
    KeptTable,
    Snapshot,
    _existing_place,
    _snapshot_error,
)
from backfill_assets.reading.readable import readable_with
from backfill_assets.reading.whole import snapshots_of


@dataclass(frozen=True)
class SnapshotRequest:
    """A request for a snapshot: some tables (empty: all), some days (None: all that they hold), by
    the newest lake version, or with `newest` each at its newest commit."""

    name: str
    tables: Collection[str] = ()
    days: DayRange | None = None
    note: str = ""
    unfit: Unfit = "refuse"
    newest: bool = False


Chosen = tuple[Contract, int, Mapping[date, DayEntry]]


def create_snapshot(lake: Lake, pipeline: Pipeline, request: SnapshotRequest) -> Snapshot:
    """Keep versions of the tables, all from one state of the lake. Raises BackfillError for a name
    that is taken or not allowed and for tables without a version, and UnfitDays as the reader
    does."""
    if not NAME.fullmatch(request.name):
        raise _snapshot_error(
            request.name,
            "it is no name of letters, digits, `.`, `_` and `-`",
            "Choose another name",
        )
    with snapshots_of(lake.place).alone():
        return _create_alone(lake, pipeline, request)


def _create_alone(lake: Lake, pipeline: Pipeline, request: SnapshotRequest) -> Snapshot:
    """Make a snapshot while no other one is made or deleted. Raises BackfillError where one of that
    name is there, and while an entity is forgotten: its rows may be among those copied."""
    snapshots = snapshots_of(lake.place)
    name = request.name
    try:
        # Begun before files are chosen: none of them goes from now on.
        with snapshots.making(name) as finish:
            erased = all_erasures(lake)
            snapshot = _copy_and_prove(lake, pipeline, request)
            is_erasing = any("finished_at" not in erasure.done for erasure in erased)
            if is_erasing or all_erasures(lake) != erased:
                raise _snapshot_error(
                    name, "an entity is being forgotten", "Finish `forget`, then do it again"
                )
            finish(json.dumps(snapshot.to_dict(), indent=1).encode())
            return snapshot
    except AlreadyThere:
        culprit = "it is there already, and a snapshot never changes"
        raise _snapshot_error(name, culprit, "Choose another name") from None
    except Changed:
        raise _snapshot_error(
            name, "another command took it for one that was stopped", "Do it again"
        ) from None
    except FileNotFoundError as error:
        raise _snapshot_error(
            name, f"a file was taken away meanwhile: {error.filename}", "Do it again"
        ) from error


def _copy_and_prove(lake: Lake, pipeline: Pipeline, request: SnapshotRequest) -> Snapshot:
    """Keep the files of the chosen days, and compare their rows with the receipts."""
    name = request.name
    place = lake.place.at(f"{SNAPSHOTS}/{name}")
    chosen = _tables_to_keep(lake, pipeline, request)
    kept, digests = dict[str, KeptTable](), partial(_digests_of, lake)
    for contract, version, entries in chosen:
        files, pinned = keep_files(lake, contract, version, entries, place, digests)
        days = {d: (entry.rows, entry.fingerprint) for d, entry in entries.items()}
        kept[contract.name] = KeptTable(contract, version, days, files, pinned)
    for contract, version, entries in chosen:  # after the copies: a file altered before is seen
        _refuse_differing(lake, name, contract, version, entries)
    return Snapshot(name, utc_now(), whoami(), request.note, kept)


def _digests_of(lake: Lake, place: Place, sizes: Mapping[str, int]) -> Sequence[str]:
    """The SHA-256 of each of these files. Of a lake whose engine computes elsewhere, its machines
    read them."""
    files, what = [(place, name) for name in sizes], f"the digests of {place.name}"
    size = sum(sizes.values())
    found: Sequence[str] | None = _session_of(lake).answers_there(digest_there, files, what, size)
    return digests_here(place, sizes) if found is None else found


def _session_of(lake: Lake) -> Any:
    """The session of the lake's engine, which nothing opens before it is asked for rows."""
    offered: Any = offered_function("session_of")
    return offered(lake)


def digest_there(item: tuple[Place, str], folder: str) -> str:
    """Work of a task: the SHA-256 of a file of a place."""
    place, name = item
    return place.keeping_copies(folder).sha256(name)


def _tables_to_keep(lake: Lake, pipeline: Pipeline, request: SnapshotRequest) -> list[Chosen]:
    """The asked tables, each with its version and the entries of its asked days. Raises
    BackfillError for one that was never made, UnfitDays as `request.unfit` says."""
    contracts = [pipeline.contract(name, "Nothing was kept") for name in request.tables]
    if not contracts:
        contracts = [*pipeline.contracts]
    known = readable_with(lake, pipeline, [c.name for c in contracts])
    states = known.states(settled_view(lake, known.contracts, request.newest))
    chosen: list[Chosen] = []
    for contract in contracts:
        view = states.view.table(contract.name)
        held = {day: receipt.entry for day, receipt in view.latest.items()}
        if request.days:
            days = contract.keys_in(request.days)
        else:
            days = sorted(d for d, entry in held.items() if entry.built is not Built.PENDING)
        if not view.exists:
            raise _snapshot_error(
                request.name,
                f"the table {contract.name} was never made",
                "Name others with --tables",
            )
        settle_unfit_days(contract, unfit_days_now(states, contract.name, days), request.unfit)
        settle_changing_days(contract, states, days, request.unfit)
        entries = {d: held[d] for d in days if d in held}
        chosen.append((contract, view.version, entries))
    return chosen


def _refuse_differing(
    lake: Lake, name: str, contract: Contract, version: int, days: Mapping[date, DayEntry]
) -> None:
    """Raise BackfillError where the rows of a day differ from its receipt. Of a lake whose engine
    computes elsewhere, its machines count them."""
    counted = _session_of(lake).profiles_of_version(contract, version, list(days))
    wrong = differing_days(lake, contract, days, counted)
    if wrong:
        raise _snapshot_error(
            name,
            f"{contract.name} {', '.join(map(str, contiguous_ranges(wrong)))}: the rows are not "
            "those of "
            "its receipts, "
            "something altered a data file",
            "Make these days again: `backfill-assets backfill --force --from "
            f"{wrong[0]} --to {wrong[-1]} --tables {contract.name}`",
        )


def drop_snapshot(lake: Lake, name: str) -> None:
    """Delete a snapshot, also a damaged one, or what a stopped command left of one; raises
    BackfillError for an unknown name.

    Killed meanwhile, the snapshot is gone; the next call deletes what is left of its folder.
    """
    _existing_place(lake, name, "dropped")
    with snapshots_of(lake.place).alone():
        snapshots_of(lake.place).delete(name)


def held_bytes(lake: Lake, name: str) -> int:
    """Return the bytes that would be free without the snapshot, once upkeep deletes what it alone
    has pinned."""
    place = _existing_place(lake, name, "dropped")
    own = sum(place.size(file) or 0 for file in place.below() if file.endswith(".parquet"))
    return own + bytes_pinned_by(lake, name)
