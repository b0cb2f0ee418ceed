"""Faults planted by hand into the package, to see that stories find them.

Here: each as what another name of the package stands for, in the process that plays. Not here:
faults of stores and machines (`faults`). A simulation that finds nothing proves nothing until it
finds these.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill_assets.buckets import bucket, leases
from backfill_assets.erasure import erasing
from backfill_assets.export import export_sinks
from backfill_assets.kernel.core.addresses import CANDIDATES
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.log import listed_logs, log_state, run_markers, state_files
from backfill_assets.kernel.place import lease_watch
from backfill_assets.kernel.tables import committer, staging, store, versions
from backfill_assets.kernel.write import candidate, derived, known, replace
from backfill_assets.plans import rollback
from backfill_assets.reading import whole
from backfill_assets.upkeep import housekeeping, maintain, removals, thinning
from backfill_assets_tests.simulation.scheduler import Scheduler

Patches = list[tuple[object, str, object]]


def _nothing(*_: object, **__: object) -> None:
    """A check that checks nothing."""


def no_fence(_: Scheduler) -> Patches:
    """A commit is not held against newer inputs."""
    return [(replace, "_refuse_superseded", _nothing)]


def held_days_written(_: Scheduler) -> Patches:
    """Days that a rollback put back are written like others."""
    return [(replace, "refuse_left_alone", _nothing), (derived, "refuse_left_alone", _nothing)]


def swept_too_early(_: Scheduler) -> Patches:
    """A sweep takes every marker for that of a dead process."""

    def all_writes(lake: Any, table: str) -> list[str]:
        return sorted(lake.names(staging.marker_folder(table)))

    return [(staging, "_abandoned_writes", all_writes)]


def log_before_files(scheduler: Scheduler) -> Patches:
    """A commit names files that are sent after it."""
    waiting = defaultdict[int, list[tuple[Any, Collection[str]]]](list)
    send, keep = bucket.Bucket.sync_new, committer._keep_commit

    def later(self: Any, names: Collection[str]) -> None:
        waiting[scheduler.process.pid].append((self, names))

    def keep_then_send(*given: Any) -> None:
        keep(*given)
        for place, names in waiting.pop(scheduler.process.pid, ()):
            send(place, names)

    return [(bucket.Bucket, "sync_new", later), (committer, "_keep_commit", keep_then_send)]


def switch_ended_by_another(_: Scheduler) -> Patches:
    """The end of a rollback or publication ends those of others, too."""
    real = versions._split_by_id

    def split(entry: Any, work_id: str) -> Any:
        return real(entry, work_id)[0], ()

    return [(versions, "_split_by_id", split)]


def receipts_without_inputs(_: Scheduler) -> Patches:
    """Receipts do not say which versions were read."""
    signed = candidate.RebuildRequest.signed
    without = lambda self, states, _inputs: signed(self, states, {})  # noqa: E731
    return [(candidate.RebuildRequest, "signed", without)]


def no_heartbeat(_: Scheduler) -> Patches:
    """Runs never show again that they live; in a bucket their leases would do so, too."""
    real = leases.Lease._renew_often

    def renew(self: Any) -> None:
        if not self.name.endswith(run_markers.BEAT):
            real(self)

    return [(run_markers, "_beat_until_gone", _nothing), (leases.Lease, "_renew_often", renew)]


def blind_worker(_: Scheduler) -> Patches:
    """A run knows of the lake only what it found when it began."""
    read = known.KnownStates.read

    def once(self: Any) -> Any:
        return read(self) if self.found is None else self.found

    return [(known.KnownStates, "read", once)]


def state_skips_a_commit(_: Scheduler) -> Patches:
    """A state that is carried on passes the first of several new commits over."""
    real = log_state._fold_commits

    def fold(before: Any, table: Any, column: str, history: Iterable[Any]) -> Any:
        new = [*history]
        return real(before, table, column, new[1:] if before.exists and len(new) > 1 else new)

    return [(log_state, "_fold_commits", fold)]


def state_lacks_a_day(_: Scheduler) -> Patches:
    """What is read of a kept state of the ledger `files` lacks its newest day."""
    real = state_files.newest_state

    def read(table: Any, *given: Any) -> Any:
        state = real(table, *given)
        if state is None or not table.uri().endswith("/files"):
            return state
        latest = {d: r for d, r in state.latest.items() if d < max(state.latest)}
        return dataclasses.replace(state, latest=latest)

    return [(log_state, "newest_state", read)]


def snapshots_pin_nothing(_: Scheduler) -> Patches:
    """Upkeep does not ask which files snapshots have."""
    return [(housekeeping, "pinned_files", lambda _lake: {})]


def listing_is_kept(_: Scheduler) -> Patches:
    """What a process has listed of a log is never listed again."""
    real = listed_logs.ListedLogs.head

    def head(self: Any, table: Any) -> int:
        known_head = self._known_log(table).head
        return known_head if exists_at(known_head) else real(self, table)

    return [(listed_logs.ListedLogs, "head", head)]


def lost_race_wins(_: Scheduler) -> Patches:
    """A commit that another one came before is tried again behind that, as it is."""
    real = committer._create_transaction

    def until_done(opened: Any, *rest: Any) -> None:
        try:
            real(opened, *rest)
        except DeltaError:
            real(DeltaTable(opened.table_uri), *rest)

    return [(committer, "_create_transaction", until_done)]


def runs_not_awaited(_: Scheduler) -> Patches:
    """Readers see what a run wrote while it goes on."""
    return [(versions, "live_runs", lambda *_: frozenset())]


def newer_writes_ignored(_: Scheduler) -> Patches:
    """A commit does not look whether others wrote days since it was decided, nor is it fenced."""
    return [(store, "newer_writes_check", lambda _path, _since, then: then), *no_fence(_)]


def upkeep_too_early(_: Scheduler) -> Patches:
    """Upkeep deletes every file that is not of the newest version."""
    return [(maintain, "_kept_since", lambda _lake: utc_now())]


def drop_after_try(_: Scheduler) -> Patches:
    """Staged files are deleted after a commit of unknown fate."""
    real = staging.Staged.drop

    def drop(self: Any) -> None:
        self.tried = False
        real(self)

    return [(staging.Staged, "drop", drop)]


def entry_overwritten(_: Scheduler) -> Patches:
    """Two writers of the lake's log do not see each other."""
    real = bucket.Bucket.write

    def write(self: Any, name: str, content: bytes, **how: Any) -> Any:
        if name.startswith(".versions/"):
            how.pop("if_absent", None)
        return real(self, name, content, **how)

    return [(bucket.Bucket, "write", write)]


