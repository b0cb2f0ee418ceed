"""State files of a table: its state at a version, in `TABLE/_delta_log/.state`, so that nobody
folds a whole log.

A state file is a copy of what the commits say, never a source: one that is damaged, of another
form, or of another log is passed over, and each can be deleted at any time. Not here: folding
commits (`log_state`), and when a state is kept (`kernel.tables.committer`).
"""

import gzip
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from backfill_assets.kernel.core.closures import Closure
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.receipts import SCHEMA, Built, DayEntry, shared_mapping
from backfill_assets.kernel.core.records import MISREAD, json_of, record_of
from backfill_assets.kernel.core.view import DayReceipt, TableView
from backfill_assets.kernel.log.log import LOG, commit_digest
from backfill_assets.kernel.place.port import AlreadyThere, Place

STATES_FOLDER = ".state"
# Raised when commits of an existing log fold to another state; other fields show by their names.
FOLD = 1
FORM = digest_of(
    [
        FOLD,
        SCHEMA,
        *(field.name for kind in (TableView, DayReceipt, DayEntry) for field in fields(kind)),
    ]
)
SUFFIX = f".{FORM[:8]}.json.gz"  # releases that keep other states pass over these files
STATE_NAME = re.compile(rf"([0-9]+){re.escape(SUFFIX)}")
KEPT_STATES = 2  # the newest, and one more for readers that found it before the newest was there
UNREADABLE = (OSError, EOFError, zlib.error, *MISREAD)
BUILT: Mapping[str, Built] = {kind.value: kind for kind in Built}  # a third of the time of a call
NOTHING: Mapping[str, Any] = {}  # one for all days without counts or parts
Content = dict[str, Any]  # of a state file, as JSON values


def state_name(version: int) -> str:
    """The name in its table of the file with the state at a version; it need not exist."""
    return f"{LOG}/{STATES_FOLDER}/{version:020d}{SUFFIX}"


def kept_versions(table: Place) -> list[int]:
    """The versions whose state is kept in the form of this release, ascending."""
    names = [STATE_NAME.fullmatch(name) for name in table.names(f"{LOG}/{STATES_FOLDER}")]
    return sorted(int(found[1]) for found in names if found)


def newest_state(
    table: Place, day_column: str, after: int, last: int, kept: Sequence[int] | None = None
) -> TableView | None:
    """The newest kept state at a version greater than `after` and not greater than `last`; None
    without one that fits the log. `kept`: the versions whose state is kept (None: they are
    listed)."""
    if kept is None:
        kept = kept_versions(table)
    for version in reversed([v for v in kept if after < v <= last]):
        try:
            return _state_of(_fitting_content(table, day_column, version))
        except UNREADABLE:
            continue
    return None


def keep_state(table: Place, day_column: str, state: TableView) -> None:
    """Keep the state of the newest version, unless it is kept already, and delete all other files
    except the newest ones. The caller holds the table's lock. Raises OSError."""
    text = json.dumps(state_content(table, day_column, state), separators=(",", ":"))
    packed = gzip.compress(text.encode(), mtime=0)
    with suppress(AlreadyThere):
        table.write(state_name(state.version), packed, if_absent=True)
    # Later versions are of another log.
    fitting = [version for version in kept_versions(table) if version <= state.version]
    newest = {state_name(version) for version in fitting[-KEPT_STATES:]}
    for name in table.names(f"{LOG}/{STATES_FOLDER}"):
        path = f"{LOG}/{STATES_FOLDER}/{name}"
        if path not in newest:
            table.delete(path)  # also what killed writers left


def delete_states(table: Place) -> None:
    """Delete all kept states of a table whose history begins anew: none of them is of that."""
    for name in table.names(f"{LOG}/{STATES_FOLDER}"):
        table.delete(f"{LOG}/{STATES_FOLDER}/{name}")


