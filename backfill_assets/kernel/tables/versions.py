"""The lake's log: which versions of its tables readers see together, and what several tables wait
for.

One small file per lake version, `LAKE/.versions/NUMBER.json`, created if absent and never changed:
the version of each table, who wrote the entry and why, and publications and rollbacks of several
tables that have not completed. Readers take the newest entry (`view.settled_view`); writers always
read the heads of the tables. A lake without entries is read at its heads.

Not here: what is published or put back (`candidates.publications`, `plans.rollback`), and the
view of a lake (`view`).
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ledgers import ARRIVALS, QUARANTINE, TOO_LATE, source_table_name
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.core.plans import PLAN_TAG, PUBLISH, ROLLBACK
from backfill_assets.kernel.core.records import IF_OTHER, json_of, record_of
from backfill_assets.kernel.log.log import Commit
from backfill_assets.kernel.log.run_markers import (
    Life,
    drop_marker,
    drop_old_markers,
    life_of,
    live_runs,
    lives_of,
    mark_run,
    markers_by_run,
    process_of,
)
from backfill_assets.kernel.place.port import RUNS, SHOWN_SECONDS, AlreadyThere, Place
from backfill_assets.kernel.place.processes import PlacedProcess
from backfill_assets.kernel.tables.folder import VERSIONS
from backfill_assets.kernel.tables.home import Lake

NEVER_MADE = -1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class UnfinishedSwitch:
    """A publication or rollback of several tables between its first and its last commit, running or
    stopped."""

    # Begins with the id of the plan or publication, which its receipts name; only a switch of this
    # id ends it.
    id: str
    what: str  # in words
    fix: str  # a sentence with the command that completes it
    tables: Mapping[str, int] = field(
        default_factory=dict
    )  # the version of each that readers see until then
    process: Mapping[str, Any] = field(
        default_factory=dict
    )  # which does it (`PlacedProcess`); empty: it stopped

    def __str__(self) -> str:
        """A line for people."""
        state = "runs or was stopped" if self.process else "was stopped"
        return f"{self.what} {state}: readers see {', '.join(self.tables)} as before it. {self.fix}"


@dataclass(frozen=True)
class HeldBack:
    """Commits that readers do not see until runs end which made them, or what they were made
    from."""

    runs: Mapping[str, str] = field(default_factory=dict)  # by id, since when (ISO text)
    then: Mapping[str, int] = field(
        default_factory=dict
    )  # the version that readers see of each table after that


@dataclass(frozen=True)
class LakeVersion:
    """An entry of the lake's log."""

    number: int  # 1 for the first entry
    tables: Mapping[
        str, int
    ]  # the version that readers see of each table and ledger; -1: it was not made yet
    at: datetime  # aware
    by: str  # the user
    why: str  # what left the tables together
    unfinished: tuple[UnfinishedSwitch, ...]
    held: HeldBack = field(default=HeldBack(), metadata=IF_OTHER)


def newest_version(lake: Lake) -> LakeVersion | None:
    """The newest lake version; None for a lake without entries."""
    numbers = entry_numbers(lake.place)
    return _read_entry(lake.place, numbers[-1]) if numbers else None


def entry_numbers(lake: Place) -> list[int]:
    """The numbers of the kept entries of a lake, ascending."""
    stems = (name.removesuffix(".json") for name in lake.names(VERSIONS))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def entry_name(number: int) -> str:
    """The name in a lake of the entry with that number."""
    return f"{VERSIONS}/{number:020d}.json"


def _read_entry(lake: Place, number: int) -> LakeVersion:
    try:
        return record_of(LakeVersion, {**lake.read_json(entry_name(number)), "number": number})
    except (KeyError, TypeError, ValueError):
        raise BackfillError(
            f"the lake {lake}",
            f"the entry {lake.uri(entry_name(number))} of its log is not what was written",
            "Nothing was read",
            "Restore the file from a backup, or move it away: readers then see the entry before it",
        ) from None


def find_version(lake: Lake, at: datetime | int) -> LakeVersion | None:
    """The lake version with that number, or the newest by that instant (aware); None for an instant
    before the first entry. Raises BackfillError for an unknown number."""
    numbers = entry_numbers(lake.place)
    if isinstance(at, datetime):
        found = (_read_entry(lake.place, number) for number in reversed(numbers))
        return next((entry for entry in found if entry.at <= at), None)
    if at not in numbers:
        kept = f"it keeps {numbers[0]} to {numbers[-1]}" if numbers else "it has none yet"
        raise BackfillError(
            f"the lake {lake.address}",
            f"it has no lake version {at}: {kept}",
            "Nothing was read",
            "Name one of these, or an instant such as 2024-03-31T12:00:00Z",
        )
    return _read_entry(lake.place, at)