def half_a_rollback(_: Scheduler) -> Patches:
    """Readers see a rollback table by table."""

    @contextmanager
    def plainly(lake: Any, pipeline: Any, request: Any, tables: object) -> Iterator[None]:
        yield
        versions.record_versions(lake, pipeline.contracts, f"rollback of {request}")

    return [(rollback, "_switching_tables", plainly), (versions, "_switch_plan", lambda _: "")]


def death_unnoticed(_: Scheduler) -> Patches:
    """A writer whose files were swept commits them."""
    return [(leases.Lease, "committing", _nothing)]


def first_look_ends_early(_: Scheduler) -> Patches:
    """A process that knows nothing of a log takes its newest kept state for the newest version."""
    real = listed_logs.ListedLogs._first_look

    def look(self: Any, table: Any) -> int:
        head, log = real(self, table), self._known_log(table)
        if log.since >= 0:
            log.names = {n: t for n, t in log.names.items() if n <= f"{log.since:020d}.json"}
            log.head = log.since
        return int(log.head if log.since >= 0 else head)

    return [(listed_logs.ListedLogs, "_first_look", look)]


def upkeep_trusts_its_memory(_: Scheduler) -> Patches:
    """Upkeep deletes what it remembers as taken out, though a rollback took it in again."""

    def follow(known: Any, table: Any, head: int) -> Any:
        found = removals.follow_commits(known, table, head)
        return dataclasses.replace(found, waiting={**known.waiting, **found.waiting})

    return [
        (housekeeping, "follow_commits", follow),
        (housekeeping, "live_names", lambda *_: set()),
    ]


def thinned_too_much(_: Scheduler) -> Patches:
    """Of lake versions of an hour or day the last one goes, too."""
    return [(thinning, "_superseded", lambda _entries, indices, _period: iter(indices))]


