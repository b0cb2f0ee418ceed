"""A lake made by `init` from the files that lie there loads exactly what `init` showed, and refuses
what it refused.

Not here: the guess itself (`learn.test_first_source`).
"""

from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.learn.first_lake import (
    Preview,
    guessed_sources,
    guessed_toml,
    landed_form,
    trial_load,
)
from backfill_assets.pipeline.tables import delivered
from backfill_assets_tests.end_to_end.worlds import World
from backfill_assets_tests.learn.test_first_source import ORDERS

pytestmark = [pytest.mark.users_do, pytest.mark.usefixtures("spark")]
CLICKS = """{"id": "a", "user_id": 7, "event_ts": "2024-03-01T10:00:00Z", "received_at": "2024-03-01T10:00:05Z", "n": 1}
{"id": "b", "user_id": 7, "event_ts": "2024-03-01", "received_at": "2024-03-02T10:00:05Z", "n": 2}
{"id": " ", "user_id": 8, "event_ts": "2024-03-01T10:00:00Z", "received_at": "2024-03-01T10:00:05Z", "n": 3}
{"id": "c", "user_id": 8, "event_ts": "2024-03-01T10:00:00Z"
"""
CHANGES = "Op,ts,id,brand,created\n" + "".join(
    f"{op},2024-03-01 10:47:53,{key},{brand},2024-03-01 08:00:00\n"
    for op, key, brand in [("I", "k1", 1), ("D", "k1", 1), ("I", "k2", 1), ("U", "k2", 2)]
)


def proposed(lake: Path, name: str, text: str) -> Preview:
    """The preview of a lake that `init` makes of this file."""
    (lake / "landing" / name).parent.mkdir(parents=True)
    (lake / "landing" / name).write_text(text)
    seen = landed_form(lake, None, None)
    assert seen is not None
    landed = {"": seen}
    guesses = guessed_sources(landed, {})
    toml = guessed_toml(guesses, landed, {})
    preview = trial_load(lake, toml, guesses)[""]
    (lake / "lake.toml").write_text(toml)
    return preview


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("orders-2024-03-02.csv", ORDERS),
        ("clicks.jsonl", CLICKS),
        ("dt=2024-03-01/20240301-104753123.csv", CHANGES),
    ],
)
def test_what_the_preview_shows_and_refuses_is_what_is_loaded(
    tmp_path: Path, name: str, text: str
) -> None:
    lake = tmp_path / "lake"
    preview = proposed(lake, name, text)
    world = World(lake, delivered)
    world.backfill(DayRange(date(2024, 3, 1), date(2024, 3, 3)))
    raw = world.content("raw")
    assert len(raw) == preview.rows - sum(preview.refused.values())
    assert {row[0] for row in preview.deliveries} <= {r["event_key"] for r in raw}
    refused = Counter(r["reason"] for r in world.content("quarantine"))
    assert refused == preview.refused
