"""Putting days back to what they held at an earlier version, and letting them go again: commits of metadata alone.

Lives here: which files of the past come back, the proof that they are there and fit, the receipts. Does not live here:
which days and versions somebody means (`operations.rollback`), and the commit itself (`committer`). No JVM, no data is
read or written. Days that were put back are `held`: whoever computes days leaves them alone until they are let go.
"""

import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError, Superseded
from backfill_assets.core.parameters import PARAMETERS
from backfill_assets.core.profiles import EMPTY_FINGERPRINT
from backfill_assets.core.receipts import Built, DayEntry, Receipt
from backfill_assets.core.rollbacks import NO_DIGEST, RELEASE, ROLLBACK, TO_VERSION, target_of, targets_text
from backfill_assets.core.view import Stamp, TableView
from backfill_assets.lake.committer import (
    columns_misfit,
    commit_files,
    commit_receipt,
    live_files,
    open_table,
)
from backfill_assets.lake.evolution import schema_contract
from backfill_assets.lake.home import Lake
from backfill_assets.lake.lock import table_lock
from backfill_assets.lake.log import commits, table_view, views_at
from backfill_assets.lake.opening import open_delta
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.sizes import gone_or_altered
from backfill_assets.lake.staging import StagedFile
from backfill_assets.lake.statistics import read_footer
from backfill_assets.lake.store import Commit, LiveFile

NEVER_MADE = DayEntry(0, EMPTY_FINGERPRINT, NO_DIGEST)
SHOWN_FILES = 3


@dataclass(frozen=True)
class PutBack:
    """What somebody decided for one table: per day the version whose content it gets, and the version of its newest
    receipt at that moment (`seen`): who wrote it since then was not known to whoever decided."""

    contract: Contract
    targets: Mapping[date, int]
    seen: Mapping[date, int]


@dataclass(frozen=True)
class Prepared:
    """A rollback of one table that may be done: what the days hold `now` and will say (`entries`), and their files.

    Days that are held with this very content already are in neither.
    """

    contract: Contract
    targets: Mapping[date, int]
    now: Mapping[date, Stamp]
    then: Mapping[date, Stamp]
    entries: Mapping[date, DayEntry]
    adds: tuple[LiveFile, ...] = ()
    removes: tuple[LiveFile, ...] = ()


def prepare(lake: Lake, wanted: PutBack) -> Prepared:
    """What putting back would do; nothing is written. Raises BackfillError where it cannot be done, with the reason."""
    contract, path = wanted.contract, lake.table_path(wanted.contract.name)
    _refuse_landed(contract)
    now = table_view(path, contract.day_column)
    _fence(wanted, now)
    then = views_at(path, contract.day_column, set(wanted.targets.values()))
    _refuse_unknown(wanted, then)
    stamps = {d: s for d, at in wanted.targets.items() if (s := then[at].stamps.get(d)) is not None}
    entries = {
        d: replace(stamps[d].entry if d in stamps else NEVER_MADE, built=Built.HELD) for d in sorted(wanted.targets)
    }
    entries = {d: e for d, e in entries.items() if d in now.foreign or now.stamps[d].entry != e}
    targets = {d: wanted.targets[d] for d in entries}
    adds, removes = _moves(path, contract, targets)
    _refuse_unusable(path, schema_contract(contract, open_table(path)), adds)
    return Prepared(contract, targets, {d: now.stamps[d] for d in entries}, stamps, entries, adds, removes)


def put_back(lake: Lake, wanted: PutBack, provenance: Provenance) -> int | None:
    """Put the days back in one commit; its version, or None where they are held so already. Raises as `prepare`."""
    with table_lock(lake.locks, wanted.contract.name):
        found = prepare(lake, wanted)
        if not found.entries:
            return None
        path = lake.table_path(wanted.contract.name)
        comes = [StagedFile(path / f.path, f.partition) for f in found.adds]
        by_schema = schema_contract(wanted.contract, open_table(path))
        receipt = _receipt(found, provenance)
        return commit_files(path, by_schema, receipt, comes, found.removes, by_schema.nullable_columns)


def let_go(lake: Lake, contract: Contract, days: Collection[date], provenance: Provenance) -> list[int]:
    """End the hold of days: each gets again the receipt that it had at the version it was put back to, so that it is
    fresh or stale by its own inputs. One receipt per write that made them; the commits' versions, none for days that
    are not held. Killed halfway, the others are still held.
    """
    path = lake.table_path(contract.name)
    with table_lock(lake.locks, contract.name):
        view = table_view(path, contract.day_column)
        stamps = view.stamps
        held = sorted(d for d in days if d in stamps and stamps[d].entry.built is Built.HELD)
        foreign = sorted(view.foreign & set(held))
        if foreign:
            raise _refusal(
                contract,
                f"another program wrote {foreign[0]} after it was put back: its receipt is of other rows",
                "Put it back once more with `--over-newer`, then let it go",
            )
        history = list(commits(path)) if held else []
        groups: dict[int, list[date]] = defaultdict(list)
        for day in held:
            groups[_origin(history, day, stamps[day].version)].append(day)
        return [commit_receipt(path, _released(history, at, groups[at], provenance)) for at in sorted(groups)]


def is_put_back(contract: Contract) -> bool:
    """Whether days of the table can be put back: not of one that is loaded, nor where a file holds several days."""
    return not contract.is_landed and contract.partition_column == contract.day_column


def _refuse_landed(contract: Contract) -> None:
    if not is_put_back(contract):
        raise _refusal(
            contract,
            "it is loaded from what landed, and what landed is never put back"
            if contract.is_landed
            else "its files hold several days each",
            "Put back the tables that are made from it, or correct what landed",
        )


