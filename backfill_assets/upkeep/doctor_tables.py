"""The doctor's findings, and its checks of tables and snapshots: logs, files, receipts and rows.

Not here: the inspection of a log and mending it (`upkeep.inspection`), and the lists of checks
(`doctor`).
"""

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date

from backfill_assets.cli.findings import (
    Diagnosis,
    error_finding,
    first_names,
    good_finding,
    warning_finding,
)
from backfill_assets.intake.ledger import ARRIVALS, FILES, QUARANTINE
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import contiguous_ranges
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import SCHEME
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.view import TableView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.derived import load_command
from backfill_assets.reading.fitness import differing_days
from backfill_assets.reading.kept_files import DAY_IN_NAME, file_fault
from backfill_assets.reading.kept_snapshots import find_snapshot, place_of_files, snapshot_names
from backfill_assets.reading.whole import snapshots_of
from backfill_assets.upkeep.damaged_files import audit_readable
from backfill_assets.upkeep.inspection import Inspection, inspect_table, is_mended

RESTORE = "Restore it from a backup, or move the table's folder away and rebuild the table"
FOLLOW = (
    "Others write it: `backfill-assets catch-up` follows their newest version; if it says the "
    "same then, have its "
    "owner restore the files"
)
DROP = (
    "Restore them from a backup, or let the snapshot go with `backfill-assets snapshot drop {} "
    "--yes`"
)


def examine_table(
    lake: Lake, contract: Contract, landed: str, read: bool = False, deep: bool = False
) -> Iterator[Diagnosis]:
    """Check log, files and receipts of a table; `landed` names the table whose loads write the
    ledgers again. `read` and `deep` as `inspect` takes them.

    A torn or gapped log ends the check, as nothing else can be known.
    """
    name = f"the table {contract.name}"
    report = inspect_table(lake, contract, read, deep)
    damage = list(_table_damage(lake, contract, report, landed))
    yield from damage
    if not damage:
        yield _whole_table(name, report)
    if report.lost:
        unnamed = f"{report.lost} data file(s), {report.lost_bytes} bytes, belong to no version"
        yield good_finding(
            name,
            f"{unnamed}: left by a write that was stopped, or of one that runs; nothing reads them",
        )


def _whole_table(name: str, report: Inspection) -> Diagnosis:
    """Return the finding of a table without damage: its figures, or that it does not exist yet."""
    if not report.commits:
        return good_finding(name, "it does not exist yet")
    figures = f"{report.commits} commits, {report.files} files, {report.rows} rows"
    return good_finding(name, f"{figures}: log whole, files there, receipts equal contents")


def _table_damage(
    lake: Lake, contract: Contract, report: Inspection, landed: str
) -> Iterator[Diagnosis]:
    """Yield what is wrong with a table: its log, and if that can be read, foreign commits, data
    files and counts of rows."""
    yield from _log_damage(contract, report)
    is_readable = not (report.lacking or report.torn or report.ended)
    if not is_readable or not report.commits:
        return
    view = lake.store.view(contract.name, contract.day_column)
    yield from _foreign_commits(f"the table {contract.name}", contract, report, view, landed)
    yield from _file_damage(contract, report)
    yield from _differing_row_counts(f"the table {contract.name}", contract, report, view)


def _log_damage(contract: Contract, report: Inspection) -> Iterator[Diagnosis]:
    """Yield what is wrong with a table's log: versions, contents, and checkpoints."""
    name, mend = f"the table {contract.name}", f"`backfill-assets mend {contract.name} --yes`"
    yield from _version_damage(name, mend, report)
    yield from _false_contents(name, report)
    if report.checkpoints_torn:
        what = (
            "a checkpoint of its log is torn or holds other bytes than were written (a power cut "
            "does that)"
        )
        yield error_finding(
            name, what, f"Set it aside with {mend}: every commit is kept, and nothing is lost"
        )


def _version_damage(name: str, mend: str, report: Inspection) -> Iterator[Diagnosis]:
    """The versions of the log of the table `name` that `report` finds lacking or torn; `mend` is
    the command that sets one aside."""
    if report.lacking:
        yield error_finding(
            name, f"its log lacks version(s) {first_names(report.lacking)}", RESTORE
        )
    if report.ended:
        what = f"version(s) {first_names(report.ended)}, the newest of its log, are gone"
        yield error_finding(
            name,
            what,
            f"Restore them from a backup, or run {mend}, then `backfill-assets catch-up`",
        )
    newest = report.commits + len(report.lacking) - 1
    for version in report.torn:
        what, advice = f"version {version} of its log is torn", RESTORE
        if version == newest:
            what += " (the newest: a power cut does that)"
            advice = f"Set it aside with {mend}, then run `backfill-assets catch-up`"
        yield error_finding(name, what, advice)


