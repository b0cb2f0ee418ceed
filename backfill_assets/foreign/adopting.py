"""Adopting a daily Delta table of others in its place: the lake's history of it begins with
receipts of all its days.

No data file is copied or changed. The lake's own commits go to the table's own log from then on, so
that readers of its folder see what the lake writes; `tables/NAME` of the lake leads there. Commits
of others stay foreign, or are days to judge where `[tables.NAME] others_may_write` says so. Not
here: where the history begins, for who reads it (`adopted`).
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import stamina

from backfill_assets.assets.declared import (
    DeclaredTable,
    declare_table,
    find_declared,
    record_table_place,
)
from backfill_assets.foreign.adoptable import (
    Adoption,
    adopted_contract,
    adoption_error,
    commit_second_names,
    contract_of_files,
    files_with_days,
    refuse_known_table,
    refuse_unfit,
    refuse_wrong_days,
)
from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.calendars import Calendar
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.ownership import BY, whoami
from backfill_assets.kernel.core.profiles import DayProfile, Surroundings, receipt_counts
from backfill_assets.kernel.core.readings import (
    PARAMETERS,
    Parameters,
    Sets,
    column_sets_read,
    contract_columns,
)
from backfill_assets.kernel.core.receipts import Built, DayEntry, Receipt
from backfill_assets.kernel.core.view import TableView
from backfill_assets.kernel.log.adopted import ADOPTION, JUDGE, adoption_mark
from backfill_assets.kernel.log.log import (
    LOG,
    commit_info,
    commit_name,
    commit_versions,
    first_version_of,
    note_head,
    read_commit,
    read_head,
    sync_log,
)
from backfill_assets.kernel.log.log_bounds import data_fault
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.columns import KEEPS_LOG, column_types_by_day
from backfill_assets.kernel.tables.committer import Conflict, commit_files, newer_writes_check
from backfill_assets.kernel.tables.data_files import files_of_days, files_of_version
from backfill_assets.kernel.tables.folder import TABLES
from backfill_assets.kernel.tables.gate_bounds import TableGate
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.gates import DayToJudge, judge_day
from backfill_assets.kernel.write.model import Table, make_pipeline, spark_sql_settings

if TYPE_CHECKING:
    from deltalake import DeltaTable

ADOPT = "adopt"  # the reason of a receipt
# The tag of a receipt of judged days with the commits of others since the last one.
WRITERS = "written by"
ADOPTED = "adopted"  # the tag with version, table id and folder of what was adopted, and the lake
RETENTION = "delta.deletedFileRetentionDuration"
ATTEMPTS = 5
# What determines days that others made: no input that is known here. Code that makes them now finds
# them outdated.
FROM_NOTHING = Parameters(
    inputs=(),
    waits_for_cut=False,
    matures_after_days=None,
    grace=timedelta(0),
    start=date.min,
).to_json()
MOST_NAMED_DAYS = 10  # days that a refusal names one by one


class AdoptedForm(TypedDict):
    """An adopted table as JSON values."""

    table: str
    version: int
    days: Sequence[DayText]
    rows: int


@dataclass(frozen=True)
class AdoptedTable:
    """An adopted table."""

    table: str
    version: int  # of its log: the commit with the receipts
    days: tuple[date, ...]  # that have rows
    rows: int
    calendar: Calendar = field(default_factory=Calendar)

    def __str__(self) -> str:
        count = self.calendar.count_text(len(self.days))
        span = f"{count}, {ranges_text(self.days)}" if self.days else "no day"
        return (
            f"adopted    {self.table}: {span}, {self.rows} row(s), by version {self.version}; no "
            "file was touched"
        )

    def to_dict(self) -> AdoptedForm:
        """The result as JSON values."""
        return {
            "table": self.table,
            "version": self.version,
            "days": list(map(str, self.days)),
            "rows": self.rows,
        }


def adopt_table(lake: Lake, wanted: Adoption, contracts: Sequence[Contract]) -> AdoptedTable:
    """Make a table of others one of the lake, in at most one commit; goes on where a killed call
    stopped.

    `contracts` are those of the lake's tables: where one of them has the name, the lake makes its
    days from now on, else the asset of that name. Raises BackfillError, naming the culprit, for a
    table that cannot be kept as it lies, and Conflict where others write it all the time; then
    nothing was written.
    """
    with lake.store.lock(wanted.name):
        for attempt in stamina.retry_context(on=Conflict, attempts=ATTEMPTS, timeout=None):
            with attempt:
                opened = wanted.opened()
                receipt = _earlier_adoption(lake, wanted)
                if receipt is None:
                    refuse_unfit(wanted, opened)
                    refuse_known_table(lake, wanted, opened, contracts)
                    receipt = _commit_adoption(
                        lake, wanted, opened, _adoption_receipt(lake, wanted, opened)
                    )
                _point_to_table(lake, wanted, adopted_contract(wanted, opened), contracts)
                rows = sum(entry.rows for entry in receipt.days.values())
                return AdoptedTable(
                    wanted.name,
                    first_version_of(wanted.there),
                    tuple(receipt.days),
                    rows,
                    wanted.calendar,
                )
    raise AssertionError("unreachable: the retry context returns or raises")


def _point_to_table(
    lake: Lake, wanted: Adoption, contract: Contract, contracts: Sequence[Contract]
) -> None:
    """Let the lake's name of the table lead to its folder, and declare it, unless a table of the
    lake has the name."""
    if wanted.there.is_store:
        record_table_place(lake.place, wanted.name, wanted.place)
    else:
        lake.place.point(f"{TABLES}/{wanted.name}", Path(wanted.place))
    known = next((c for c in contracts if c.name == wanted.name), None)
    is_made_here = known is not None and not known.made_by
    if not is_made_here and find_declared(lake.place, wanted.name) is None:
        asset = tuple(wanted.name.split("__"))
        if not contract.calendar.is_of_days:
            first_day = contract.calendar.first_from(lake.settings.start_date)
            contract = replace(contract, first_day=first_day)
        declare_table(lake.place, DeclaredTable(contract, asset, code=""))


def _earlier_adoption(lake: Lake, wanted: Adoption) -> Receipt | None:
    """The receipt of an earlier call, which may have been killed; None without one. Raises
    BackfillError where another lake has the table."""
    table = wanted.there
    first = first_version_of(table)
    has_commit = bool(first) and first in commit_versions(table, whole=True)
    if not has_commit or ADOPTION not in commit_info(table, first):
        if read_head(table):
            raise adoption_error(
                wanted.name, "a lake made it", "Read it as an external table, or name another"
            )
        return None
    receipt = read_commit(table, first).receipt
    where = receipt.tags[ADOPTED] if receipt is not None else "unknown"
    is_ours = where.endswith(_by_lake(lake))
    if receipt is None or receipt.table != wanted.name or not is_ours:
        fix = (
            f"Work on that lake. If it is no more, delete {LOG}/{adoption_mark(first)} and "
            f"{LOG}/.head "
            "below the table"
        )
        raise adoption_error(wanted.name, f"a lake has adopted it already ({where})", fix)
    return receipt


def _by_lake(lake: Lake) -> str:
    return f" by the lake {lake.address}"


def _adoption_receipt(lake: Lake, wanted: Adoption, opened: "DeltaTable") -> Receipt:
    """The receipt of all days of the table as it was opened. Raises BackfillError for rows without
    a day or a key, for keys that are not unique, and for files that are gone."""
    place, contract = wanted.there, adopted_contract(wanted, opened)
    there = files_with_days(wanted, opened)
    refuse_wrong_days(wanted, there)
    paths = [str(place.local(reference.file.path)) for reference in there]
    audited = audit_files(lake, paths, contract_of_files(wanted, opened))
    profiles = {day: profile for day, profile in audited.items() if day is not None}
    if broken := _broken_days(contract, profiles, TableGate(empty="allow")):
        fix = "Correct these days there, or name other columns as its --key"
        raise adoption_error(
            wanted.name,
            f"{len(broken)} day(s) break what its key promises: {_reasons_text(broken)}",
            fix,
        )
    codes = make_pipeline([Table(contract)], spark_sql_settings(lake)).codes[contract.name]
    entries = {day: observed_entry(contract, profile, ()) for day, profile in profiles.items()}
    text = f"version {opened.version()} of {opened.metadata().id} in {place}{_by_lake(lake)}"
    return Receipt(
        uuid.uuid4().hex,
        contract.name,
        ADOPT,
        dict(sorted(entries.items())),
        code_digest=codes.code_digest,
        settings_digest=codes.settings_digest,
        tags={ADOPTED: text, PARAMETERS: FROM_NOTHING, BY: whoami()},
    )


def observed_entry(contract: Contract, profile: DayProfile, read: Iterable[str]) -> DayEntry:
    """The entry of a day that others made, so that no inputs of it are known: its rows, and the
    fingerprints of the sets of columns, by their names, that other tables `read`."""
    counts = receipt_counts(profile, contract.nullable_columns)
    parts = {name: profile.parts[name] for name in read if name in profile.parts}
    columns = contract_columns(contract)
    return DayEntry(
        profile.rows,
        profile.fingerprint,
        input_digest=digest_of([]),  # of no inputs
        counts=counts,
        parts=parts,
        columns=columns,
    )


def _broken_days(
    contract: Contract, profiles: Mapping[date, DayProfile], bounds: TableGate
) -> dict[date, str]:
    """Why each of these days may not stand, by the contract's partitions, rules and the bounds;
    days that may are left out."""
    around = Surroundings(may_be_empty=True)
    found = dict[date, str]()
    for day, profile in profiles.items():
        if profile.rows and not contract.calendar.is_key(day):
            found[day] = f"it names no partition: every {contract.calendar}"
            continue
        findings = judge_day(DayToJudge(contract, day, profile, bounds, around))
        if messages := [finding.message for finding in findings if finding.refuses]:
            found[day] = "; ".join(messages)
    return dict(sorted(found.items()))


def _reasons_text(broken: Mapping[date, str]) -> str:
    return "; ".join(f"{day}: {why}" for day, why in [*broken.items()][:MOST_NAMED_DAYS])


def _commit_adoption(
    lake: Lake, wanted: Adoption, opened: "DeltaTable", receipt: Receipt
) -> Receipt:
    """Commit the receipt with the properties that keep log and files, and no file but second names
    of those there."""
    table, before = wanted.there, opened.version()
    receipt = replace(receipt, note=wanted.note)
    LOGS.delete_kept_states(table)  # of a lake that is no more, whose days are not this one's
    # First the mark: without it a reader would take the receipt for one commit among others'.
    table.write(f"{LOG}/{adoption_mark(before + 1)}", b"")
    failed = None
    try:
        _write_commit(wanted, opened, _kept_properties(lake, opened), receipt)
    except Exception as error:  # noqa: BLE001  # the log decides whether it happened
        failed = error
    if LOGS.find_write(table, receipt.write_id, before) is None:
        if table.exists(commit_name(before + 1)) or failed is None:
            raise Conflict(
                f"the table {wanted.name}",
                "others wrote it meanwhile",
                "Nothing was written",
                "Run again",
            )
        raise adoption_error(
            wanted.name, " ".join(str(failed).split()), "Have its owner set that right"
        ) from failed
    sync_log(table, before + 1)
    note_head(table, before + 1)
    return receipt


def _kept_properties(lake: Lake, opened: "DeltaTable") -> dict[str, str]:
    """The properties by which log and replaced files are kept; a retention that the table has
    itself stays."""
    properties = {**KEEPS_LOG, "delta.enableDeletionVectors": "false"}
    if RETENTION not in opened.metadata().configuration:
        properties[RETENTION] = f"interval {lake.settings.retention.rollback_days} days"
    return properties


def _write_commit(
    wanted: Adoption, opened: "DeltaTable", properties: Mapping[str, str], receipt: Receipt
) -> None:
    """Write the commit of an adoption: with second names of the files where nothing lays them
    out."""
    from deltalake import CommitProperties, Transaction

    info = {"userMetadata": receipt.to_json(), ADOPTION: "true"}
    if not opened.metadata().partition_columns:
        commit_second_names(wanted.there, wanted, opened, properties, info)
        return
    moment = int(utc_now().timestamp() * 1000)
    committed = CommitProperties(info, 0, [Transaction(receipt.write_id, 1, moment)])
    opened.alter.set_table_properties(
        {**properties}, raise_if_not_exists=False, commit_properties=committed
    )


def entity_in_logs(
    lake: Lake, contracts: Sequence[Contract], columns: Collection[str]
) -> Iterator[tuple[str, str]]:
    """For each adopted table with the columns of an entity: that its log may name the values, and
    what to do."""
    fix = "Have its owner delete the rows and vacuum it, write what is left anew, and adopt that"
    for contract in contracts:
        if {*columns} <= {*contract.column_names} and lake.is_adopted(contract.name):
            yield (
                f"{contract.name} was adopted: what others wrote to its log names values, and "
                "stays",
                fix,
            )


def is_followed(lake: Lake, contract: Contract) -> bool:
    """Whether commits of others to a table are looked for, and their days taken in: no alarm."""
    if contract.external:
        return True
    named = lake.settings.tables.get(contract.name)
    return named is not None and named.others_may_write and lake.is_adopted(contract.name)


def judge_foreign_days(
    lake: Lake, contracts: Sequence[Contract], contract: Contract
) -> tuple[date, ...]:
    """Judge the days of an adopted table that others wrote, by its key, rules and bounds, and give
    receipts to those that hold, in one commit; returns these days. Raises BackfillError,
    afterwards, for days that do not, which stay an alarm; for rows without a day; for columns, or
    types, that the table has not; Conflict where others never rest."""
    with lake.store.lock(contract.name):
        for attempt in stamina.retry_context(on=Conflict, attempts=ATTEMPTS, timeout=None):
            with attempt:
                return _judge_once(lake, contracts, contract)
    raise AssertionError("unreachable: the retry context returns or raises")


def _judge_once(lake: Lake, contracts: Sequence[Contract], contract: Contract) -> tuple[date, ...]:
    """Do what `judge_foreign_days` does, once; the caller holds the lock, of which others know
    nothing."""
    name = contract.name
    view = lake.store.view(name, contract.day_column)
    if not view.foreign:
        return ()
    _refuse_other_columns(lake, contract, view)
    read = column_sets_read(contracts, name)
    found = _foreign_profiles(lake, contract, view, read)
    broken = _broken_days(contract, found, lake.settings.gates.bounds(name))
    held = dict.fromkeys(view.held_days, Built.HELD)  # no run may make them yet
    closed = _altered_closed_days(view, found)
    entries = dict[date, DayEntry]()
    for day in sorted(found.keys() - broken.keys() - closed):
        entry = observed_entry(contract, found[day], read)
        entries[day] = replace(entry, built=held.get(day, Built.COMPLETE))
    if entries:
        _commit_judged(lake, contract, view, entries)
    if broken:
        fix = "Correct them there, or make them anew: `backfill-assets backfill --force`"
        raise adoption_error(
            name,
            f"others wrote days that break its rules: {_reasons_text(broken)}",
            fix,
            "accepted",
        )
    if closed:
        fix = (
            "Have its owner put their rows back there, or open them: `backfill-assets reopen "
            f"--tables {name} --from {min(closed)} --note WHY`"
        )
        culprit = f"others wrote other rows to days that are closed: {ranges_text(closed)}"
        raise adoption_error(name, culprit, fix, "accepted")
    return tuple(entries)


def _altered_closed_days(view: TableView, profiles: Mapping[date, DayProfile]) -> frozenset[date]:
    """The closed days among these whose rows are others than their receipts say."""
    found = set[date]()
    for day, profile in profiles.items():
        known = view.latest.get(day)
        is_as_known = known is not None and known.entry.content == profile.content
        if view.is_closed(day) and not is_as_known:
            found.add(day)
    return frozenset(found)


def _refuse_other_columns(lake: Lake, contract: Contract, view: TableView) -> None:
    """Raise BackfillError for columns, or types, that others gave the table and that it has not."""
    opened = LOGS.opened(lake.table_place(contract.name), view.version)
    own = {column.name: column.kind for column in contract.columns}
    new = list[str]()
    for name, kind in sorted(column_types_by_day(opened, contract.day_column).items()):
        fits = name in own and (own[name] == kind or own[name].is_wider_than(kind))
        if not fits:
            new.append(f"{name} as {kind or 'no type of a table here'}")
    if new:
        raise adoption_error(
            contract.name,
            f"others gave it {', '.join(new)}",
            "Have the asset return it so, too",
            "judged",
        )


def _foreign_profiles(
    lake: Lake, contract: Contract, view: TableView, read: Sets
) -> dict[date, DayProfile]:
    """The profiles of the days that others wrote, by their rows, with fingerprints of the sets of
    columns that are `read`. Raises BackfillError for rows without a day, and for files that cannot
    be read."""
    files = files_of_version(lake, contract, view.version)
    if without := [file.path for file in files if file.partition is None]:
        fix = "Give them one, or delete them"
        raise adoption_error(contract.name, f"rows in {without[0]} have no day", fix, "judged")
    # Refuses names that are no files of the table.
    paths = lake.store.data_files(contract, view.version, view.foreign)
    others_wrote = files_of_days(files, contract, view.foreign)
    if why := data_fault(lake.table_place(contract.name), (file.path for file in others_wrote)):
        raise adoption_error(contract.name, why, "Have its owner write these days anew", "judged")
    found = dict.fromkeys(view.foreign, DayProfile())
    for day, profile in audit_files(lake, paths, contract, read).items():
        if day is not None:
            found[day] = profile
    return found


def _commit_judged(
    lake: Lake, contract: Contract, view: TableView, entries: Mapping[date, DayEntry]
) -> None:
    """Commit receipts of these days of others, unless the table moved since it was read."""
    name, path = contract.name, lake.table_place(contract.name)
    adopted = read_commit(path, first_version_of(path)).receipt or Receipt(
        write_id="", table=name, reason=JUDGE, days={}
    )
    tags = {PARAMETERS: FROM_NOTHING, WRITERS: _foreign_commits(lake, name, view), BY: whoami()}
    receipt = replace(
        adopted, write_id=uuid.uuid4().hex, reason=JUDGE, note="", days={**entries}, tags=tags
    )
    check = newer_writes_check(path, view.version)
    commit_files(path, contract, receipt, adds=(), removes=(), committing=check)


def _foreign_commits(lake: Lake, name: str, view: TableView) -> str:
    """The commits of others that changed rows since days were judged last: version, operation and
    program."""
    found, table = list[str](), lake.table_place(name)
    for commit in lake.store.newest_commits(name):
        if commit.receipt is not None and commit.receipt.reason in (ADOPT, JUDGE):
            break
        if commit.version in view.others:
            info = commit_info(table, commit.version)
            unknown = "a program that does not say its name"
            program = info.get("engineInfo") or info.get("clientVersion") or unknown
            found.append(f"version {commit.version}: {commit.operation} by {program}")
    shown = [*reversed(found[:MOST_NAMED_DAYS])]
    if len(found) > MOST_NAMED_DAYS:
        shown.append("…")
    return "; ".join(shown)