def versions_seen(lake: Lake, at: datetime | int | None = None) -> dict[str, int] | None:
    """The version of each table that readers see (None: they see the heads), now or `at` an instant
    or a number; of a candidate its own tables by its own log, all others by the lake's."""
    own = newest_version(lake) if at is None else find_version(lake, at)
    then = (
        own.at if own is not None and isinstance(at, int) else at
    )  # each log has numbers of its own
    base_lake = versions_seen(lake.base_lake, then) if lake.base_lake is not None else None
    if own is None and base_lake is None:
        return None
    tables = (
        {}
        if own is None
        else own.held.then
        if at is None and own.held.runs and not awaited_runs(lake)
        else own.tables
    )
    return {t: v for t, v in (base_lake or {}).items() if not lake.writes(t)} | dict(tables)


def awaited_runs(lake: Lake) -> dict[str, str]:
    """The runs whose end readers wait for now, by their ids: since when (ISO text). Empty as soon
    as all of them ended, or have shown no sign of life for their time, also before the lake has a
    further entry."""
    entry, known = newest_version(lake), markers_by_run(lake.place)
    runs = entry.held.runs if entry is not None else {}
    lives = lives_of(lake.place, [known[run] for run in runs if run in known])
    return {run: at for run, at in runs.items() if lives.get(known.get(run, "")) is Life.LIVES}


def why_readers_wait(lake: Lake) -> str:
    """A line that says why readers do not see what was committed, since when, by whom, and what
    ends it; "" where they see all of it. A reader of a candidate also waits for runs of the lake
    beside it."""
    read = [lake] if lake.base_lake is None else [lake, lake.base_lake]
    runs = [
        _run_in_words(each, run, since)
        for each in read
        for run, since in awaited_runs(each).items()
    ]
    if not runs:
        return ""
    return (
        f"readers wait for {', '.join(runs)}: what it wrote, and what was made from that, is read "
        "once it ends, or "
        f"{SHOWN_SECONDS:.0f} s after its last sign of life; `--newest` (`newest=True`) reads it "
        "now"
    )


def _run_in_words(lake: Lake, run: str, since: str) -> str:
    process = process_of(lake.place, markers_by_run(lake.place).get(run, ""))
    where = f" on {process.host}" if process is not None and process.host else ""
    return f"the run {run[:8]}{where} since {since}"


def unfinished_switches(lake: Lake) -> tuple[UnfinishedSwitch, ...]:
    """The publications and rollbacks of several tables that run, or were stopped after their first
    commit."""
    entry = newest_version(lake)
    standing = _standing_switches(lake, entry) if entry is not None else ()
    return tuple(_without_stopped_process(lake, u) for u in standing)


def _without_stopped_process(lake: Lake, work: UnfinishedSwitch) -> UnfinishedSwitch:
    """The switch without its process where that stopped."""
    return (
        replace(work, process={}) if _switch_life(lake, work) in (Life.GONE, Life.LAPSED) else work
    )


def _standing_switches(lake: Lake, entry: LakeVersion) -> tuple[UnfinishedSwitch, ...]:
    """The switches of an entry without those that certainly ended before their first commit: one
    that only shows no sign of life may be paused, and readers must see none of what it commits when
    it goes on."""
    return tuple(
        u
        for u in entry.unfinished
        if _switch_life(lake, u) is not Life.GONE or _has_committed(lake, u)
    )


def _switch_life(lake: Lake, work: UnfinishedSwitch) -> Life | None:
    """What can be said of the process of a switch; None: nothing, where one of an earlier release
    does it elsewhere."""
    process, marker = (
        record_of(PlacedProcess, work.process) if work.process else None,
        _switch_marker(work.id),
    )
    if process is not None and process_of(lake.place, marker) == process:
        return life_of(lake.place, marker)
    if process is None or process.is_gone(PlacedProcess.this()):
        return Life.GONE
    return Life.LIVES if process.is_seen_from(PlacedProcess.this()) else None