def deletions_cut_short(_: Scheduler) -> Patches:
    """Of many objects that are deleted by one request, the last ones stay."""
    real = bucket.Bucket.delete_all

    def delete(self: Any, names: Collection[str]) -> None:
        real(self, [*names][: len(names) - len(names) // 3])

    return [(bucket.Bucket, "delete_all", delete)]


def erasure_keeps_old_files(_: Scheduler) -> Patches:
    """An erasure deletes no data file of a table."""
    return [(erasing, "data_file_names", lambda *_: [])]


def asset_reads_now(_: Scheduler) -> Patches:
    """What an asset returned is written as made from the newest inputs, not from those it read."""
    real = candidate.RebuildRequest.__init__

    def made(self: Any, *given: Any, **more: Any) -> None:
        real(self, *given, **more)
        if self.given is not None:
            self.known.found = None

    return [(candidate.RebuildRequest, "__init__", made)]


def sweep_unexplained(_: Scheduler) -> Patches:
    """A writer whose files were swept on its own machine says that a file is gone (as it did until
    the simulation found it)."""
    return [(staging.Staged, "explaining_loss", lambda _self: nullcontext())]


def sweep_leaves_files(_: Scheduler) -> Patches:
    """A sweep deletes the marker of a write that died, and not its files."""
    return [(staging, "_delete_unpublished", _nothing)]


def candidates_swept(_: Scheduler) -> Patches:
    """Whoever tidies up after a stopped command takes whole candidates for unfinished ones."""
    real = whole.WholeFolders.sweep

    def sweep(self: Any) -> None:
        real(self)
        for name in self.names() if self.folder == CANDIDATES else ():
            self.delete(name)

    return [(whole.WholeFolders, "sweep", sweep)]


def logs_forgotten(_: Scheduler) -> Patches:
    """A process reads a log from its first commit on at each look."""
    real = log_state.LogCache.value

    def value(self: Any, table: Any, *given: Any) -> Any:
        self._kept.clear()
        self._in_stores = listed_logs.ListedLogs()
        return real(self, table, *given)

    return [
        (log_state.LogCache, "value", value),
        (log_state, "newest_state", lambda *_: None),
        (listed_logs, "kept_versions", lambda _table: []),
    ]


def lease_by_own_clock(_: Scheduler) -> Patches:
    """Whether a lease is over is told by the clock of whoever looks, not by the place's."""
    return [(lease_watch, "place_time", lambda _place: utc_now().timestamp())]


def marker_gone_early(_: Scheduler) -> Patches:
    """A writer deletes the marker of a write as it begins to commit it."""
    real = staging.Staged.committing

    def committing(self: Any, version: int) -> None:
        real(self, version)
        self._delete_marker()

    return [(staging.Staged, "committing", committing)]


def rollback_untold(_: Scheduler) -> Patches:
    """A rollback or release of a table's days is told to the next reader only by somebody else."""
    return [(rollback, "record_versions", _nothing)]


def notes_before_rows(_: Scheduler) -> Patches:
    """An export notes days before their rows are there."""

    def replace_days(self: Any, days: Mapping[Any, Any], files: Any) -> None:
        self._note(self.held() | {**days})
        for day, held in days.items():
            self._write_day(day, held, files)

    return [(export_sinks.FolderSink, "replace", replace_days)]


Plants = Callable[[Scheduler], Patches]
PLANTED: dict[str, Plants] = {
    "the fence is off": no_fence,
    "held days are written": held_days_written,
    "a sweep comes too early": swept_too_early,
    "the log names files before they are there": log_before_files,
    "a switch is ended by another": switch_ended_by_another,
    "receipts without versions": receipts_without_inputs,
    "a marker without heartbeat": no_heartbeat,
    "a blind worker": blind_worker,
    "a state skips a commit": state_skips_a_commit,
    "a kept state of the ledger lacks a day": state_lacks_a_day,
    "a log is listed once": listing_is_kept,
    "a lost race wins": lost_race_wins,
    "running runs are not awaited": runs_not_awaited,
    "newer writes are ignored": newer_writes_ignored,
    "upkeep deletes too much": upkeep_too_early,
    "files are dropped after a try": drop_after_try,
    "an entry of the lake's log is overwritten": entry_overwritten,
    "half a rollback is seen": half_a_rollback,
    "a swept write is committed": death_unnoticed,
    "a first look at a log ends at its kept state": first_look_ends_early,
    "upkeep trusts its memory more than the log": upkeep_trusts_its_memory,
    "upkeep does not spare snapshots": snapshots_pin_nothing,
    "lake versions are thinned out too much": thinned_too_much,
    "a deletion of many leaves some": deletions_cut_short,
    "a swept write does not say so": sweep_unexplained,
    "an erasure keeps replaced files": erasure_keeps_old_files,
    "an asset's rows count as made from what is new": asset_reads_now,
    "a sweep leaves files": sweep_leaves_files,
    "whole candidates are tidied up": candidates_swept,
    "a log is read whole at each look": logs_forgotten,
    "a lease ends by the clock of who looks": lease_by_own_clock,
    "a marker goes before its commit": marker_gone_early,
    "a rollback is not told to readers": rollback_untold,
    "an export notes days before their rows": notes_before_rows,
}


@contextmanager
def planting(name: str, scheduler: Scheduler) -> Iterator[None]:
    """Within, the package has this fault ("": none)."""
    with ExitStack() as stack:
        for owner, attribute, other in PLANTED[name](scheduler) if name else ():
            stack.enter_context(mock.patch.object(owner, attribute, other))
        yield
