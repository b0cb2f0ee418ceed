"""The lake's log: which versions of its tables readers see together, and which of them wait.

One small file per lake version, `LAKE/.versions/NUMBER.json`, created if absent and never changed:
the version of each table, who wrote the entry and why, and publications and rollbacks of several
tables that have not completed. Readers take the newest entry (`view.settled_view`); writers always
read the heads of the tables. A lake without entries is read at its heads.

Not here: what is published or put back (`candidates`, `plans`), and a lake's view (`view`).
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.digests import digest_of, is_as_written, with_digest
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ledgers import ARRIVALS, QUARANTINE, TOO_LATE, source_table_name
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.core.plans import PLAN_TAG, PUBLISH, ROLLBACK
from backfill_assets.kernel.core.records import IF_OTHER, MISREAD, json_of, record_of
from backfill_assets.kernel.core.view import NO_VERSION
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
from backfill_assets.kernel.place.port import RUNS, SHOWN_SECONDS, AlreadyThere, Gone, Place
from backfill_assets.kernel.place.processes import PlacedProcess
from backfill_assets.kernel.tables.folder import VERSIONS
from backfill_assets.kernel.tables.home import Lake

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
READ_ATTEMPTS = 3  # upkeep thins entries out once a day or so, all at a time


@dataclass(frozen=True)
class UnfinishedSwitch:
    """A publication or rollback of several tables between its first and its last commit, running or
    stopped."""

    # Begins with the id of the plan or publication, which its receipts name; only a switch of this
    # id ends it.
    id: str
    what: str  # in words
    fix: str  # a sentence with the command that completes it
    tables: Mapping[str, int] = field(default_factory=dict)  # versions that readers see until then
    process: Mapping[str, Any] = field(default_factory=dict)  # `PlacedProcess`; empty: it stopped

    def __str__(self) -> str:
        """A line for people."""
        state = "runs or was stopped" if self.process else "was stopped"
        return f"{self.what} {state}: readers see {', '.join(self.tables)} as before it. {self.fix}"


@dataclass(frozen=True)
class HeldBack:
    """Commits that readers do not see until runs end which made them, or what they were made
    from."""

    runs: Mapping[str, str] = field(default_factory=dict)  # by id, since when (ISO text)
    # The version that readers see of each table after that.
    then: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LakeVersion:
    """An entry of the lake's log."""

    number: int  # 1 for the first entry
    # The version that readers see of each table and ledger; `NO_VERSION`: it was not made yet.
    tables: Mapping[str, int]
    at: datetime  # aware
    by: str  # the user
    why: str  # what left the tables together
    unfinished: tuple[UnfinishedSwitch, ...]
    held: HeldBack = field(default=HeldBack(), metadata=IF_OTHER)


class KeptEntries:
    """The kept entries of a lake's log, as one listing gives them, oldest first. Each is read when
    its time is asked for, and once. The times never fall from one entry to the next."""

    def __init__(self, place: Place) -> None:
        self._place = place
        changed = dict[int, float]()
        for name, token in place.tokens(VERSIONS).items():
            stem = name.removeprefix(f"{VERSIONS}/").removesuffix(".json")
            if stem.isdigit():
                changed[int(stem)] = token.changed_at
        self.numbers = sorted(changed)  # of the entries
        # When the place took each; of an entry that was copied, when the copy was made.
        self._changed_at = [*accumulate((changed[number] for number in self.numbers), max)]
        self._read = dict[int, LakeVersion]()

    def entry(self, index: int) -> LakeVersion:
        """The entry at an index of `numbers`. Raises Gone where it was thinned out meanwhile, and
        BackfillError for a damaged file."""
        number = self.numbers[index]
        if number not in self._read:
            self._read[number] = _read_entry(self._place, number)
        return self._read[number]

    def delete(self, numbers: Iterable[int]) -> None:
        """Delete the files of entries, by their numbers."""
        self._place.delete_all([entry_name(number) for number in numbers])

    def count_by(self, instant: datetime) -> int:
        """The number of entries that were written by an instant (aware).

        The search begins where the listing's times point to, so that it mostly reads two entries.
        Of a copied lake, whose times mislead, it reads some more, and never more than four times
        as many as halving does.
        """
        low, high = 0, len(self.numbers)
        probe = bisect_right(self._changed_at, instant.timestamp())
        # Where all times come after the instant, an entry that was written by then was copied: the
        # entries beside it say nothing.
        turn = 1 if high and not probe and self.entry(0).at <= instant else 0
        while low < high:
            probe = min(max(probe, low), high - 1)
            is_by_then = self.entry(probe).at <= instant
            low, high = (probe + 1, high) if is_by_then else (low, probe)
            if turn % 2 == 0:  # the neighbour, which ends the search where the guess was good
                probe = low if is_by_then else high - 1
            else:
                probe = self._guess(instant, low, high) if turn % 4 == 1 else (low + high) // 2
            turn += 1
        return low

    def _guess(self, instant: datetime, low: int, high: int) -> int:
        """The index between two at which an entry of an instant lies, if they come evenly; the
        entries beside them are read."""
        first, last = max(low - 1, 0), min(high, len(self.numbers) - 1)
        span = self.entry(last).at - self.entry(first).at
        share = (instant - self.entry(first).at) / span if span else 0.5
        return first + round(min(max(share, 0.0), 1.0) * (last - first))