def forget_silent_markers(lake: Lake, seconds: float) -> None:
    """Drop markers of runs and switches that do not live and showed nothing for so many seconds;
    not that of a switch which stands, of which only its marker says that it was stopped."""
    entry = newest_version(lake)
    drop_old_markers(
        lake.place,
        seconds,
        {_switch_marker(u.id) for u in (entry.unfinished if entry is not None else ())},
    )


def _switch_marker(work_id: str) -> str:
    return f"{RUNS}/switches/{digest_of([work_id])}"


def _has_committed(lake: Lake, work: UnfinishedSwitch) -> bool:
    commits = (
        c for name, version in work.tables.items() for c in _commits_after(lake, name, version)[1]
    )
    return any(
        c.receipt is not None and c.receipt.tags.get(PLAN_TAG) == work.id.split()[0]
        for c in commits
    )


def record_versions(
    lake: Lake, contracts: Iterable[Contract], why: str, run_id: str = "", by: str = ""
) -> LakeVersion:
    """Let readers see what the tables hold now, as far as it stands together; gives the newest lake
    version.

    Of each table, upstream first, the entry takes all commits up to the first one that an
    unfinished publication covers, that another running run made (not `run_id`), or that reads an
    input at a version which is not taken. No entry is written where nothing changed.
    """
    known = tuple(contracts)

    def moved(before: LakeVersion) -> LakeVersion:
        """The same entry with the tables of now."""
        return _entry_of_now(lake, known, before, run_id)

    return _append_entry(lake, moved, why, by)


def _entry_of_now(
    lake: Lake, contracts: Collection[Contract], before: LakeVersion, run_id: str = ""
) -> LakeVersion:
    """The same entry with the tables of now, and what readers see after the end of the runs that
    they wait for: all that live but one."""
    tables, held = _tables_now(lake, contracts, before, live_runs(lake.place, {run_id}))
    if not held:
        return replace(before, tables=tables, held=HeldBack())
    now = utc_now().isoformat(timespec="seconds")
    then, _ = _tables_now(lake, contracts, before, frozenset())
    return replace(
        before,
        tables=tables,
        held=HeldBack({r: before.held.runs.get(r, now) for r in sorted(held)}, then),
    )


def _tables_now(
    lake: Lake,
    contracts: Collection[Contract],
    before: LakeVersion,
    running: frozenset[str],
    split: frozenset[str] = frozenset(),
) -> tuple[dict[str, int], set[str]]:
    """The tables of an entry that follows `before` while these runs are at work, and which of the
    runs hold commits back. What one publication or rollback wrote is taken of all its tables or of
    none: of none of the plans `split`."""
    pinned = {t: v for work in _standing_switches(lake, before) for t, v in work.tables.items()}
    tables, waiting, left = (
        dict(before.tables),
        dict[str, range](),
        set[str](),
    )  # waiting: versions not taken
    held = set[str]()

    def waits(commit: Commit) -> bool:
        """Whether the commit is of a running run or a split plan, or reads a version that is not
        taken."""
        receipt = commit.receipt
        return receipt is not None and (
            receipt.run_id in running
            or _switch_plan(commit) in split
            or any(v in waiting.get(t, ()) for t, v in receipt.inputs.items())
        )

    for name in _written_tables(lake, contracts):
        version, commits = _commits_after(lake, name, tables.get(name, NEVER_MADE))
        head = commits[-1].version if commits else version
        stop = next((c.version for c in commits if name in pinned or waits(c)), head + 1)
        tables[name] = pinned[name] if name in pinned else stop - 1
        if stop <= head:
            waiting[name] = range(tables[name] + 1, head + 1)
            later = [c for c in commits if c.version >= stop]
            left |= {_switch_plan(c) for c in later} - {""}
            held |= running & {c.receipt.run_id for c in later if c.receipt is not None}
    return (
        (tables, held)
        if left <= split
        else _tables_now(lake, contracts, before, running, split | left)
    )


def _switch_plan(commit: Commit) -> str:
    """The plan of a publication or rollback that made the commit; empty for any other commit."""
    receipt = commit.receipt
    return (
        receipt.tags.get(PLAN_TAG, "")
        if receipt is not None and receipt.reason in (PUBLISH, ROLLBACK)
        else ""
    )


