"""What waits for a person: alarms that sensors left in small files of the lake, and what rooms find
by themselves.

Not here: sensors (`dagster.adapter`), what a room finds (its `standing`), and what receipts answer:
stale days and gates. Imports no engine: `status` reads it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from backfill_assets.kernel.core.rooms import installed_rooms, resolve_reference
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline

ATTENTION_FOLDER = ".attention"


def keep_alarms(root: Path, instance: str, sensor: str, alarms: Mapping[str, str]) -> None:
    """Keep the alarms (name: text) of a sensor in the lake at `root`; without alarms, remove its
    file."""
    lake, name = place_at(root), f"{ATTENTION_FOLDER}/{instance} {sensor}.json"
    if not alarms:
        lake.delete(name)
    elif lake.read_json(name) != alarms:
        lake.write_json(name, alarms)


def sensor_alarms(root: Path) -> list[str]:
    """Return the alarms that sensors keep in the lake at `root`, a line each."""
    lake = place_at(root)
    names = (n for n in lake.names(ATTENTION_FOLDER) if n.endswith(".json"))
    found = [lake.read_json(f"{ATTENTION_FOLDER}/{name}") for name in sorted(names)]
    return sorted({*(line for alarms in found for line in map(str, alarms.values()))})


def lines_for_a_person(lake: Lake, pipeline: Pipeline) -> Iterator[str]:
    """Yield a line per alarm of a sensor, and per finding of a room (`Room.standing`), such as a
    day that no proof could confirm or a broken control."""
    yield from sensor_alarms(lake.root)
    for room in installed_rooms():
        for finds in room.standing:
            yield from resolve_reference(finds)(lake, pipeline)