def newest_version(lake: Lake) -> LakeVersion | None:
    """The newest lake version; None for a lake without entries."""

    def read() -> LakeVersion | None:
        numbers = entry_numbers(lake.place)
        return _read_entry(lake.place, numbers[-1]) if numbers else None

    return _read_though_thinned(lake, read)


def _read_though_thinned(lake: Lake, read: Callable[[], T]) -> T:
    """The result of `read`, which lists entries and reads some: again, where upkeep thinned one out
    in between."""
    for _ in range(READ_ATTEMPTS):
        with suppress(Gone):
            return read()
    raise BackfillError(
        f"the lake {lake.address}",
        f"an entry that {VERSIONS} lists cannot be read",
        "Nothing was read",
        "Look for a link there that leads to no file, and delete it; else run again",
    )


def entry_numbers(lake: Place) -> list[int]:
    """The numbers of the kept entries of a lake, ascending."""
    stems = (name.removesuffix(".json") for name in lake.names(VERSIONS))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def entry_name(number: int) -> str:
    """The name in a lake of the entry with that number."""
    return f"{VERSIONS}/{number:020d}.json"


def _read_entry(lake: Place, number: int) -> LakeVersion:
    """The entry of the lake's log with that number. Raises Gone, and BackfillError for a damaged
    file."""
    try:
        content = {**json.loads(lake.read(entry_name(number)))}
        if content["number"] == number and is_as_written(content):
            return record_of(LakeVersion, content)
    except (Gone, BackfillError):
        raise
    except (OSError, *MISREAD):
        pass
    raise BackfillError(
        f"the lake {lake}",
        f"the entry {lake.uri(entry_name(number))} of its log is not what was written",
        "Nothing was read",
        "Restore the file from a backup, or move it away: readers then see the entry before it",
    )


def find_version(lake: Lake, at: datetime | int) -> LakeVersion | None:
    """The lake version with that number, or the newest kept one by that instant (aware); None for
    an instant before the first entry. Raises BackfillError for a number that is not kept."""
    if isinstance(at, int):
        return numbered_version(lake, at)
    return _read_though_thinned(lake, partial(_newest_by, lake, at))


def _newest_by(lake: Lake, instant: datetime) -> LakeVersion | None:
    entries = KeptEntries(lake.place)
    count = entries.count_by(instant)
    return entries.entry(count - 1) if count else None


def numbered_version(lake: Lake, number: int) -> LakeVersion:
    """The lake version with that number. Raises BackfillError for a number that the lake does not
    keep, or never had."""
    return _read_though_thinned(lake, partial(_entry_numbered, lake, number))


def _entry_numbered(lake: Lake, number: int) -> LakeVersion:
    numbers = entry_numbers(lake.place)
    if number not in numbers:
        raise BackfillError(
            f"the lake {lake.address}",
            f"it has no lake version {number}: {_kept_in_words(numbers, number)}",
            "Nothing was read",
            "Name one of these, or an instant such as 2024-03-31T12:00:00Z",
        )
    return _read_entry(lake.place, number)


def _kept_in_words(numbers: Sequence[int], lacking: int) -> str:
    """Which of the entries with these numbers are next to one that is not kept."""
    if not numbers:
        return "it has none yet"
    if not numbers[0] < lacking < numbers[-1]:
        return f"it keeps {numbers[0]} to {numbers[-1]}"
    following = bisect_right(numbers, lacking)
    before, after = numbers[following - 1], numbers[following]
    return f"upkeep thinned it out, and keeps {before} and {after}"


