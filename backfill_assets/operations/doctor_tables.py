"""The doctor's look at one table: is its log whole, do its files exist, do its receipts equal its contents.

Lives here: what an inspection of the store means, in words, and what to do about it. Does not live here: the inspection
(`lake.store`), and recomputing fingerprints (`cli.deep`).
"""

from collections.abc import Iterator

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import contiguous
from backfill_assets.core.view import TableView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, FILES, QUARANTINE
from backfill_assets.lake.mending import is_mended
from backfill_assets.lake.store import Inspection
from backfill_assets.load.derived import reload_command
from backfill_assets.operations.diagnosis import Diagnosis, broken, fine, odd, some

RESTORE = "Restore it from a backup, or move the table's folder away and rebuild the table"


def examine_table(lake: Lake, contract: Contract, landed: str) -> list[Diagnosis]:
    """All findings about a table; `landed` is the one whose loads write the ledgers anew.

    A torn or gapped log ends it, as nothing else can be known.
    """
    name, found = f"the table {contract.name}", lake.store.inspect(contract)
    lost = _lost(name, found)
    if not found.commits:
        return [fine(name, "it does not exist yet"), *lost]
    if torn := list(_log_damage(name, found)):
        return torn
    view = lake.store.view(contract.name, contract.day_column)
    wrong = [
        *_foreign(name, contract, found, view, landed),
        *_files(name, found, contract),
        *_receipts(name, contract, found, view),
    ]
    told = f"{found.commits} commits, {found.files} files, {found.rows} rows"
    return [*(wrong or [fine(name, f"{told}: log whole, files there, receipts equal contents")]), *lost]


def _lost(name: str, found: Inspection) -> list[Diagnosis]:
    """Data files that no version of the table names: left by writers that were stopped, or being written now."""
    if not found.lost:
        return []
    told = f"{found.lost} data file(s), {found.lost_bytes} bytes, belong to no version"
    return [fine(name, f"{told}: left by a write that was stopped, or of one that runs; nothing reads them")]


def _log_damage(name: str, found: Inspection) -> Iterator[Diagnosis]:
    if found.lacking:
        yield broken(name, f"its log lacks version(s) {some(found.lacking)}", RESTORE)
    newest = found.commits + len(found.lacking) - 1
    for version in found.torn:
        told = " (the newest: a power cut does that)" if version == newest else ""
        advice = f"Set it aside with {_mend(name)}, then run `backfill-assets catch-up`" if told else RESTORE
        yield broken(name, f"version {version} of its log is torn{told}", advice)


def _foreign(name: str, contract: Contract, found: Inspection, view: TableView, landed: str) -> Iterator[Diagnosis]:
    """Commits of others whose traces are still there; what was written again since is as we wrote it."""
    if not found.foreign:
        return
    told = f"version(s) {some(found.foreign)} changed data and are not ours"
    if contract.columns == FILES.columns:
        yield odd(name, f"{told}: not read, what we wrote counts", "Keep other programs from writing here")
        return
    days = view.foreign if contract.partition_column == contract.day_column else view.foreign & view.stamps.keys()
    if not days:
        return
    again = (
        f"Load its arrival days again: `{reload_command(landed, days)}`"
        if contract.columns in (ARRIVALS.columns, QUARANTINE.columns)
        else f"These days show as stale: `backfill-assets backfill --from {min(days)} --to {max(days)} --tables "
        f"{contract.name}`"
    )
    told = f"{told} ({some(contiguous(days))})"
    yield odd(name, told, f"{again}, and keep other programs from writing here")


def _mend(name: str) -> str:
    return f"`backfill-assets mend {name.rpartition(' ')[2]} --yes`"


def _files(name: str, found: Inspection, contract: Contract) -> Iterator[Diagnosis]:
    if found.checkpoints_torn:
        told = "a checkpoint of its log is torn (a power cut does that), and no engine opens it"
        yield broken(name, told, f"Set it aside with {_mend(name)}: every commit is kept, and nothing is lost")
    advice = "Rebuild the days with `backfill-assets backfill --force`, or restore the files from a backup"
    if is_mended(contract):
        advice = f"Take them out of its log with {_mend(name)}, then run `backfill-assets catch-up`"
    if found.absent:
        told = f"{len(found.absent)} data file(s) of its newest version are gone: {some(found.absent)}"
        yield broken(name, told, advice)
    if found.altered:
        told = f"{len(found.altered)} data file(s) have another size than written: {some(found.altered)}"
        yield broken(name, told, advice)


def _receipts(name: str, contract: Contract, found: Inspection, view: TableView) -> Iterator[Diagnosis]:
    """Rows per day by the statistics in the log against the receipts; only for tables laid out by their day."""
    counted = found.day_rows
    if counted is None:
        if found.untold:
            yield odd(name, f"the log does not say {found.untold}", "Use `backfill-assets doctor --deep`")
        return
    receipts = {d: s.entry.rows for d, s in view.stamps.items()}
    wrong = sorted(
        d for d in {*counted, *receipts} if counted.get(d, 0) != receipts.get(d, 0) and d not in view.foreign
    )
    if wrong:
        first = wrong[0]
        yield broken(
            name,
            f"{len(wrong)} day(s) hold other row counts than their receipts ({some(contiguous(wrong))}); "
            f"{first}: {counted.get(first, 0)} rows, receipt {receipts.get(first, 'none')}",
            f"Rebuild with `backfill-assets backfill --force --from {first} --to {wrong[-1]} --tables {contract.name}`",
        )