def is_state_false(table: Place, day_column: str, state: TableView) -> bool:
    """Whether readers take a kept state that differs from this one, folded from all commits."""
    try:
        kept = _fitting_content(table, day_column, state.version)
        _state_of(kept)
        return bool(kept != json.loads(json.dumps(state_content(table, day_column, state))))
    except UNREADABLE:
        return False


def state_content(table: Place, day_column: str, state: TableView) -> Content:
    """The content of the file of a state. Its identity is the digest of the commit at its version,
    which names the digest of the commit before it. Raises OSError where the log lacks that
    commit."""
    writes: dict[tuple[Any, ...], int] = {}
    return {
        "day_column": day_column,
        "version": state.version,
        "commit": commit_digest(table, state.version),
        "days": {str(day): _packed_day(receipt, writes) for day, receipt in state.latest.items()},
        "writes": json_of(tuple(writes)),
        "inputs": json_of(state.inputs),
        "frontier": json_of(state.frontier),
        "frontiers": json_of(state.frontiers),
        "foreign": json_of(state.foreign),
        "others": json_of(state.others),
        "releases": json_of(state.releases),
        "closure": json_of(state.closure),
    }


def _packed_day(receipt: DayReceipt, writes: dict[tuple[Any, ...], int]) -> list[Any]:
    """The values of a day, with the number of its write among `writes`, to which a new one is
    added."""
    entry = receipt.entry
    write = (
        receipt.version,
        receipt.write_id,
        receipt.code_digest,
        receipt.settings_digest,
        receipt.run_id,
        receipt.parameters,
        receipt.engine,
        receipt.frontier,
    )
    return [
        writes.setdefault(write, len(writes)),
        receipt.irreproducible,
        None if entry.columns is None else dict(entry.columns),
        dict(entry.counts),
        dict(entry.parts),
        entry.rows,
        entry.fingerprint,
        entry.input_digest,
        entry.built.value,
        entry.scheme,
    ]


def _fitting_content(table: Place, day_column: str, version: int) -> Content:
    """The content of a state file; raises one of `UNREADABLE` where it is damaged, or not of this
    log."""
    content: Content = json.loads(gzip.decompress(table.read(state_name(version))))
    named = (content["day_column"], content["version"], content["commit"])
    if named != (day_column, version, commit_digest(table, version)):
        raise ValueError(version)
    return content


def _state_of(content: Content) -> TableView:
    """The state that `state_content` gave this content for. Raises one of `UNREADABLE` for
    another."""
    writes = [(*write, _instant_of(frontier)) for *write, frontier in content["writes"]]
    latest = dict[date, DayReceipt]()
    for day, (number, irreproducible, columns, counts, parts, *values) in content["days"].items():
        rows, fingerprint, input_digest, built, scheme = values
        entry = DayEntry(
            rows,
            fingerprint,
            input_digest,
            BUILT[built],
            shared_mapping(counts) if counts else NOTHING,
            scheme,
            parts or NOTHING,
            None if columns is None else shared_mapping(columns),
        )
        # Of the write version to frontier, in the order of `DayReceipt`'s fields.
        latest[_day_of(day)] = DayReceipt(*(entry, *writes[number], irreproducible))
    frontiers, closure = content["frontiers"].items(), content["closure"]
    return TableView(
        version=content["version"],
        latest=latest,
        inputs=content["inputs"],
        frontier=_instant_of(content["frontier"]),
        foreign=frozenset(date.fromisoformat(day) for day in content["foreign"]),
        frontiers={name: datetime.fromisoformat(moment) for name, moment in frontiers},
        others=tuple(content["others"]),
        releases=tuple(content["releases"]),
        closure=None if closure is None else record_of(Closure, closure),
    )


@lru_cache(maxsize=1 << 14)
def _day_of(text: str) -> date:
    """The day of that text: one object for all tables, whose states name the same days."""
    return date.fromisoformat(text)


def _instant_of(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
