"""Alarms of sensors that need a person, kept in the lake for `status` while they last.

Not here: finding them (`orchestration.ticks`) and sending them (`orchestration.alerts`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from backfill_assets.core.days import contiguous
from backfill_assets.core.view import LakeView
from backfill_assets.lake.files import read_json, write_json

FOLDER = ".attention"
BEFORE = "engines "  # files of version 0.2.0 about disagreements, which receipts tell since


def keep_attention(root: Path, instance: str, sensor: str, alarms: Mapping[str, str]) -> None:
    """Keep the alarms (name: text) of a sensor in the lake at `root`; without alarms, remove its file."""
    path = root / FOLDER / f"{instance} {sensor}.json"
    if not alarms:
        path.unlink(missing_ok=True)
    elif read_json(path) != alarms:
        write_json(path, alarms)


def unlike_days(view: LakeView) -> Iterator[tuple[str, str]]:
    """Yield (table, line) for tables with days whose newest receipt has other rows than the same inputs, code and
    settings gave before."""
    for name, table in view.tables.items():
        days = [d for d, stamp in table.stamps.items() if stamp.unlike]
        if days:
            spans = ", ".join(map(str, contiguous(days)))
            yield (
                name,
                f"{name} {spans}: made again from the same inputs, code and settings, the rows are others; see "
                f"`backfill-assets compare --table {name}` and `backfill-assets audit --table {name}`, mend what the "
                "transform reads beside its inputs, then make these days again with --force",
            )


def attention(root: Path) -> list[str]:
    """Return the alarms of the lake at `root`, a line each; empty where its sensors found nothing or never ran."""
    found = [read_json(path) for path in sorted((root / FOLDER).glob("*.json")) if not path.name.startswith(BEFORE)]
    return sorted({line for alarms in found for line in map(str, alarms.values())})