def versions_seen(lake: Lake, at: datetime | int | None = None) -> dict[str, int] | None:
    """The version of each table that readers see (None: they see the heads), now or `at` an instant
    or a number; of a candidate its own tables by its own log, all others by the lake's."""
    own = newest_version(lake) if at is None else find_version(lake, at)
    then = at
    if own is not None and isinstance(at, int):
        then = own.at  # each log has numbers of its own
    base_lake = versions_seen(lake.base_lake, then) if lake.base_lake is not None else None
    if own is None and base_lake is None:
        return None
    seen = {table: v for table, v in (base_lake or {}).items() if not lake.writes(table)}
    if own is not None:
        runs_ended = at is None and bool(own.held.runs) and not awaited_runs(lake)
        seen |= own.held.then if runs_ended else own.tables
    return seen


def awaited_runs(lake: Lake) -> dict[str, str]:
    """The runs whose end readers wait for now, by their ids: since when (ISO text). Empty as soon
    as all of them ended, or have shown no sign of life for their time, also before the lake has a
    further entry."""
    entry, known = newest_version(lake), markers_by_run(lake.place)
    runs = entry.held.runs if entry is not None else {}
    marked = {run: known[run] for run in runs if run in known}
    lives = lives_of(lake.place, [*marked.values()])
    return {run: runs[run] for run, marker in marked.items() if lives.get(marker) is Life.LIVES}


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
    host = process.host if process is not None else ""
    where = f" on {host}" if host else ""
    return f"the run {run[:8]}{where} since {since}"


def unfinished_switches(lake: Lake) -> tuple[UnfinishedSwitch, ...]:
    """The publications and rollbacks of several tables that run, or were stopped after their first
    commit."""
    entry = newest_version(lake)
    standing = _standing_switches(lake, entry) if entry is not None else ()
    return tuple(_without_stopped_process(lake, u) for u in standing)


def _without_stopped_process(lake: Lake, work: UnfinishedSwitch) -> UnfinishedSwitch:
    """The switch without its process where that stopped."""
    has_stopped = _switch_life(lake, work) in (Life.GONE, Life.LAPSED)
    return replace(work, process={}) if has_stopped else work


def _standing_switches(lake: Lake, entry: LakeVersion) -> tuple[UnfinishedSwitch, ...]:
    """The switches of an entry without those that certainly ended before their first commit."""
    return tuple(work for work in entry.unfinished if _may_write(lake, work))


def _may_write(lake: Lake, work: UnfinishedSwitch) -> bool:
    """Whether a switch has written, or may do so yet: one that only shows no sign of life may be
    paused, and readers must see none of what it commits when it goes on."""
    return _switch_life(lake, work) is not Life.GONE or _has_committed(lake, work)


def _switch_life(lake: Lake, work: UnfinishedSwitch) -> Life | None:
    """What can be said of the process of a switch; None where nothing can: it runs on another
    machine, and an earlier release, which began it, left no marker."""
    if not work.process:
        return Life.GONE
    process = record_of(PlacedProcess, work.process)
    marker = _switch_marker(work.id)
    if process_of(lake.place, marker) == process:
        return life_of(lake.place, marker)
    this = PlacedProcess.this()
    if process.is_gone(this):
        return Life.GONE
    return Life.LIVES if process.is_seen_from(this) else None


def forget_silent_markers(lake: Lake, seconds: float) -> None:
    """Drop markers of runs and switches that do not live and showed nothing for so many seconds;
    not that of a switch which stands, of which only its marker says that it was stopped."""
    entry = newest_version(lake)
    standing = () if entry is None else entry.unfinished
    drop_old_markers(lake.place, seconds, {_switch_marker(work.id) for work in standing})


def _switch_marker(work_id: str) -> str:
    return f"{RUNS}/switches/{digest_of([work_id])}"


def _has_committed(lake: Lake, work: UnfinishedSwitch) -> bool:
    """Whether a table has a receipt of the switch after the version that readers see."""
    plan = work.id.split()[0]
    for name, version in work.tables.items():
        for commit in _commits_after(lake, name, version)[1]:
            if commit.receipt is not None and commit.receipt.tags.get(PLAN_TAG) == plan:
                return True
    return False


NewCommits = dict[str, tuple[int, list[Commit]]]  # by table: the version before them, and these