def _fence(wanted: PutBack, now: TableView) -> None:
    moved = [d for d in wanted.targets if d not in now.stamps or now.stamps[d].version != wanted.seen.get(d)]
    if moved:
        raise Superseded(
            f"the table {wanted.contract.name}",
            f"{len(moved)} day(s) from {min(moved)} were written while the rollback was decided",
            "Nothing was written",
            "Look again without --yes, then decide anew",
        )


def _refuse_unknown(wanted: PutBack, then: Mapping[int, TableView]) -> None:
    """Raise where a version is none of the table's, or nobody knows what a day held at it."""
    for day, at in sorted(wanted.targets.items()):
        if at not in then:
            raise _refusal(wanted.contract, f"it has no version {at}", "Name one that `backfill-assets show` lists")
        if day in then[at].foreign:
            raise _refusal(
                wanted.contract,
                f"at version {at} the rows of {day} were another program's, and no receipt names them",
                "Name a version before that",
            )


def _moves(path: Path, contract: Contract, targets: Mapping[date, int]) -> tuple[tuple[LiveFile, ...], ...]:
    """The files that come back and those that go."""
    if not targets:
        return (), ()
    wanted: set[LiveFile] = set()
    for at in {v for v in targets.values() if v >= 0}:
        named = {str(d) for d, version in targets.items() if version == at}
        then = live_files(open_delta(path, at), contract.partition_column)
        wanted |= {f for f in then if f.partition in named}
    days = {str(d) for d in targets}
    live = {f for f in live_files(open_table(path), contract.partition_column) if f.partition in days}
    return tuple(sorted(wanted - live, key=_path)), tuple(sorted(live - wanted, key=_path))


def _path(file: LiveFile) -> str:
    return file.path


def files_held(lake: Lake, contract: Contract, days: Collection[date]) -> tuple[list[LiveFile], list[LiveFile]]:
    """The data files that hold these days now, and those of them that are gone or altered."""
    named, path = {str(d) for d in days}, lake.table_path(contract.name)
    held = [f for f in live_files(open_table(path), contract.partition_column) if f.partition in named]
    return held, gone_or_altered(path, held)


def _refuse_unusable(path: Path, contract: Contract, files: Sequence[LiveFile]) -> None:
    """Raise where a file is gone, is not the one that the log names, or does not fit `contract`, which has the columns
    of the table's schema: a file may lack those that may be NULL, which it then has no value of."""
    import pyarrow as pa

    gone = gone_or_altered(path, files)
    if gone:
        shown = ", ".join(f.path for f in gone[:SHOWN_FILES])
        raise _refusal(
            contract,
            f"{len(gone)} of {len(files)} file(s) that the days held are gone or altered, first {shown}",
            "Make the days again instead: `backfill-assets backfill`; `[retention] rollback_days` says how long files "
            "are to be kept",
        )
    for file in files:
        try:
            misfit = columns_misfit(read_footer(path / file.path).schema, contract, contract.nullable_columns)
        except (OSError, pa.ArrowInvalid) as error:
            misfit = f"not to be read ({error})"
        if misfit:
            raise _refusal(
                contract,
                f"the columns of {file.path}, which {file.partition} held, are {misfit}",
                "Make the days again instead: `backfill-assets backfill`",
            )


def _refusal(contract: Contract, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"the table {contract.name}", culprit, "Nothing was put back", fix)


def _receipt(found: Prepared, provenance: Provenance) -> Receipt:
    """Whose code, settings and parameters the days are made with is known where all are of one kind."""
    made = {(s.code_digest, s.settings_digest, s.parameters) for s in found.then.values()}
    code, settings, parameters = made.pop() if len(made) == 1 else ("", "", "")
    known = {PARAMETERS: parameters} if parameters else {}
    return Receipt(
        write_id=uuid.uuid4().hex,
        table=found.contract.name,
        reason=ROLLBACK,
        days=found.entries,
        run_id=provenance.run_id,
        note=provenance.note,
        code_digest=code,
        settings_digest=settings,
        tags={**known, **(provenance.tags or {}), TO_VERSION: targets_text(found.targets)},
        seconds=round(time.monotonic() - provenance.began, 3),
    )


def _origin(history: Sequence[Commit], day: date, version: int) -> int:
    """The version of the write that made what `day` holds by its hold at `version`; -1 where it was never made."""
    while True:
        receipt = history[version].receipt
        if receipt is None or receipt.days[day].built is not Built.HELD:
            return version
        to = target_of(receipt, day)
        if to is None:
            raise BackfillError(
                f"the table {receipt.table}",
                f"the receipt of version {version} holds {day} and does not say to which version it was put back",
                "Its hold was not ended",
                "Put the day back once more, naming the version, then let it go",
            )
        before = [c.version for c in history[: to + 1] if c.names(day)]
        if not before:
            return -1
        version = before[-1]


def _released(history: Sequence[Commit], origin: int, days: Sequence[date], provenance: Provenance) -> Receipt:
    """What the write `origin` said of these days, once more; of days never made, what makes them stale."""
    before = history[origin].receipt if origin >= 0 else None
    if before is None:  # signed as the write that was undone, with the digest of no inputs at all
        undone = next(c.receipt for c in history if c.receipt is not None and days[0] in c.receipt.days)
        before = replace(undone, days=dict.fromkeys(days, NEVER_MADE))
    known = {PARAMETERS: before.tags[PARAMETERS]} if PARAMETERS in before.tags else {}
    return replace(
        before,
        write_id=uuid.uuid4().hex,
        reason=RELEASE,
        run_id=provenance.run_id,
        note=provenance.note,
        days={d: before.days[d] for d in days},
        tags={**known, **(provenance.tags or {})},
        seconds=round(time.monotonic() - provenance.began, 3),
    )