def _false_contents(name: str, report: Inspection) -> Iterator[Diagnosis]:
    """The commits or kept states of the log of the table `name` that `report` finds changed. Of an
    edited log no state is judged: the commits may be what is false."""
    if report.edited:
        what = (
            f"version(s) {first_names(report.edited)} of its log were edited: they hold other "
            "bytes than were committed"
        )
        advice = (
            "Restore these files of its log from a backup; until then nothing proves who wrote "
            "these days, and why"
        )
        yield error_finding(name, what, advice)
    elif report.false_states:
        what = (
            f"{len(report.false_states)} kept state(s) of its log are not what its commits say; "
            "readers take them"
        )
        remove = f"rm {' '.join(map(shlex.quote, report.false_states))}"
        yield error_finding(
            name,
            what,
            f"Delete them, they are only copies, then look at `status` again: `{remove}`",
        )


def _file_damage(contract: Contract, report: Inspection) -> Iterator[Diagnosis]:
    """Yield a finding per kind of damage to data files: of the newest version each with the way
    back, of earlier versions one for all."""
    name = f"the table {contract.name}"
    damaged = {
        "of its newest version are gone": report.absent,
        "have another size than written": report.altered,
        "hold other bytes than were written": report.flipped,
    }
    advice = _way_back(contract, [file for files in damaged.values() for file in files])
    for what, files in damaged.items():
        if files:
            yield error_finding(
                name, f"{len(files)} data file(s) {what}: {first_names(files)}", advice
            )
    if before := report.flipped_before:
        text = (
            f"{len(before)} data file(s) of earlier versions hold other bytes than were written: "
            f"{first_names(before)}"
        )
        yield error_finding(
            name,
            text,
            "Restore them from a backup; else a rollback to these versions brings other rows",
        )


def _way_back(contract: Contract, files: Iterable[str]) -> str:
    """What brings back the rows of damaged data files of a table."""
    if contract.external:
        return FOLLOW
    if is_mended(contract):
        mend = f"`backfill-assets mend {contract.name} --yes`"
        return f"Take them out of its log with {mend}, then run `backfill-assets catch-up`"
    named = (DAY_IN_NAME.search(file) for file in files)
    days = sorted(found[1] for found in named if found)
    span = f" --from {days[0]} --to {days[-1]} --tables {contract.name}" if days else ""
    return (
        f"Rebuild the days with `backfill-assets backfill --force{span}`, or restore the files "
        "from a backup"
    )


def _foreign_commits(
    name: str, contract: Contract, report: Inspection, view: TableView, landed: str
) -> Iterator[Diagnosis]:
    """Commits of other programs whose changes still stand; a day that we wrote again since is
    ours."""
    if not report.foreign:
        return
    what = f"version(s) {first_names(report.foreign)} changed data and are not ours"
    if contract.columns == FILES.columns:
        yield warning_finding(
            name, f"{what}: not read, what we wrote counts", "Keep other programs from writing here"
        )
        return
    days = view.foreign if contract.is_by_day else view.foreign & view.latest.keys()
    if not days:
        return
    if contract.columns in (ARRIVALS.columns, QUARANTINE.columns):
        advice = f"Load its arrival days again: `{load_command(landed, days)}`"
    else:
        span = f"--from {min(days)} --to {max(days)} --tables {contract.name}"
        advice = f"These days show as stale: `backfill-assets backfill {span}`"
    what = f"{what} ({first_names(contiguous_ranges(days))})"
    yield warning_finding(name, what, f"{advice}, and keep other programs from writing here")


def _differing_row_counts(
    name: str, contract: Contract, report: Inspection, view: TableView
) -> Iterator[Diagnosis]:
    """Compare the rows per day in the log's statistics with the receipts; only for tables
    partitioned by their day."""
    counted = report.day_rows
    if counted is None:
        if contract.is_by_day:
            yield warning_finding(
                name, "its log does not say how many rows a day has", "Use `backfill-assets verify`"
            )
        return
    receipts = {d: r.entry.rows for d, r in view.latest.items()}
    days = sorted({*counted, *receipts} - {*view.foreign})
    wrong = [d for d in days if counted.get(d, 0) != receipts.get(d, 0)]
    if wrong:
        first = wrong[0]
        yield error_finding(
            name,
            f"{contract.calendar.count_text(len(wrong))} hold other row counts than their receipts "
            f"({first_names(contiguous_ranges(wrong))}); "
            f"{first}: {counted.get(first, 0)} rows, receipt {receipts.get(first, 'none')}",
            _rebuild_advice(contract, f"--from {first} --to {wrong[-1]} "),
        )


