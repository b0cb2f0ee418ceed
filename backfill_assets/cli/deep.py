"""`doctor --deep`: every row of every table is read, and its fingerprint compared with the receipts; all snapshots.

Lives here: what is said of it. Does not live here: the comparison (`operations.contents`). Needs no JVM.
"""

from pathlib import Path

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import contiguous
from backfill_assets.core.profiles import SCHEME
from backfill_assets.core.view import TableView
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.ledger import QUARANTINE, of_source
from backfill_assets.lake.view import read_view
from backfill_assets.operations.contents import differing_days
from backfill_assets.operations.diagnosis import Diagnosis, broken, fine, some
from backfill_assets.operations.doctor_snapshots import examine_kept_bytes
from backfill_assets.pipeline.chosen import chosen_pipeline


def examine_contents(root: Path) -> list[Diagnosis]:
    """One finding per written table, whether the rows and fingerprint of every day are those of its receipt, and one
    per snapshot, whether its bytes are those that were kept."""
    lake = open_lake(root)
    pipeline = chosen_pipeline(lake)
    view = read_view(lake, pipeline.contracts)
    aside = (of_source(QUARANTINE, c.source) for c in pipeline.contracts if c.is_landed)
    written = [c for c in (*pipeline.contracts, *aside) if view.table(c.name).stamps]
    return [*(examine(lake, c, view.table(c.name)) for c in written), *examine_kept_bytes(lake)]


def examine(lake: Lake, contract: Contract, seen: TableView) -> Diagnosis:
    """Whether the rows of a table are those of its receipts, told of all its days at once."""
    name = f"the contents of {contract.name}"
    if altered := lake.store.altered(contract):
        return broken(name, *altered.split(". ", 1))
    found = audit_table(lake, contract)
    receipts = {d: s.entry for d, s in seen.stamps.items()}
    days = differing_days(lake, contract, receipts, found)
    strays = found[None].rows if None in found else 0
    if not days and not strays:
        older = sum(e.scheme != SCHEME and e.rows > 0 for e in receipts.values())
        known = f"; of {older} only the count of rows, their receipts fingerprint in another way" if older else ""
        rows = sum(e.rows for e in receipts.values())
        return fine(name, f"{len(receipts)} day(s), {rows} rows equal their receipts{known}")
    told = [f"{len(days)} day(s) differ from their receipts: {some(contiguous(days))}"] if days else []
    told += [f"{strays} row(s) have no day"] if strays else []
    span = f"--from {days[0]} --to {days[-1]} " if days else ""
    advice = f"Rebuild with `backfill-assets backfill --force {span}--tables {contract.name}`"
    return broken(name, "; ".join(told), advice)
