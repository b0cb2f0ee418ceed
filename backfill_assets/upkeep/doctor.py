"""The commands doctor and verify: checks of the machine and of a lake, without a JVM, and the lists
that run them.

The command verify holds logs, files and rows of tables against their receipts by a second reader.
Not here: the checks of one table or snapshot (`doctor_tables`), and repairs: a check changes
nothing.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

from backfill_assets.cli.dagster_names import EVENT_STORAGE, KEEPS_BACKFILLS, NAMES_A_STORAGE
from backfill_assets.cli.findings import (
    Check,
    Diagnosis,
    Level,
    error_finding,
    finding_of,
    first_names,
    good_finding,
    run_checks,
    warning_finding,
)
from backfill_assets.engines.cache import delta_coordinate, present_jars
from backfill_assets.engines.jvm import find_java
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.loss import failing_alone
from backfill_assets.engines.processes import program_environments
from backfill_assets.engines.server import engine_named, server_status
from backfill_assets.intake.forgotten import erasure_doubts
from backfill_assets.intake.landed_changes import Comparison, deliveries_name, look_at_landing
from backfill_assets.intake.landings import is_in_bucket
from backfill_assets.intake.ledger import ARRIVALS, FILES, FileRecord
from backfill_assets.intake.listing import Listing
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import contiguous_ranges
from backfill_assets.kernel.core.engines import PROJECT_SESSION
from backfill_assets.kernel.core.errors import (
    BackfillError,
    errors_of_source,
    never_written_error,
    refuse_unknown_names,
    source_section,
)
from backfill_assets.kernel.core.rooms import installed_rooms, resolve_reference
from backfill_assets.kernel.core.texts import printable_text, scrub_secrets
from backfill_assets.kernel.tables.folder import DAGSTER_FOLDER
from backfill_assets.kernel.tables.home import Lake, open_lake, refuse_unwritable
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.tables.versions import newest_version
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Table
from backfill_assets.pipeline.lake_pipeline import pipeline_of
from backfill_assets.reading.account import Account, accounts_by_table
from backfill_assets.reading.rejected import ledgers_of, undeclared_tables
from backfill_assets.upkeep.doctor_engine import examine_engine
from backfill_assets.upkeep.doctor_tables import examine_rows, examine_snapshots, examine_table

UNLISTED = "the folder cannot be listed"  # as `intake.files` says it
PAGES = (
    "`dg dev` (or `dagster dev`) answers every user of this machine, who may then start runs and "
    "roll back, too; "
    "`backfill-assets ui` answers only who has its address"
)
ACCEPT = 'or say `backfill-assets landing accept --note "why"`'


def examine_everything(
    root: Path,
    tables_of: Callable[[LakeSettings], Sequence[Table]],
    deep: bool = False,
    of_home: Callable[[Lake], Iterable[Diagnosis]] = lambda _: (),
) -> list[Diagnosis]:
    """Run all checks on the machine and the lake at `root`; good findings are listed, too.

    `tables_of` gives the tables of settings; `deep` reads all rows where nothing else is broken;
    `of_home` looks at Dagster's instance. Whatever a lake causes is a finding, not
    an exception.
    """
    try:
        lake = open_lake(root)
        tables = tables_of(lake.settings)
        pipeline_of(lake, tables)
        contracts = [t.contract for t in tables]
    except BackfillError as error:
        return [*run_checks(JAVA_CHECKS), finding_of(error)]
    findings = run_checks([*_engine_checks(lake, tables), *_lake_checks(lake, tables, of_home)])
    findings += _examine_tables(lake, contracts, deep)
    findings += run_checks([("snapshots", partial(examine_snapshots, lake))])
    return findings if has_errors(findings) else [*findings, good_finding("Dagster's pages", PAGES)]


def _engine_checks(lake: Lake, tables: Sequence[Table]) -> Sequence[tuple[str, Check]]:
    """The checks of what this machine needs to start the engine of `lake`; none of a session of the
    project's own."""
    engine = lake.settings.spark.engine
    if engine == PROJECT_SESSION:
        return ()
    if engine_named(engine).needs_java:
        return JAVA_CHECKS
    return (("the engine", partial(examine_engine, lake, tables)),)


