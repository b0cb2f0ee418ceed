"""What needs a person: what the sensors found last and will not mend by themselves, kept in the lake for `status`.

Lives here: keeping it (a file per instance of Dagster and sensor, there only while something is wrong) and reading it.
Does not live here: finding it (`orchestration.ticks`), and sending it (`orchestration.alerts`).
"""

import contextlib
import json
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path

FOLDER = ".attention"


def keep_attention(root: Path, instance: str, sensor: str, alarms: Mapping[str, str]) -> None:
    """Keep what a sensor of an instance found, by name, in the lake at `root`; writes only what is new."""
    path = root / FOLDER / f"{instance} {sensor}.json"
    if not alarms:
        path.unlink(missing_ok=True)
    elif _read(path) != alarms:
        path.parent.mkdir(exist_ok=True)
        aside = path.with_suffix(f".{uuid.uuid4().hex}")
        aside.write_text(json.dumps(dict(alarms)), encoding="utf-8")
        aside.replace(path)


def keep_disagreements(root: Path, table: str, days: Collection[str], found: Mapping[str, str]) -> None:
    """Keep for which of the `days` of a table, just made, two engines gave other rows (`found`), until they are made
    again and agree; what was kept for other days stays."""
    path = root / FOLDER / f"engines {table}.json"
    before = {day: text for day, text in _read(path).items() if day not in days}
    told = {day: f"{table} {day}: {text}; see `backfill-assets show {table} {day}`" for day, text in found.items()}
    if before or told or path.exists():
        keep_attention(root, "engines", table, {**before, **told})


def attention(root: Path) -> list[str]:
    """What needs a person in the lake at `root`, a line each; empty where its sensors found nothing or never ran."""
    found = [_read(path) for path in sorted((root / FOLDER).glob("*.json"))]
    return sorted({line for alarms in found for line in alarms.values()})


def _read(path: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): str(text) for name, text in kept.items()} if isinstance(kept, dict) else {}
    return {}
