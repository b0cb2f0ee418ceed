"""The one committer: adds and removes data files of a table in one commit of Delta's log, without a
JVM.

Not here: deciding what to write (`replace`) and the files themselves (`staging`). The caller holds
the table's lock; a commit is tried once.

It checks every action, because delta-rs checks none (facts: committer): a repeated txn id, a
missing file, a path that is not live and a NULL in a required column are all accepted, and a bad
partition value raises only after it has landed. With retries, two writers that fill one empty day
both succeed; without, 300 of 300 racing commits were kept once.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.closures import moves_closure
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError, TransientError
from backfill_assets.kernel.core.plans import ROLLBACK
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.log.log import (
    ACTIONS,
    DIGEST_BEFORE,
    FILE_DIGESTS,
    LiveFile,
    asked_again,
    commit_name,
    is_denied,
    note_head,
    open_delta,
    read_commit,
    refuse_torn,
    sync_log,
)
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.place.port import Place, answers_of
from backfill_assets.kernel.tables.columns import (
    columns_misfit,
    evolve_schema,
    file_statistics,
    footer_in,
    schema_contract,
)
from backfill_assets.kernel.tables.data_files import live_files
from backfill_assets.kernel.tables.staging import Committing, StagedFile, announce_nothing

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Tables of version 0.1 have it, and delta-rs refuses to write them.
FEATURE_OF_BEFORE = "inCommitTimestamp"
# Commits: opening a table reads those since its checkpoint, 0.4 CPU ms each (measured: a receipt
# took 8 CPU ms with 10, 14 with 25, 41 with 100, whatever the length of the log); each checkpoint
# is one more file of all live files.
CHECKPOINT_EVERY = 20


class Conflict(TransientError):
    """Another commit came first; re-read the log and try again."""


def open_table(path: Place) -> "DeltaTable":
    """The table at its newest version; raises BackfillError if that is torn, or version 0.1 made
    the table."""
    opened = LOGS.opened_to_write(path)
    refuse_torn(path, [opened.version()])  # delta-rs takes an empty file for a commit of nothing
    if FEATURE_OF_BEFORE in (opened.protocol().writer_features or ()):
        raise BackfillError(
            f"the table {path.name}",
            "version 0.1 of backfill_assets made it, whose commits went through Spark",
            "Nothing was written",
            f"Move {path.uri().rpartition('/')[0]} away, then run `backfill-assets catch-up`: it "
            "is made again from "
            "what landed",
        )
    return opened


def commit_files(
    path: Place,
    contract: Contract,
    receipt: Receipt,
    adds: Sequence[StagedFile],
    removes: Sequence[LiveFile],
    committing: Committing = announce_nothing,
) -> int:
    """Add and remove exactly these files in one commit that carries the receipt; returns its
    version. Files have the columns of the contract. Files of a rollback may lack nullable ones;
    unless they were copied for it, the commit that added them first names their digests.
    `committing` is called with the version that is tried next (`Staged`).

    Raises Conflict where another commit came first, BackfillError where an action is invalid (then
    nothing was written). After any other error the log decides whether the commit happened.
    """
    opened, now_ms = _evolved_table(path, contract), _now_ms()
    actions = _remove_actions(opened, path, contract.partition_column, removes, now_ms)
    is_rollback = receipt.reason == ROLLBACK
    optional_columns = contract.nullable_columns if is_rollback else ()
    actions += _add_actions(path, contract, adds, now_ms, optional_columns)
    if contract.is_by_day:
        _refuse_unnamed_days(path, receipt, adds)
    are_own_copies = all(receipt.write_id in f.name.split("/") for f in adds)
    has_earlier_digests = is_rollback and not are_own_copies
    digests = "" if has_earlier_digests else _joined_digests(adds)
    # Before the log names them: a power cut must leave no torn file.
    path.sync_new([f.name for f in adds])
    version = _commit_actions(opened, path, receipt, actions, digests, committing)
    LOGS.keep_newest_state(path, contract.day_column)
    return version


def _evolved_table(path: Place, contract: Contract) -> "DeltaTable":
    """The table at its newest version, with the columns of its contract."""

    def evolved() -> "tuple[DeltaTable, bool]":
        """The table, and whether its schema had to be written."""
        opened = open_table(path)  # nobody else gets the object: asked again, it is another
        return opened, evolve_schema(opened, path, contract)

    opened, is_written = asked_again(path, evolved)
    if not is_written:
        return opened
    sync_log(path, opened.version())
    LOGS.head(path)
    return open_table(path)


def _refuse_unnamed_days(path: Place, receipt: Receipt, adds: Sequence[StagedFile]) -> None:
    """Raise BackfillError for a file of a day that the receipt does not name."""
    days = {str(day) for day in receipt.days}
    for file in adds:
        if file.partition not in days:
            added = f"a file of {file.partition} is to be added"
            raise _invalid_commit_error(path, f"{added}, a day that the receipt does not name")


def _joined_digests(adds: Sequence[StagedFile]) -> str:
    """The digests of new files, joined, by ascending path."""
    return "".join(digest for _, digest in sorted((f.name, f.digest()) for f in adds))


def rewrite_files(
    path: Place,
    contract: Contract,
    receipt: Receipt,
    adds: Sequence[StagedFile],
    removes: Sequence[LiveFile],
    committing: Committing = announce_nothing,
) -> int:
    """Commit as `commit_files` does, but files that hold the same rows as before: readers of
    changes see none."""
    opened, now_ms = open_table(path), _now_ms()
    by_schema = schema_contract(contract, opened)
    actions = _remove_actions(
        opened, path, contract.partition_column, removes, now_ms, moves_rows=False
    )
    added = _add_actions(
        path, by_schema, adds, now_ms, by_schema.nullable_columns, moves_rows=False
    )
    digests = _joined_digests(adds)
    path.sync_new([f.name for f in adds])
    return _commit_actions(opened, path, receipt, [*actions, *added], digests, committing)


def commit_references(
    path: Place,
    contract: Contract,
    receipt: Receipt,
    adds: Sequence[LiveFile],
    stats: Mapping[str, str],
    removes: Sequence[LiveFile],
) -> int:
    """Name and drop files of another table, which lie behind a link below `path`, in one commit
    with the receipt; a receipt of no days says that no row changed. `stats` are the files'
    statistics in Delta's JSON, by path. The files are the others': they are neither read nor
    synced, and have no digests. Raises as `commit_files` does."""
    from deltalake.transaction import AddAction

    opened, now_ms = _evolved_table(path, contract), _now_ms()
    column = contract.partition_column
    moves_rows = bool(receipt.days)
    actions = _remove_actions(opened, path, column, removes, now_ms, moves_rows=moves_rows)
    for file in adds:
        values = {column: file.partition} if column else {}
        stat = stats[file.path]
        actions.append(AddAction(file.path, file.size, values, now_ms, moves_rows, stat))
    version = _commit_actions(opened, path, receipt, actions)
    LOGS.keep_newest_state(path, contract.day_column)
    return version


def _now_ms() -> int:
    return int(utc_now().timestamp() * 1000)


def commit_receipt(path: Place, receipt: Receipt, committing: Committing = announce_nothing) -> int:
    """Commit a receipt alone, without files. Returns its version; raises what `commit_files`
    raises."""
    return _commit_actions(open_table(path), path, receipt, [], committing=committing)


def newer_writes_check(path: Place, since: int, then: Committing = announce_nothing) -> Committing:
    """What a commit calls before it is tried that was decided at version `since` (`NO_VERSION`:
    before the first): it raises Conflict where another one wrote or closed days after it, else
    calls `then`.
    Others take no lock, and one in a store may have been lost."""

    def committing(version: int) -> None:
        for other in (read_commit(path, v) for v in range(max(since, 0) + 1, version)):
            if other.receipt is None or other.receipt.days:
                raise stale_commit_error(path, f"version {other.version} wrote days meanwhile")
            if moves_closure(other.receipt):
                raise stale_commit_error(path, f"version {other.version} closed days meanwhile")
        then(version)

    return committing


def _commit_actions(
    opened: "DeltaTable",
    path: Place,
    receipt: Receipt,
    actions: list[Any],
    digests: str = "",
    committing: Committing = announce_nothing,
) -> int:
    """Try one commit of these actions, with the receipt in its metadata, behind the version that
    `opened` has; returns its version.

    `digests`: of the files that it adds, joined; `committing` is called with the version that is
    tried. Raises BackfillError if the newest commit is this very write, else as `committed_version`
    does: whatever delta-rs says, the log decides whether the commit happened.
    """
    before = opened.version()
    path.sync(commit_name(before))  # its process may have been killed before it did
    newest, digest = LOGS.read(path, before)
    if newest.receipt is not None and newest.receipt.write_id == receipt.write_id:
        # Of older ones: see `committed_version`.
        raise _invalid_commit_error(path, f"its log holds the write {receipt.write_id} already")
    metadata = {
        "userMetadata": receipt.to_json(),
        ACTIONS: str(len(actions) + 1),
        DIGEST_BEFORE: digest,
    }
    if digests:
        metadata[FILE_DIGESTS] = digests
    committing(before + 1)
    failed = None
    try:
        opened = _written_table(opened, path, receipt.write_id, actions, metadata)
    except Exception as error:  # noqa: BLE001  # the log decides whether it happened
        failed = error
    version = committed_version(
        path, lambda: LOGS.find_write(path, receipt.write_id, before), before, failed
    )
    _keep_commit(opened, path, version)
    LOGS.return_opened(path, opened)
    return version


def _keep_commit(opened: "DeltaTable", path: Place, version: int) -> None:
    """Make a commit outlast a power cut, note it as the newest one, and write a checkpoint behind
    each `CHECKPOINT_EVERY` of them."""
    sync_log(path, version)
    if (version + 1) % CHECKPOINT_EVERY == 0:
        _write_checkpoint(opened, path, version)
    with suppress(OSError):  # the commit has happened; the next one writes the note again
        digest = ""
        if path.is_store:
            _, digest = LOGS.read(path, version)  # it was just read
        note_head(path, version, digest)


def _written_table(
    opened: "DeltaTable",
    path: Place,
    write_id: str,
    actions: list[Any],
    metadata: dict[str, str],
) -> "DeltaTable":
    """Have delta-rs write the commit; gives the table behind it. Where the store denies the
    credentials that `opened` was opened with, the table is opened anew and asked once more: nothing
    was written by the first request."""
    try:
        _create_transaction(opened, write_id, actions, metadata)
    except Exception as error:
        if not is_denied(path, error):
            raise
        opened = open_delta(path, opened.version())
        _create_transaction(opened, write_id, actions, metadata)
    return opened


def _create_transaction(
    opened: "DeltaTable", write_id: str, actions: list[Any], metadata: dict[str, str]
) -> None:
    """Have delta-rs write the commit, without a retry and without work of its own on the log."""
    from deltalake import CommitProperties, PostCommitHookProperties, Transaction

    opened.create_write_transaction(
        actions,
        mode="append",
        schema=opened.schema(),
        partition_by=opened.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata=metadata,
            max_commit_retries=0,
            app_transactions=[Transaction(write_id, 1, _now_ms())],
        ),
        post_commithook_properties=PostCommitHookProperties(
            create_checkpoint=False, cleanup_expired_logs=False
        ),
    )


def committed_version(
    path: Place, find: Callable[[], int | None], before: int, failed: Exception | None
) -> int:
    """The version of a commit that was tried behind version `before`, as `find` finds it in the
    log. Raises Conflict only if another commit has the version that it was tried at, so that it can
    never come: a caller may try the same write again then."""
    if (version := find()) is not None:
        return version
    if failed is None:
        raise TransientError(
            f"the table {path.name}",
            "the commit was reported done and the log holds no such write",
            "The days keep their old rows",
            "Run `backfill-assets doctor`, then run again",
        )
    if not path.exists(commit_name(before + 1)):
        raise store_refusal_error(path, failed) from failed
    if (version := find()) is not None:  # a request without answer came late
        return version
    raise stale_commit_error(path, str(failed)[:200]) from failed


def store_refusal_error(path: Place, failed: Exception) -> Exception:
    """The error of a commit that was not done: of a store, which met another one (409) or gave no
    answer, one that is taken again; else `failed` itself."""
    from deltalake.exceptions import DeltaError

    if not (path.is_store and isinstance(failed, (DeltaError, OSError))):
        return failed
    return TransientError(
        str(path),
        f"the store did not take the commit ({type(failed).__name__})",
        "Its log does not hold the write",
        "Run again",
    )


def stale_commit_error(path: Place, why: str) -> Conflict:
    """The error of a commit that was made for an older version of the table."""
    return Conflict(
        f"the table {path.name}",
        f"another commit came first ({why})",
        "Nothing was written",
        "Run again",
    )


def _write_checkpoint(opened: "DeltaTable", path: Place, version: int) -> None:
    """Write all live files to a checkpoint after a commit: it makes opening quicker, and a failure
    costs only time."""
    from deltalake.exceptions import DeltaError

    with suppress(DeltaError, OSError):
        opened.update_incremental()
        opened.create_checkpoint()
        sync_log(path, version)


def _remove_actions(
    opened: "DeltaTable",
    path: Place,
    column: str,
    removes: Sequence[LiveFile],
    now_ms: int,
    *,
    moves_rows: bool = True,
) -> list[Any]:
    """The actions that remove these files, laid out by `column` ("": by none), at the time
    `now_ms`. `moves_rows`: whether readers of changes see rows go. Raises Conflict for a file that
    `opened` does not hold so."""
    from deltalake.transaction import RemoveAction

    live = {f.path: f for f in live_files(opened, column)} if removes else {}
    for file in removes:
        if live.get(file.path) != file:
            raise stale_commit_error(
                path, f"{file.path} is to be removed and is no file of version {opened.version()}"
            )
    return [
        RemoveAction(f.path, moves_rows, now_ms, f.size, {column: f.partition} if column else {})
        for f in removes
    ]


def _add_actions(
    path: Place,
    contract: Contract,
    adds: Sequence[StagedFile],
    now_ms: int,
    optional_columns: Collection[str],
    *,
    moves_rows: bool = True,
) -> list[Any]:
    """The actions that add these files, which may lack `optional_columns`, at the time `now_ms`.
    `moves_rows`: whether readers of changes see rows come. Raises BackfillError for a file that is
    not whole, not of the contract, or named twice."""
    from deltalake.transaction import AddAction

    column, actions = contract.partition_column, list[Any]()
    for file in adds:
        if column and file.partition is None:
            raise _invalid_commit_error(path, f"{file.name} has no value of {column}")
    # A footer is a request to a store, and the table's lock is held meanwhile.
    check = partial(_checked_statistics, path, contract, optional_columns)
    for file, stats in zip(adds, answers_of(path, check, adds), strict=True):
        values = {column: file.partition} if column else {}
        actions.append(AddAction(file.name, file.size, values, now_ms, moves_rows, stats))
    if len({a.path for a in actions}) != len(actions):
        raise _invalid_commit_error(path, "a file is to be added twice")
    return actions


def _checked_statistics(
    place: Place, contract: Contract, optional_columns: Collection[str], file: StagedFile
) -> str:
    """The file's statistics; raises BackfillError if it is not whole or not of the contract, of
    which it may lack `optional_columns`."""
    import pyarrow as pa

    try:
        footer = footer_in(place, file.name, at_hand=True)
    except BackfillError:  # of a store that does not answer now
        raise
    except (OSError, pa.ArrowInvalid) as error:
        raise _invalid_commit_error(place, f"{file.name} cannot be read: {error}") from error
    if misfit := columns_misfit(footer.schema, contract, optional_columns):
        raise _invalid_commit_error(place, f"the columns of {file.name} are {misfit}")
    stats = file_statistics(footer)
    nulls = json.loads(stats)["nullCount"]
    for column in contract.required_columns:
        if nulls.get(column):
            raise _invalid_commit_error(
                place, f"{file.name} has {nulls[column]} NULL(s) in {column}, which may have none"
            )
    return stats


def _invalid_commit_error(path: Place, culprit: str) -> BackfillError:
    return BackfillError(
        f"the table {path.name}", culprit, "Nothing was written", "Keep the message and report it"
    )