def _lake_checks(
    lake: Lake, tables: Sequence[Table], of_home: Callable[[Lake], Iterable[Diagnosis]]
) -> list[tuple[str, Check]]:
    """The checks of `lake` besides those of its tables' logs, files and rows; `of_home` as
    `examine_everything` takes it."""
    checks: list[tuple[str, Check]] = [
        (
            "lake.toml",
            lambda: [good_finding("lake.toml", f"valid, from {lake.settings.start_date}")],
        ),
        ("the lake", partial(_examine_rights, lake)),
        *_checks_of_rooms(lake, tables),
        ("the lake's log", partial(_examine_lake_log, lake)),
        ("the engine", partial(_examine_server, lake)),
        ("Dagster's home", partial(_examine_dagster_home, lake)),
        ("Dagster's home", partial(of_home, lake)),
        ("Dagster's daemon", examine_daemons),
        ("declared columns", partial(_compiled_columns, tables)),
    ]
    checks += [("the landing folder", partial(_examine_landing, one)) for one in lake.by_source()]
    return checks


def _examine_tables(lake: Lake, contracts: Sequence[Contract], deep: bool) -> list[Diagnosis]:
    """The findings about the tables, and about the ledger where no table is broken: sums over
    broken tables would mislead."""
    findings = verify_tables(lake, contracts, VerifyRequest(rows=deep, deep=deep))
    findings += run_checks(
        [
            ("the tables", partial(_undeclared_tables, lake, contracts)),
            ("forgotten entities", partial(_unknown_erasures, lake)),
        ]
    )
    if not has_errors(findings):
        findings += run_checks([("the ledger", partial(_examine_sums, lake, contracts))])
    return findings


def has_errors(findings: Iterable[Diagnosis]) -> bool:
    """Whether a promise of the product is broken."""
    return any(finding.level is Level.ERROR for finding in findings)


def _examine_java() -> Iterator[Diagnosis]:
    java = find_java()
    yield good_finding("Java", f"version {java.version} from {java.source}")


def _examine_jars() -> Iterator[Diagnosis]:
    if jars := present_jars():
        yield good_finding("Delta's jars", f"{len(jars)} in the cache ({delta_coordinate()})")
    else:
        yield warning_finding(
            "Delta's jars",
            "not fetched yet",
            "The first start fetches them: let it reach the network once",
        )


JAVA_CHECKS: Sequence[tuple[str, Check]] = (
    ("Java", _examine_java),
    ("Delta's jars", _examine_jars),
)


def _checks_of_rooms(lake: Lake, tables: Sequence[Table]) -> Iterator[tuple[str, Check]]:
    for room in installed_rooms():
        for looked_at, check in room.doctor.items():
            yield looked_at, partial(resolve_reference(check), lake, tables)


def _examine_server(lake: Lake) -> Iterator[Diagnosis]:
    """Yield whether the lake's own server runs; starts none."""
    engine = LakeSession(lake).engine
    name = "the engine's server"
    if not engine.has_server:
        yield good_finding("the engine", f"{scrub_secrets(engine.engine)}, not ours to look at")
    elif (status := server_status(lake.root)) is None:
        yield good_finding(name, "not running; it starts at the first use")
    else:
        yield good_finding(name, str(status))


def _examine_rights(lake: Lake) -> Iterator[Diagnosis]:
    try:
        refuse_unwritable(lake)
    except BackfillError as error:
        yield warning_finding(
            error.object, f"{error.culprit}: commands that write are refused", error.fix
        )


def _examine_lake_log(lake: Lake) -> Iterator[Diagnosis]:
    """The newest lake version, and the tables of which readers do not see the newest commit."""
    name = "the lake's log"
    entry = newest_version(lake)
    if entry is None:
        yield good_finding(name, "no lake version yet: readers see each table at its newest commit")
        return
    seen = f"readers see lake version {entry.number} of {entry.at:%Y-%m-%d %H:%M} UTC"
    behind = sorted(t for t, v in entry.tables.items() if lake.store.head(t) > v)
    if behind:
        tables = ", ".join(behind)
        seen += f"; newer commits of {tables} wait for the end of a run, publication or rollback"
    yield good_finding(name, seen)


def _examine_dagster_home(lake: Lake) -> Iterator[Diagnosis]:
    """The event storage that $DAGSTER_HOME names, else the lake's own home; one that names a
    database is left alone."""
    named = os.environ.get("DAGSTER_HOME")
    file = Path(named or lake.root / DAGSTER_FOLDER, "dagster.yaml")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    is_used = bool(named or text)
    if not is_used or NAMES_A_STORAGE.search(text):
        return
    slow = (
        "it names no event_log_storage: runs from Dagster's pages record a range of days "
        "slowly; commands do not"
    )
    hint = f"Stop Dagster's programs, then add this line: {EVENT_STORAGE}"
    yield Diagnosis(Level.OK, f"Dagster's {file}", slow, hint)