@dataclass
class _TablesNow:
    """The versions that readers see of the tables of an entry which follows another one, taken
    table after table, upstream first."""

    running: frozenset[str]  # the runs whose commits are held back
    split: frozenset[str]  # plans of which no commit is taken
    pinned: Mapping[str, int]  # the tables of unfinished switches
    tables: dict[str, int]
    not_taken: dict[str, range] = field(default_factory=dict)  # versions of each table
    held: set[str] = field(default_factory=set)  # the runs that hold commits back
    left: set[str] = field(default_factory=set)  # the plans of commits that are not taken

    def take(self, name: str, version: int, commits: Sequence[Commit]) -> None:
        """Take of a table's commits after `version` those up to the first that has to wait."""
        head = commits[-1].version if commits else version
        is_pinned = name in self.pinned
        # The first version that is not taken.
        stop = next((c.version for c in commits if is_pinned or self._has_to_wait(c)), head + 1)
        self.tables[name] = self.pinned[name] if is_pinned else stop - 1
        if stop > head:
            return
        self.not_taken[name] = range(self.tables[name] + 1, head + 1)
        for commit in commits:
            if commit.version < stop:
                continue
            if commit.receipt is not None:
                self.left |= {_switch_plan(commit)} - {""}
                self.held |= {commit.receipt.run_id} & self.running

    def _has_to_wait(self, commit: Commit) -> bool:
        """Whether the commit is of a running run or a split plan, or reads a version that is not
        taken."""
        receipt = commit.receipt
        if receipt is None:
            return False
        if receipt.run_id in self.running or _switch_plan(commit) in self.split:
            return True
        return any(v in self.not_taken.get(table, ()) for table, v in receipt.inputs.items())


def record_versions(
    lake: Lake, contracts: Iterable[Contract], why: str, run_id: str = "", by: str = ""
) -> LakeVersion:
    """Let readers see what the tables hold now, as far as it stands together; gives the newest lake
    version.

    Of each table, upstream first, the entry takes all commits up to the first one that an
    unfinished publication covers, that another running run made (not `run_id`), or that reads an
    input at a version which is not taken. No entry is written where nothing changed.
    """
    return _append_entry(
        lake, partial(_entry_of_now, lake, tuple(contracts), run_id=run_id), why, by
    )


def _entry_of_now(
    lake: Lake, contracts: Collection[Contract], before: LakeVersion, run_id: str = ""
) -> LakeVersion:
    """The entry `before` with the tables as readers see them now, and as they will see them after
    the end of the runs that hold commits back (`held`; of all live runs but `run_id`)."""
    commits = _new_commits(lake, contracts, before)
    # Last: a run that began meanwhile is among them, and one that ended took this entry's number.
    running = live_runs(lake.place, {run_id})
    tables, held = _tables_now(lake, commits, before, running)
    if not held:
        return replace(before, tables=tables, held=HeldBack())
    now = utc_now().isoformat(timespec="seconds")
    runs = {run: before.held.runs.get(run, now) for run in sorted(held)}
    then, _ = _tables_now(lake, commits, before, frozenset())
    return replace(before, tables=tables, held=HeldBack(runs, then))


def _new_commits(lake: Lake, contracts: Iterable[Contract], before: LakeVersion) -> NewCommits:
    """The commits of each table that follow the entry `before`. A table is read before its inputs,
    so that what its commits name of these is read, too."""
    found = NewCommits()
    for name in reversed([*_written_tables(lake, contracts)]):
        found[name] = _commits_after(lake, name, before.tables.get(name, NO_VERSION))
    return dict(reversed(found.items()))


def _tables_now(
    lake: Lake, commits: NewCommits, before: LakeVersion, running: frozenset[str]
) -> tuple[dict[str, int], set[str]]:
    """The tables of an entry that follows `before` by these commits while these runs are at work,
    and which of the runs hold commits back. What one publication or rollback wrote is taken of all
    its tables or of none."""
    pinned, split = dict[str, int](), frozenset[str]()
    for work in _standing_switches(lake, before):
        pinned |= work.tables
    while True:
        now = _TablesNow(running, split, pinned, dict(before.tables))
        for name, (version, following) in commits.items():
            now.take(name, version, following)
        if now.left <= split:
            return now.tables, now.held
        split |= now.left


def _switch_plan(commit: Commit) -> str:
    """The plan of a publication or rollback that made the commit; empty for any other commit."""
    receipt = commit.receipt
    if receipt is None or receipt.reason not in (PUBLISH, ROLLBACK):
        return ""
    return receipt.tags.get(PLAN_TAG, "")


