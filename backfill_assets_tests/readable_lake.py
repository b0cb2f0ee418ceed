"""A lake with rows in `staging` that no engine wrote: what the reader's tests and those of
snapshots read. Here: rows of three days in two versions, the second with another second day. Not
here: any assertion. The receipts are made by hand, so that every day is stale; readers say
`unfit="take"`, or are to refuse."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.reader import LakeReader
from backfill_assets_tests.copies import keep
from backfill_assets_tests.files import bare_lake, publish_by_hand

FIRST = date(2024, 3, 1)
TABLE = "staging"


def version_of_event(day: int, key: str, value: int, entity: str | None = "A") -> dict[str, Any]:
    """A current version of an event at noon of a day."""
    then = datetime(2024, 3, 1 + day, 12, tzinfo=UTC)
    return {
        "event_key": key,
        "event_ts": then,
        "entity": entity,
        "value": value,
        "flag": 0,
        "version_ts": then,
        "seq": value,
        "known_from": then + timedelta(hours=1),
        "known_until": None,
        "event_date": then.date(),
    }


OLD = [version_of_event(0, "b", 2), version_of_event(0, "a", 1), version_of_event(1, "c", 3, None)]
NEW = [version_of_event(1, "c", 30), version_of_event(1, "d", 1 << 60)]


def readable_lake(root: Path) -> LakeReader:
    """The lake: OLD is version 1 of `staging`, NEW version 2."""
    keep(_make).lay_out(root)
    return _opened(root)


def _make(root: Path) -> None:
    reader = _opened(root)
    for n, rows in enumerate((OLD, NEW)):
        write(reader, rows, f"digest {n}")


def _opened(root: Path) -> LakeReader:
    lake = bare_lake(root)
    return LakeReader(lake, chosen_pipeline(lake))


def write(reader: LakeReader, rows: Sequence[dict[str, Any]], digest: str) -> None:
    """One more version of `staging`."""
    publish_by_hand(reader.lake, reader.pipeline.table(TABLE).contract, list(rows), digest=digest)
