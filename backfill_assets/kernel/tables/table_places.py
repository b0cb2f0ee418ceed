"""Where the tables of a lake lie: below its folder, at an address where they were adopted, and of a
candidate's lake.

Here: names of the lake's own folders and files that say so. Not here: what a table is that a lake
does not compute (`assets.declared`), and what snapshots and candidates hold (`candidates`).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backfill_assets.kernel.core.addresses import CANDIDATES
from backfill_assets.kernel.core.digests import is_as_written
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.choice import bucket_prefix_at, place_at
from backfill_assets.kernel.place.port import Place

ASSETS, TABLES = ".assets", "tables"
SNAPSHOTS, SNAPSHOT_FILE = ".snapshots", "snapshot.json"
CANDIDATE_FILE = "candidate.json"
UNFINISHED = "unfinished"  # a key of the file of a folder that does not count
AT = "@"  # in the name of a file: between the name of a table and the parts of its address


def table_at(lake: Place, table: str) -> Place:
    """The place of a table of a lake (no candidate's) as it is now, adopted in a bucket or not; by
    a listing."""
    address = adopted_places(lake.names(ASSETS)).get(table)
    return bucket_prefix_at(address, table) if address else lake.at(f"{TABLES}/{table}")


def adopted_places(names: Iterable[str]) -> dict[str, str]:
    """The addresses of the tables that were adopted in a bucket, by the names of files."""
    parts = (name.split(AT) for name in sorted(names) if AT in name)
    return {table: f"{scheme}://{'/'.join(rest)}" for table, scheme, *rest in parts}


def base_lake_folder(root: Path) -> Path:
    """The lake's folder; for a candidate's folder, the folder of its base lake."""
    return root.parent.parent if candidate_facts(root) else root


def _checked_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a candidate, which name its tables unless it does not count. Raises KeyError,
    TypeError or ValueError for other ones."""
    if UNFINISHED not in facts and not all(isinstance(t, str) for t in [*facts["tables"]]):
        raise TypeError(facts["tables"])
    if not is_as_written(facts):
        raise ValueError(facts)
    return facts


def candidate_facts(root: Path) -> dict[str, Any]:
    """What the lake at `root` says of itself as a candidate; empty for any other lake. Raises
    SettingsError for a candidate that does not count, BackfillError for one whose file is damaged:
    it is no lake of its own."""
    place = place_at(root)
    if root.parent.name != CANDIDATES or not place.exists(CANDIDATE_FILE):
        return {}
    fix = "Restore it from a backup, or discard the candidate: `backfill-assets candidate discard`"
    facts = place.read_record(CANDIDATE_FILE, _checked_facts, fix)
    if UNFINISHED in facts:
        raise SettingsError(
            f"the candidate {root.name}",
            f"it is {facts[UNFINISHED]}, or that was stopped",
            "Nothing was done",
            "See `backfill-assets candidate list`; the next `candidate create` or `discard` "
            "deletes what was left",
        )
    return facts
