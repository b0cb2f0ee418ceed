"""Mending a table's log: files that a power cut tore are set aside, data files that a ledger has lost are taken out.

Lives here: finding that damage, and one commit that says who mended it. Does not live here: damage that has another
way back: a derived table's lost files (make the days again) and gaps in the middle of a log (a backup). Nothing is
deleted: what is set aside keeps its bytes under a name that no reader knows.
"""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.contracts import Contract
from backfill_assets.core.disk import sync
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.committer import commit_files, commit_receipt, live_files
from backfill_assets.lake.ledger import ARRIVALS, FILES
from backfill_assets.lake.log import commit_file, is_whole, versions
from backfill_assets.lake.opening import read_delta, torn_checkpoints
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.sizes import gone_or_altered
from backfill_assets.lake.store import Damage, LiveFile

if TYPE_CHECKING:
    from deltalake import DeltaTable

REASON = "mend"


def damage(path: Path, contract: Contract) -> Damage:
    """What `mend` would do; nothing is written. Raises BackfillError where nothing is wrong that it mends."""
    torn = [f for f in (commit_file(path, v) for v in versions(path)[-1:]) if not is_whole(f)]
    # A torn commit goes last: where the command is killed halfway, the next one still finds it.
    if aside := [*torn_checkpoints(path), *torn]:
        return Damage(tuple(f.name for f in aside))
    known = is_mended(contract) and versions(path)
    if known and (lost := lost_files(path, read_delta(path), contract.partition_column)):
        return Damage((), tuple(lost))
    raise BackfillError(
        f"the table {contract.name}", "nothing is wrong with it that this command mends", "Nothing was done",
        "See what `backfill-assets doctor` says of it",
    )  # fmt: skip


def is_mended(contract: Contract) -> bool:
    """Whether files that the table lost can be taken out of its log: the next scan or load finds what they said."""
    return contract.columns in (FILES.columns, ARRIVALS.columns)


def lost_files(path: Path, opened: "DeltaTable", column: str = "") -> list[LiveFile]:
    """The data files of an opened table that are gone, or have another size than was written; `column` is the partition
    column."""
    return gone_or_altered(path, live_files(opened, column))


def mend(path: Path, contract: Contract, provenance: Provenance) -> Damage:
    """Do it; returns what was done. The caller holds the table's lock. Raises as `damage` does.

    The number of a version that was set aside is given to the commit that says so: what other receipts name by that
    number never becomes the number of other rows.
    """
    found = damage(path, contract)
    for name in found.aside:
        file = path / "_delta_log" / name
        file.rename(file.with_name(f"{name}.torn"))
    sync(path / "_delta_log")
    if found.aside and is_mended(contract) and versions(path):  # the torn commit may have been an earlier mend's
        found = replace(found, lost=tuple(lost_files(path, read_delta(path), contract.partition_column)))
    receipt = Receipt(uuid.uuid4().hex, contract.name, REASON, {}, note=found.told, tags=provenance.tags or {})
    if found.lost:
        commit_files(path, contract, receipt, (), found.lost)
    elif versions(path):
        commit_receipt(path, receipt)
    return found