def _written_tables(lake: Lake, contracts: Iterable[Contract]) -> Iterator[str]:
    """The tables and ledgers that the lake writes, each after what it is made from."""
    for contract in contracts:
        if lake.writes(contract.name):
            yield contract.name
        if contract.is_landed and lake.shared is None:
            yield from (
                source_table_name(ledger, contract.source)
                for ledger in (QUARANTINE, TOO_LATE, ARRIVALS)
            )


def _commits_after(lake: Lake, table: str, version: int) -> tuple[int, list[Commit]]:
    """The version and the commits after it; of a table that was moved away or made anew since all
    its commits."""
    if lake.store.head(table) < version:
        version = NEVER_MADE
    return version, list(lake.store.commits(table, version))


def _append_entry(
    lake: Lake, change: Callable[[LakeVersion], LakeVersion], why: str, by: str = ""
) -> LakeVersion:
    """Write the entry that follows the newest one, unless `change` makes none of it; another writer
    may come first."""
    while True:
        before = newest_version(lake) or LakeVersion(0, {}, EPOCH, by, why, ())
        standing = replace(before, unfinished=_standing_switches(lake, before))
        after = change(standing)
        if (after.tables, after.unfinished, after.held) == (
            before.tables,
            before.unfinished,
            before.held,
        ):
            return before
        entry = replace(
            after,
            number=before.number + 1,
            at=max(utc_now(), before.at),
            by=by or whoami(),
            why=why,
        )
        with suppress(AlreadyThere):
            lake.place.write(
                entry_name(entry.number), json.dumps(json_of(entry)).encode(), if_absent=True
            )
            return entry


@contextmanager
def switch_tables(
    lake: Lake, contracts: Iterable[Contract], switched: Collection[str], work: UnfinishedSwitch
) -> Iterator[None]:
    """Keep readers at the versions that they see of the `switched` tables until the block ends,
    then let them see all tables of the lake (`contracts`).

    If the block stops after its first commit (a receipt whose plan is the work's id), or is killed,
    readers keep these versions until a switch of the same id completes; nothing else ends it.
    Raises BackfillError before the block if another unfinished switch covers one of the tables, or
    one of the same id runs in another process.
    """
    known, this = tuple(contracts), json_of(PlacedProcess.this())

    def begun(before: LakeVersion) -> LakeVersion:
        """The entry in which the switch is unfinished; an earlier try of it keeps what readers
        see."""
        earlier, others = _split_by_id(before, work.id)
        running = [u for u in earlier if u.process != this and _switch_life(lake, u) is Life.LIVES]
        if hindering := [
            *running,
            *(u for u in others if not u.tables.keys().isdisjoint(switched)),
        ]:
            raise BackfillError(
                f"the lake {lake.place}",
                str(_without_stopped_process(lake, hindering[0])),
                "Nothing was written",
                "Then do it again",
            )
        tables = {t: before.tables.get(t, NEVER_MADE) for t in switched} | {
            t: v for u in earlier for t, v in u.tables.items()
        }
        return replace(before, unfinished=(*others, replace(work, tables=tables, process=this)))

    def ended(before: LakeVersion) -> LakeVersion:
        """The entry without the switch, and with the tables of now."""
        without = replace(before, unfinished=_split_by_id(before, work.id)[1])
        return _entry_of_now(lake, known, without)

    def stopped(before: LakeVersion) -> LakeVersion:
        """The entry that says that no process goes on with the switch."""
        earlier, others = _split_by_id(before, work.id)
        return replace(before, unfinished=(*others, *(replace(u, process={}) for u in earlier)))

    record_versions(lake, known, f"before {work.what}")
    began = _split_by_id(_append_entry(lake, begun, f"{work.what} begins"), work.id)[0][0]
    mark_run(lake.place, _switch_marker(work.id))
    try:
        yield
    except BaseException:
        committed = _has_committed(lake, began)
        _append_entry(
            lake,
            stopped if committed else ended,
            f"{work.what} {'stopped' if committed else 'wrote nothing'}",
        )
        raise
    else:
        _append_entry(lake, ended, work.what)
    finally:
        drop_marker(lake.place, _switch_marker(work.id))


def _split_by_id(
    entry: LakeVersion, work_id: str
) -> tuple[tuple[UnfinishedSwitch, ...], tuple[UnfinishedSwitch, ...]]:
    """The unfinished switch of that id (or none), and the others."""
    return (
        tuple(u for u in entry.unfinished if u.id == work_id),
        tuple(u for u in entry.unfinished if u.id != work_id),
    )
