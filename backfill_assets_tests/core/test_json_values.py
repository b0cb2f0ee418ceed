"""Records as JSON values: what `--json` and `to_dict` write. Not tested here: the keys of each report."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from backfill_assets.core.json_values import json_of
from backfill_assets.core.states import State


@dataclass(frozen=True)
class Inner:
    day: date
    state: State


@dataclass(frozen=True)
class Outer:
    at: datetime
    rows: int | None
    inner: tuple[Inner, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"outer": json_of(vars(self))}


def test_records_become_objects_of_plain_values() -> None:
    day = date(2024, 3, 1)
    outer = Outer(datetime(2024, 3, 1, 2, tzinfo=UTC), None, (Inner(day, State.STALE),))
    found = json_of({day: outer, "names": {"a"}, "text": "as it is"})
    assert found == {
        "2024-03-01": {
            "outer": {
                "at": "2024-03-01T02:00:00+00:00",
                "rows": None,
                "inner": [{"day": "2024-03-01", "state": "stale"}],
            }
        },
        "names": ["a"],
        "text": "as it is",
    }
    assert json.loads(json.dumps(found)) == found
