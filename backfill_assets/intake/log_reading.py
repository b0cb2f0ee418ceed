"""The log of a Delta table that others write, as far as it is opened: what a listing says of it,
its versions, the actions of one, the table at one.

Not here: what a commit brought (`intake.source_log`) and its data files (`intake.log_files`). What
cannot be opened is refused by the version.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.log_bounds import bounded_commit, checkpoint_versions, log_fault
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.log.log import LOG, commit_name, names_since, versions_in
from backfill_assets.kernel.place.port import Place, Token

if TYPE_CHECKING:
    from deltalake import DeltaTable

NOTHING_READ = "Nothing of it was read"
RESTORE = "Wait for its writer, or have its owner restore the log"


@dataclass(frozen=True)
class ListedLog:
    """What one listing said of the log of a table: all that a look at it needs to know of which
    commits there are."""

    table: Place
    names: frozenset[str]  # in the log
    tokens: Mapping[str, Token]  # of files in the log, by their names

    def has_commit(self, version: int) -> bool:
        """Whether the commit itself is there, and not only a checkpoint that tells of it."""
        return _name_in_log(version) in self.names

    def token(self, version: int) -> Token | None:
        """The token of a commit; None without one, and of a link."""
        return self.tokens.get(_name_in_log(version))


def list_log(table: Place, since: int = -1) -> ListedLog:
    """List a table's log: all of it, or in a store what comes from the commit `since` on. A folder
    is listed whole: somebody may have written into any of its files."""
    if table.is_store:
        tokens = names_since(table, since)
        return ListedLog(table, frozenset(tokens), tokens)
    # By their names links are there, too, which whoever reads a commit refuses.
    return ListedLog(table, frozenset(table.names(LOG)), names_since(table, -1))


def _name_in_log(version: int) -> str:
    return commit_name(version).removeprefix(f"{LOG}/")


def log_versions(listed: ListedLog) -> range:
    """The versions that a listing tells of: from the first one on that can be opened, by commits
    from the table's beginning or by a checkpoint, whose own commit may be cleaned away. Raises
    LandingError where one between the first and the last lacks."""
    found, checkpoints = versions_in(listed.names, 0), checkpoint_versions(listed.names)
    if not found:
        return range(max(checkpoints), max(checkpoints) + 1) if checkpoints else range(0)
    for before, after in pairwise(found):
        if after > before + 1:
            raise missing_versions_error(listed.table, before + 1, after - 1)
    start, last = found[0], found[-1]
    if start > 0:
        openable = [version for version in checkpoints if start - 1 <= version <= last]
        start = min(openable, default=start)
    return range(start, last + 1)


def missing_versions_error(table: Place, first: int, last: int) -> LandingError:
    """The error for versions, `last` included, whose commits the log lost before they were read."""
    named = f"versions {first} to {last}, which were"
    if first == last:
        named = f"version {first}, which was"
    return LandingError(
        f"the Delta table {printable_text(str(table))}",
        f"its log lacks {named} not read yet",
        NOTHING_READ,
        "Put the commits back from a copy, and read the table more often than its log is cleaned "
        f"(delta.logRetentionDuration); or begin with what it holds: first_version = {last + 1} "
        "beside table",
    )


def commit_actions(table: Place, version: int) -> tuple[list[Mapping[str, Any]], str]:
    """The actions of a commit, and the digest of its bytes. Raises LandingError for one that no log
    has."""
    raw, why = bounded_commit(table, _name_in_log(version))
    if why:
        raise log_error(table, version, f"cannot be read: {why}", RESTORE)
    try:
        actions = [json.loads(line) for line in raw.splitlines() if line.strip()]
    except ValueError as error:
        raise log_error(table, version, f"is no JSON ({error})", RESTORE) from None
    for action in actions:
        if not isinstance(action, dict):
            culprit = f"has a line that is no JSON object ({type(action).__name__})"
            raise log_error(table, version, culprit, RESTORE)
    return actions, hashlib.sha256(raw).hexdigest()


def open_at(table: Place, version: int) -> "DeltaTable":
    """The table at a version, whose files delta-rs knows by a checkpoint or by all commits
    before."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if why := log_fault(table, version):
        raise log_error(table, version, f"cannot be read: {why}", RESTORE)
    try:
        return DeltaTable(table.uri(), version=version)
    except (DeltaError, OSError) as error:
        table.refuse_loss(error)
        culprit = (
            "cannot be opened, as by a lost commit before it "
            f"({' '.join(str(error).split())[:200]})"
        )
        raise log_error(table, version, culprit, "Put _delta_log back from a copy") from None


def log_error(table: Place, version: int, culprit: str, advice: str) -> LandingError:
    """The error for a version of a table that cannot be read."""
    return LandingError(
        f"the Delta table {printable_text(str(table))}",
        f"version {version} {culprit}",
        NOTHING_READ,
        advice,
    )
