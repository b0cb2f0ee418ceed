"""What Dagster is told: metadata of assets and of every written day. Few names, Dagster's own where they exist.

Lives here: names and values. Does not live here: when they are recorded. Each entry of each day costs storage and
time (an event is 8 to 10 ms), so what a receipt already says is not repeated beyond what a person looks for.
"""

from typing import Any

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.lake.home import Lake
from backfill_assets.lake.replace import Published
from backfill_assets.orchestration.work import Job

PREFIX = "backfill_assets/"


def asset_metadata(lake: Lake, contract: Contract) -> dict[str, Any]:
    """The asset's own metadata: column schema, address and name of its table."""
    columns = [
        dg.TableColumn(
            c.name, c.type, c.description,
            constraints=dg.TableColumnConstraints(nullable=c.nullable, unique=contract.key == (c.name,)),
            tags=dict(c.tags),
        )
        for c in contract.columns
    ]  # fmt: skip
    return {
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "dagster/uri": lake.table_path(contract.name).as_uri(),
        "dagster/table_name": contract.name,
    }


def day_metadata(job: Job, published: Published) -> dict[str, dict[str, Any]]:
    """Per partition key: rows, fingerprint, what the write did, and for raw the account of every file."""
    candidate = job.ready
    return {str(day): _one_day(job, published, day) for day in candidate.chunk}


def _one_day(job: Job, published: Published, day: Any) -> dict[str, Any]:
    candidate = job.ready
    entry, found = candidate.entries[day], candidate.profiles[day]
    said: dict[str, Any] = {
        "dagster/partition_row_count": entry.rows,
        PREFIX + "fingerprint": entry.fingerprint,
        PREFIX + "input_digest": entry.input_digest,
        PREFIX + "state": entry.built.value,
        PREFIX + "unchanged": day not in published.changed,
        PREFIX + "version": published.version,
    }
    if published.write_id and (day in published.changed or day in published.receipted):
        said[PREFIX + "write_id"] = published.write_id
    nulls = {c: n for c, n in found.nulls.items() if found.rows}
    for column, count in nulls.items():
        said[f"{PREFIX}null_share_{column}"] = round(count / found.rows, 6)
    if files := candidate.accounts.get(day, {}).get("files"):
        said[PREFIX + "files"] = dg.MetadataValue.json(dict(files))
        for outcome in ("quarantine", "duplicate", "too late"):
            said[f"{PREFIX}{outcome.replace(' ', '_')}_rows"] = sum(f.get(outcome, 0) for f in files.values())
    for name, number in candidate.accounts.get(day, {}).get("facts", {}).items():
        said[PREFIX + name] = round(number, 6)
    return said