def examine_daemons(
    environments: Callable[[str], Iterable[tuple[int, Mapping[str, str]]]] = program_environments,
) -> Iterator[Diagnosis]:
    """Whether the daemons of $DAGSTER_HOME that this user runs on this machine keep backfills while
    the code server is away. Nothing is said of daemons elsewhere."""
    home = os.environ.get("DAGSTER_HOME")
    if not home:
        return
    for pid, environ in environments("dagster-daemon"):
        daemon_home = os.path.realpath(environ.get("DAGSTER_HOME", ""))
        is_of_home = daemon_home == os.path.realpath(home)
        if is_of_home and not environ.get(KEEPS_BACKFILLS):
            yield warning_finding(
                f"Dagster's daemon, process {pid}",
                "a code server that is away for a moment ends every backfill that was asked for "
                "in the browser",
                f"Set {KEEPS_BACKFILLS}=1 in its environment and start it again (`backfill-assets "
                "guide servers`)",
            )


def _compiled_columns(tables: Sequence[Table]) -> Iterator[Diagnosis]:
    """Each declared column once, with all tables in which it is the same: both truths have the same
    features."""
    tables_of: dict[tuple[str, str], list[str]] = {}
    for table in tables:
        for column, sql in table.compiled.items():
            tables_of.setdefault((column, sql), []).append(table.name)
    for (column, sql), names in tables_of.items():
        yield good_finding(f"{' and '.join(names)}.{column}", f"compiled to {sql}")


def _examine_landing(lake: Lake) -> Iterator[Diagnosis]:
    """The landing folder of a lake's source: is it there, and does it still hold what was
    loaded?"""
    with failing_alone(deliveries_name(lake)), errors_of_source(lake.source):
        look = look_at_landing(LakeSession(lake))
    name = f"the landing {lake.settings.source.files}"
    comparison, listing = look.comparison, look.listing
    if listing.root_missing:
        yield _absent_landing(lake, name)
        return
    yield from _changed_files(name, comparison, listing)
    yield from _disputed_files(name, look.records)
    if listing.refused:
        paths = first_names(f"{r.name} ({r.reason})" for r in listing.refused)
        what = f"{len(listing.refused)} file(s) are not read: {paths}"
        yield warning_finding(name, what, "Rename or remove them")
    found = f"{len(listing.files)} file(s)"
    if comparison.fresh:
        found += f", {len(comparison.fresh)} wait for the next scan or load"
    yield good_finding(name, found)


def _absent_landing(lake: Lake, name: str) -> Diagnosis:
    """The finding about the landing `name` where nothing lies."""
    advice = f"Make it, or correct {source_section(lake.source)} files in lake.toml"
    is_far = is_in_bucket(lake.settings.source, lake.root)
    return warning_finding(
        name, "no object lies there" if is_far else "its folder does not exist", advice
    )


def _changed_files(name: str, comparison: Comparison, listing: Listing) -> Iterator[Diagnosis]:
    """The loaded files that the landing `name` holds otherwise or no more, by `comparison`; those
    of folders that `listing` could not see may still be there."""
    unseen = any(UNLISTED in r.reason for r in listing.refused)
    back = f"Put it back, {ACCEPT}"
    readable = "Make the folders below readable first, then look again"
    found = (
        ("altered", comparison.altered, back),
        ("missing", comparison.missing, readable if unseen else back),
    )
    for word, changed, advice in found:
        if changed:
            paths = first_names(printable_text(r.path) for r in changed)
            yield error_finding(
                name, f"{len(changed)} file(s) {word} since they were loaded: {paths}", advice
            )


def _disputed_files(name: str, records: Iterable[FileRecord]) -> Iterator[Diagnosis]:
    """The loaded files among `records` that a manifest of the landing `name` contradicts."""
    loaded = [r for r in records if not r.withdrawn]
    disputed = [r for r in loaded if r.contradicted]
    if disputed:
        paths = first_names(
            f"{printable_text(r.path)} ({printable_text(r.contradicted)})" for r in disputed
        )
        what = f"{len(disputed)} loaded file(s) are not what their manifests declare: {paths}"
        yield error_finding(name, what, f"Correct the manifest, {ACCEPT}")


def _undeclared_tables(lake: Lake, contracts: Sequence[Contract]) -> Iterator[Diagnosis]:
    """Name the tables that only this check and `forget`, which refuses beside them, see."""
    if found := undeclared_tables(lake, contracts):
        what = (
            f"the pipeline lacks {', '.join(found)}: nothing rebuilds or verifies them, and "
            "`forget` refuses"
        )
        yield warning_finding(
            "the tables", what, f"Declare them again, or move their folders out of {lake.tables}"
        )


