"""The doctor: everything about a lake that can be wrong, looked at without a JVM.

Lives here: Java, jars, engine, settings, landing, ledger sums, runs without a process, each table in turn, snapshots.
Does not live here: repairing anything. Every finding names what to do, and nothing is changed by looking.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import contiguous
from backfill_assets.core.errors import BackfillError, section_of, telling_source
from backfill_assets.core.texts import plain
from backfill_assets.engine.cache import delta_coordinate, present_jars
from backfill_assets.engine.confs import OWN_SERVERS, SAIL, scrub
from backfill_assets.engine.java import find_java
from backfill_assets.engine.launch import version_of
from backfill_assets.engine.private_network import why_not
from backfill_assets.engine.processes import PlacedProcess
from backfill_assets.engine.sail import refuse_open_to_all, sail_identity
from backfill_assets.engine.server import server_status
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.ledger import ARRIVALS, FILES, QUARANTINE, of_source
from backfill_assets.lake.model import Table
from backfill_assets.lake.session import LakeSession
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.lake.view import read_view
from backfill_assets.landing.hashes import Hashes
from backfill_assets.load.landed_changes import compare, look
from backfill_assets.operations.account import Account, accounts
from backfill_assets.operations.diagnosis import Diagnosis, Level, broken, fine, odd, some
from backfill_assets.operations.doctor_second_engine import examine_second_engine
from backfill_assets.operations.doctor_snapshots import examine_snapshots
from backfill_assets.operations.doctor_tables import examine_table

MIB = 1 << 20
# In one write, 90 days of 60,000, with memory = "2g": its server took 2.0 GiB, the client 1.3 GiB at most (one day of
# 2,000,000: 1.0 and 1.0). More was not tried.
SAIL_ROWS = 5_400_000
OUTGROWN = 'Take fewer days at once where it lacks memory, or set engine = "embedded": Spark spills more of it to disk'
UNLISTED = "the folder cannot be listed"  # as `landing.files` says it
ACCEPT = 'Put it back, or say `backfill-assets landing accept --note "why"`'


def doctor(root: Path, tables_of: Callable[[LakeSettings], Sequence[Table]]) -> list[Diagnosis]:
    """All findings about the machine and the lake at `root`, good ones too. Raises nothing that a lake can cause."""
    try:
        lake = open_lake(root)
        tables = tables_of(lake.settings)
        ledgers = _ledgers(tables)
    except BackfillError as error:
        return [_java(), _jars(), _finding_of(error)]
    is_sail = lake.settings.spark.engine == SAIL
    findings = [_sail(lake, tables)] if is_sail else [_java(), _jars()]
    findings += [fine("lake.toml", f"valid, from {lake.settings.start_date}"), _engine(lake)]
    findings += _compiled(tables)
    findings += _guarded("the second engine", lambda: examine_second_engine(lake, tables))
    for one in lake.by_source():
        findings += _guarded("the landing folder", partial(_landing_of, one))
    landed = {t.contract.source: t.name for t in tables if t.is_landed}
    told = [
        _guarded(f"the table {contract.name}", partial(examine_table, lake, contract, landed.get(source, "")))
        for source, contract in [*(("", t.contract) for t in tables), *ledgers]
    ]
    findings += chain.from_iterable(told)
    if all(d.level is not Level.ERROR for d in chain.from_iterable(told)):  # sums over broken tables would mislead
        findings += _guarded("the ledger", lambda: [*_sums(lake, tables)])
    findings += _guarded("snapshots", lambda: examine_snapshots(lake))
    findings += _runs(lake)
    return findings


def _guarded(object: str, look_at: Callable[[], Sequence[Diagnosis]]) -> Sequence[Diagnosis]:
    """The findings, or the error that kept us from making them: one sick table must not hide the others."""
    try:
        return look_at()
    except BackfillError as error:
        return [_finding_of(error)]
    except OSError as error:
        told = f"{error.filename or object}: {error.strerror or type(error).__name__}"
        return [broken(object, f"it cannot be read ({told})", "Give this user the right to read it, then look again")]
    except Exception as error:  # noqa: BLE001  # whatever a damaged file causes is the finding
        return [broken(object, f"it cannot be examined ({type(error).__name__}: {error})", "Look at the cause")]


def _finding_of(error: BackfillError) -> Diagnosis:
    return broken(error.object, error.culprit, error.fix)


def _java() -> Diagnosis:
    try:
        java = find_java()
    except BackfillError as error:
        return _finding_of(error)
    return fine("Java", f"version {java.version} from {java.source}")


def _jars() -> Diagnosis:
    try:
        jars = present_jars()
    except BackfillError as error:
        return _finding_of(error)
    if jars:
        return fine("Delta's jars", f"{len(jars)} in the cache ({delta_coordinate()})")
    return odd("Delta's jars", "not fetched yet", "The first start fetches them: let it reach the network once")


def _sail(lake: Lake, tables: Sequence[Table]) -> Diagnosis:
    """Whether Sail is there and closed to others, and whether the lake has outgrown it."""
    engine, name = LakeSession(lake).engine, "Sail"
    try:
        version = version_of(sail_identity(engine))
        refuse_open_to_all(engine, why_not)
    except BackfillError as error:
        return _finding_of(error)
    told = f"{version}, memory {engine.memory}, cores {engine.cores or 'all'}"
    told += ", open to this machine's users" if engine.open_port else ", in a private network"
    views = (lake.store.view(t.name, t.contract.day_column) for t in tables)
    rows = max((sum(s.entry.rows for s in view.stamps.values()) for view in views), default=0)
    grown = outgrown(rows)
    return odd(name, f"{told}; {grown}", OUTGROWN) if grown else fine(name, told)


def outgrown(rows: int) -> str:
    """What to say of the largest table, of so many rows, where Sail was not tried with more at once; else nothing."""
    if rows <= SAIL_ROWS:
        return ""
    return f"the largest table has {rows:,} rows, and Sail was tried with {SAIL_ROWS:,} in one write (memory 2g)"


def _engine(lake: Lake) -> Diagnosis:
    engine = lake.settings.spark.engine
    if engine not in OWN_SERVERS:
        return fine("the engine", f"{scrub(engine)}, not ours to look at")
    found, name = server_status(lake.root), f"the {'Sail' if engine == SAIL else 'Spark'} server"
    if found is None:
        return fine(name, "not running; it starts at the first use")
    used = "in use" if found.in_use else "idle"
    told = f"process {found.pid}, {used}, up {found.uptime_seconds:.0f} s, {found.rss_bytes // MIB} MiB"
    return fine(name, told)


def _compiled(tables: Sequence[Table]) -> Iterator[Diagnosis]:
    """Each declared column once, with all tables in which it means the same: features have it in both truths."""
    found: dict[tuple[str, str], list[str]] = {}
    for table in tables:
        for column, sql in table.compiled.items():
            found.setdefault((column, sql), []).append(table.name)
    for (column, sql), names in found.items():
        yield fine(f"{' and '.join(names)}.{column}", f"compiled to {sql}")


def _landing_of(lake: Lake) -> list[Diagnosis]:
    with telling_source(lake.source):
        return _landing(lake)


def _landing(lake: Lake) -> list[Diagnosis]:
    listing, records = look(LakeSession(lake))
    name = f"the landing {lake.settings.source.files}"
    if listing.root_missing:
        return [
            odd(name, "its folder does not exist", f"Make it, or correct {section_of(lake.source)} files in lake.toml")
        ]
    found = compare(listing, records, Hashes(lake.stock))
    findings = []
    if found.altered:
        paths = some(plain(r.path) for r in found.altered)
        findings.append(broken(name, f"{len(found.altered)} file(s) altered since they were loaded: {paths}", ACCEPT))
    if found.missing:
        paths = some(plain(r.path) for r in found.missing)
        unseen = any(UNLISTED in r.reason for r in listing.refused)
        advice = "Make the folders below readable first, then look again" if unseen else ACCEPT
        findings.append(broken(name, f"{len(found.missing)} file(s) missing since they were loaded: {paths}", advice))
    if listing.refused:
        paths = some(f"{r.name} ({r.reason})" for r in listing.refused)
        findings.append(odd(name, f"{len(listing.refused)} file(s) are not read: {paths}", "Rename or remove them"))
    fresh = f", {len(found.fresh)} wait for the next scan or load" if found.fresh else ""
    return [*findings, fine(name, f"{len(listing.files)} file(s){fresh}")]


def _ledgers(tables: Sequence[Table]) -> list[tuple[str, Contract]]:
    """The ledgers of each source that is loaded, with its name."""
    sources = dict.fromkeys(t.contract.source for t in tables if t.is_landed)
    return [(name, of_source(ledger, name)) for name in sources for ledger in (QUARANTINE, ARRIVALS, FILES)]


def _sums(lake: Lake, tables: Sequence[Table]) -> Iterator[Diagnosis]:
    """Rows of the landed files against what the loads counted, day by day, source by source."""
    view = read_view(lake, [t.contract for t in tables])
    for landed, found in accounts(lake, view).items():
        yield from _sum(found, f"the ledger{f' of {landed}' if view.source(landed).name else ''}")


def _sum(found: Account, name: str) -> Iterator[Diagnosis]:
    if found.wrong:
        first, last = min(found.wrong), max(found.wrong)
        rows = found.wrong[first]
        yield broken(
            name,
            f"{len(found.wrong)} loaded day(s) do not add up ({some(contiguous(found.wrong))}); {first}: "
            f"{abs(rows)} row(s) {'landed and are nowhere' if rows > 0 else 'more than landed'}",
            f"Run `backfill-assets scan`, then `backfill-assets backfill --force --from {first} --to {last}`",
        )
    if not found.wrong:
        told = ", ".join(f"{'less ' if rows < 0 else ''}{abs(rows)} {what}" for rows, what in found.parts())
        yield fine(name, f"{found.rows} landed rows: {told}")


def _runs(lake: Lake) -> Iterator[Diagnosis]:
    """Runs that left a mark. Whether one without a process ended well only Dagster knows; the next run settles it."""
    folder, here, gone = lake.root / ".runs", PlacedProcess.this(), []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            marked = PlacedProcess(**json.loads(path.read_text()))
            if not marked.is_gone(here):
                yield fine(f"run {path.name}", f"process {marked.pid} works on it, or has just ended it")
                continue
        except (ValueError, TypeError, OSError):
            pass
        gone.append(path.name)
    if gone:
        yield fine("ended runs", f"{len(gone)} left their marks ({some(gone)}); the next run clears them")