def examine_rows(
    lake: Lake, contract: Contract, seen: TableView, days: Collection[date] | None = None
) -> Diagnosis:
    """Compare the rows and fingerprints of days of a table (None: all) with their receipts, by
    DuckDB. Days whose files are gone or cannot be read are named, the others are compared all the
    same."""
    name = f"the contents of {contract.name}"
    profiles, unread = audit_readable(lake, contract, days)
    if unread and not contract.is_by_day:
        return error_finding(
            name,
            f"files of it are gone or cannot be read, nothing was compared: {first_names(unread)}",
            RESTORE,
        )
    chosen = seen.latest.keys() if days is None else seen.latest.keys() & days
    receipts = {d: seen.latest[d].entry for d in chosen if str(d) not in unread}
    compared = {d: p for d, p in profiles.items() if d is None or d in receipts}
    differing = differing_days(lake, contract, receipts, compared)
    undated = None if contract.external else profiles.get(None)  # rows of others may have no day
    faults = _faults_of_rows(contract, differing, undated.rows if undated else 0, unread)
    if not faults:
        return good_finding(name, _equal_rows(contract, receipts.values()))
    wrong = sorted({*map(str, differing), *unread})
    span = f"--from {wrong[0]} --to {wrong[-1]} " if wrong else ""
    return error_finding(name, "; ".join(faults), _rebuild_advice(contract, span))


def _faults_of_rows(
    contract: Contract, differing: Sequence[date], undated: int, unread: Sequence[str]
) -> list[str]:
    """The faults of a table's rows in words: days that differ from their receipts, the number of
    rows without a day, days that cannot be read."""
    faults, count_text = list[str](), contract.calendar.count_text
    if differing:
        days = first_names(contiguous_ranges(differing))
        faults.append(f"{count_text(len(differing))} differ from their receipts: {days}")
    if undated:
        faults.append(f"{undated} row(s) have no day")
    if unread:
        faults.append(f"{count_text(len(unread))} cannot be read: {first_names(unread)}")
    return faults


def _equal_rows(contract: Contract, entries: Collection[DayEntry]) -> str:
    """That days equal their receipts, and of how many only the number of rows is known."""
    counted = contract.calendar.count_text(len(entries))
    text = f"{counted}, {sum(e.rows for e in entries)} rows equal their receipts"
    older = sum(e.scheme != SCHEME and e.rows > 0 for e in entries)
    if older:
        text += f"; of {older} only the count of rows, their receipts fingerprint in another way"
    return text


def _rebuild_advice(contract: Contract, span: str) -> str:
    """What makes days of a table right again; `span`: the options that name them."""
    if contract.external:
        return FOLLOW
    return f"Rebuild with `backfill-assets backfill --force {span}--tables {contract.name}`"


def examine_snapshots(lake: Lake, deep: bool = False) -> Iterator[Diagnosis]:
    """Check every snapshot by the names and sizes of its files, with `deep` by reading each byte
    that it keeps, and name the folders of stopped commands."""
    for name in snapshot_names(lake):
        yield _examine_snapshot(lake, name, deep)
    if deep:
        return
    # A `create` that runs or was stopped, or a `drop` that was stopped.
    if leftovers := snapshots_of(lake.place).leftovers():
        what, drop = first_names(leftovers), f"`backfill-assets snapshot drop {leftovers[0]} --yes`"
        yield good_finding(
            "snapshots", f"left by a stopped command: {what}; where none runs, {drop} lets it go"
        )


def _examine_snapshot(lake: Lake, name: str, deep: bool) -> Diagnosis:
    """Return whether all files of a snapshot are there with their sizes; `deep`: also with their
    bytes."""
    what = f"the snapshot {name}"
    try:
        snapshot = find_snapshot(lake, name)
    except BackfillError as error:
        return error_finding(what, error.culprit, error.fix)
    size, count, faults = 0, 0, list[str]()
    for table in snapshot.tables.values():
        place = place_of_files(lake, name, table)
        for file in table.files:
            size, count = size + file.size, count + 1
            if fault := file_fault(place, file, deep=deep):
                faults.append(f"{file.path} {fault}")
    if faults:
        of_files = f"{len(faults)} of {count} file(s) {first_names(faults)}"
        return error_finding(what, of_files, DROP.format(name))
    state = "the bytes that were kept" if deep else "there"
    tables = ", ".join(snapshot.tables)
    return good_finding(what, f"{tables}: {count} file(s), {size} bytes; all are {state}")
