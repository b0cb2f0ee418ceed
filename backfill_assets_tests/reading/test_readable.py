"""Tables that cannot be looked at are told apart with what is made from them, and all others are
left. Not here: what breaks a log, and the commands that go on (`test_hostile_logs.py`)."""

from pathlib import Path

from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reading.readable import readable_tables
from backfill_assets_tests.foreign.test_hostile_logs import World


def test_only_tables_of_others_and_what_is_made_from_them_are_told_apart(tmp_path: Path) -> None:
    world = World(tmp_path)
    lake = world.external()
    pipeline = chosen_pipeline(lake)
    assert readable_tables(lake, pipeline) == (pipeline, {})
    log = lake.store.lake.table_place("orders").prepared("_delta_log")
    (log / f"{0:020d}.json").write_text("{")
    known, unread = readable_tables(lake, pipeline)
    assert [table.name for table in known.tables] == ["good"]
    assert [*unread] == ["orders"]