def _unknown_erasures(lake: Lake) -> Iterator[Diagnosis]:
    """Name what keeps loads from telling rows of forgotten entities."""
    for why in erasure_doubts(lake):
        fix = 'Say which column it is now: `backfill-assets forget --renamed OLD=NEW --note "why"`'
        yield error_finding("forgotten entities", f"{why}: nothing is loaded", fix)


def _examine_sums(lake: Lake, contracts: Sequence[Contract]) -> Iterator[Diagnosis]:
    """Compare the rows of the landed files with the rows that the loads counted, per source and
    day."""
    view = read_view(lake, contracts)
    for landed, account in accounts_by_table(lake, view).items():
        name = f"the ledger of {landed}" if view.source(landed).name else "the ledger"
        if account.wrong:
            yield _wrong_days(name, account.wrong)
        else:
            yield _sum_of_rows(name, account)


def _sum_of_rows(name: str, account: Account) -> Diagnosis:
    """The finding that what landed is what the tables of a source hold: raw, quarantine and so
    on."""
    parts = list[str]()
    for rows, what in account.parts():
        sign = "less " if rows < 0 else ""
        parts.append(f"{sign}{abs(rows)} {what}")
    return good_finding(name, f"{account.rows} landed rows: {', '.join(parts)}")


def _wrong_days(name: str, wrong: Mapping[date, int]) -> Diagnosis:
    """The finding about loaded days that do not add up; `wrong` gives the rows of each that are
    nowhere, negative where there are more than landed."""
    first, last = min(wrong), max(wrong)
    rows = wrong[first]
    what = "landed and are nowhere" if rows > 0 else "more than landed"
    return error_finding(
        name,
        f"{len(wrong)} loaded day(s) do not add up ({first_names(contiguous_ranges(wrong))}); "
        f"{first}: "
        f"{abs(rows)} row(s) {what}",
        f"Run `backfill-assets scan`, then `backfill-assets backfill --force --from {first} "
        f"--to {last}`",
    )


@dataclass(frozen=True)
class VerifyRequest:
    """What to verify."""

    tables: Sequence[str] = ()  # empty: all, with the ledgers
    days: Collection[date] | None = None  # rows of these days; None: all
    rows: bool = True  # False: only logs and sizes of files
    deep: bool = False  # also the bytes of earlier versions and of snapshots


def verify_tables(
    lake: Lake, contracts: Sequence[Contract], request: VerifyRequest
) -> list[Diagnosis]:
    """Return every finding about the tables, good ones included; a damaged table hides no other.
    Changes nothing.

    Raises UnknownName for a table that the lake does not have, BackfillError if none of the days
    was written.
    """
    known = {c.name: c for c in (*contracts, *ledgers_of(contracts))}
    refuse_unknown_names("table", request.tables, known, "Nothing was verified")
    chosen = [known[name] for name in request.tables] or list(known.values())
    if request.days is not None and not any(
        map(partial(_has_receipts, lake, request.days), chosen)
    ):
        raise never_written_error("the verification", "Nothing was verified")
    landed = {c.source: c.name for c in contracts if c.is_landed}
    checks = list[tuple[str, Check]]()
    for contract in chosen:
        writer = landed.get(contract.source, "")
        check = partial(examine_table, lake, contract, writer, request.rows, request.deep)
        checks.append((f"the table {contract.name}", check))
    if request.rows:
        receipted = [c for c in chosen if c.columns not in (ARRIVALS.columns, FILES.columns)]
        for contract in receipted:
            check_rows = partial(_examine_contents, lake, contract, request.days)
            checks.append((f"the contents of {contract.name}", check_rows))
    if request.deep:
        checks.append(("snapshots", partial(examine_snapshots, lake, True)))
    return run_checks(checks)


def _has_receipts(lake: Lake, days: Collection[date], contract: Contract) -> bool:
    """Whether a table has receipts of some of the days; also if its log is damaged, which is a
    finding."""
    try:
        latest = lake.store.view(contract.name, contract.day_column).latest
        return not latest.keys().isdisjoint(contract.keys_in(days))
    except BackfillError:
        return True


def _examine_contents(
    lake: Lake, contract: Contract, days: Collection[date] | None
) -> Iterator[Diagnosis]:
    try:
        view = lake.store.view(contract.name, contract.day_column)
    except BackfillError:  # its log is damaged, which is a finding already
        return
    if view.latest:
        keys = None if days is None else contract.keys_in(days)
        yield examine_rows(lake, contract, view, keys)