def _written_tables(lake: Lake, contracts: Iterable[Contract]) -> Iterator[str]:
    """The tables and ledgers that the lake writes, each after what it is made from."""
    for contract in contracts:
        if lake.writes(contract.name):
            yield contract.name
        if contract.is_landed and lake.shared is None:
            for ledger in (QUARANTINE, TOO_LATE, ARRIVALS):
                yield source_table_name(ledger, contract.source)


def _commits_after(lake: Lake, table: str, version: int) -> tuple[int, list[Commit]]:
    """The version and the commits after it; of a table that was moved away or made anew since all
    its commits."""
    if lake.store.head(table) < version:
        version = NO_VERSION
    return version, list(lake.store.commits(table, version))


def _append_entry(
    lake: Lake, change: Callable[[LakeVersion], LakeVersion], why: str, by: str = ""
) -> LakeVersion:
    """Write the entry that follows the newest one, unless `change` makes none of it; another writer
    may come first."""
    while True:
        before = newest_version(lake) or LakeVersion(
            number=0, tables={}, at=EPOCH, by=by, why=why, unfinished=()
        )
        after = change(replace(before, unfinished=_standing_switches(lake, before)))
        if after == before:
            return before
        number, at = before.number + 1, max(utc_now(), before.at)
        entry = replace(after, number=number, at=at, by=by or whoami(), why=why)
        text = json.dumps(with_digest(json_of(entry))).encode()
        with suppress(AlreadyThere):
            lake.place.write(entry_name(number), text, if_absent=True)
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
    known = tuple(contracts)
    this = replace(work, process=json_of(PlacedProcess.this()))
    end_switch = partial(_with_ended_switch, lake, known, work.id)
    record_versions(lake, known, f"before {work.what}")
    entry = _append_entry(
        lake, partial(_with_begun_switch, lake, this, switched), f"{work.what} begins"
    )
    (begun,), _ = _split_by_id(entry, work.id)
    mark_run(lake.place, _switch_marker(work.id))
    try:
        yield
    except BaseException:
        if _has_committed(lake, begun):
            _append_entry(lake, partial(_with_stopped_switch, work.id), f"{work.what} stopped")
        else:
            _append_entry(lake, end_switch, f"{work.what} wrote nothing")
        raise
    else:
        _append_entry(lake, end_switch, work.what)
    finally:
        drop_marker(lake.place, _switch_marker(work.id))


def _with_begun_switch(
    lake: Lake, this: UnfinishedSwitch, switched: Collection[str], before: LakeVersion
) -> LakeVersion:
    """The entry after `before` in which the switch `this` is unfinished; what readers saw when an
    earlier try of it began stays. Raises BackfillError if another switch hinders it."""
    earlier, others = _split_by_id(before, this.id)
    for work in earlier:
        if work.process != this.process and _switch_life(lake, work) is Life.LIVES:
            raise _hindered_switch_error(lake, work)
    for work in others:
        if not work.tables.keys().isdisjoint(switched):
            raise _hindered_switch_error(lake, work)
    tables = {table: before.tables.get(table, NO_VERSION) for table in switched}
    for work in earlier:
        tables |= work.tables
    return replace(before, unfinished=(*others, replace(this, tables=tables)))


def _with_ended_switch(
    lake: Lake, contracts: Collection[Contract], work_id: str, before: LakeVersion
) -> LakeVersion:
    """The entry after `before` without the switch, and with the tables of now."""
    _, others = _split_by_id(before, work_id)
    return _entry_of_now(lake, contracts, replace(before, unfinished=others))


def _with_stopped_switch(work_id: str, before: LakeVersion) -> LakeVersion:
    """The entry that says that no process goes on with the switch."""
    earlier, others = _split_by_id(before, work_id)
    return replace(before, unfinished=(*others, *(replace(u, process={}) for u in earlier)))


def _hindered_switch_error(lake: Lake, work: UnfinishedSwitch) -> BackfillError:
    """The error of a switch that an unfinished one hinders."""
    return BackfillError(
        f"the lake {lake.place}",
        str(_without_stopped_process(lake, work)),
        "Nothing was written",
        "Then do it again",
    )


def _split_by_id(
    entry: LakeVersion, work_id: str
) -> tuple[tuple[UnfinishedSwitch, ...], tuple[UnfinishedSwitch, ...]]:
    """The unfinished switch of that id (or none), and the others."""
    own = tuple(work for work in entry.unfinished if work.id == work_id)
    return own, tuple(work for work in entry.unfinished if work.id != work_id)
