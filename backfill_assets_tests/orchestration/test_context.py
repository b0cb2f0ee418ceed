"""A lake as definitions see it: opened with its tables, or shown with what is missing where there is none yet.

Tested here: `orchestration.context`. Not tested here: what definitions are made of it (`test_assemble`).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.states import State
from backfill_assets.lake.home import open_lake
from backfill_assets.lake.model import make_pipeline
from backfill_assets.orchestration.context import LakeContext, Opened
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.operations.synthetic import START, build, synthetic_lake
from backfill_assets_tests.orchestration.ticking import empty_lake

LATER = START + ONE_DAY * 4


def test_settings_that_changed_count_from_the_next_opening_on(tmp_path: Path) -> None:
    lake, _ = empty_lake(tmp_path / "lake")
    context = LakeContext(lake.root, tables)
    before = context.open()[0].settings.labels.horizon_days
    path = lake.root / "lake.toml"
    path.write_text(path.read_text().replace(f"horizon_days = {before}", f"horizon_days = {before + 1}"))
    again, pipeline = context.open()
    assert again.settings.labels.horizon_days == before + 1
    assert [t.name for t in pipeline.tables] == [t.name for t in tables(again.settings)]


def test_what_is_missing_stands_before_every_description_and_ends_every_run(tmp_path: Path) -> None:
    lake, pipeline = empty_lake(tmp_path / "lake")
    missing = SettingsError("the lake", "is not there", "Nothing was read", "Run `backfill-assets init`")
    shown = Opened(lake, pipeline, missing)
    assert shown.described("Raw rows.").startswith("**No lake yet.** the lake: is not there")
    assert shown.described("Raw rows.").endswith("\n\nRaw rows.")
    with pytest.raises(SettingsError, match="is not there"):
        shown.require()


def test_a_lake_that_is_there_is_described_as_it_is(tmp_path: Path) -> None:
    lake, _ = empty_lake(tmp_path / "lake")
    opened = Opened(open_lake(lake.root), make_pipeline(tables(lake.settings)))
    assert opened.described("Raw rows.") == "Raw rows."
    assert opened.require() == (opened.lake, opened.pipeline)


def test_ticks_share_what_they_judged_until_a_log_or_a_setting_moves(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 9)
    context = LakeContext(lake.root, tables)
    first = context.known().read()
    assert context.known().read() is first
    build(lake, pipeline, "staging", {START: 3}, digests={START: "older"})
    moved = context.known().read()
    assert (first.of("staging", START), moved.of("staging", START)) == (State.FRESH, State.STALE)
    path = lake.root / "lake.toml"
    path.write_text(path.read_text().replace("horizon_days = 2", "horizon_days = 3"))
    assert (moved.of("labels", LATER), context.known().read().of("labels", LATER)) == (State.FRESH, State.OUTDATED)


def test_the_steps_of_a_run_share_one_look_and_the_next_run_looks_again(tmp_path: Path) -> None:
    opened = Opened(*synthetic_lake(tmp_path / "lake", 9))
    before = opened.known("one").states
    build(opened.lake, opened.pipeline, "staging", {START: 3}, digests={START: "older"})
    assert opened.known("one").states is before
    assert (before.of("staging", START), opened.known("two").states.of("staging", START)) == (State.FRESH, State.STALE)


def test_where_assets_of_a_project_write_beside_the_steps_each_looks_again(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 9)
    *own, last = pipeline.tables
    given = replace(last, contract=replace(last.contract, made_by="project/training"))
    opened = Opened(lake, replace(pipeline, tables=(*own, given)))
    assert opened.known("one").states.of("staging", START) is State.FRESH
    build(lake, pipeline, "staging", {START: 3}, digests={START: "older"})
    assert opened.known("one").states.of("staging", START) is State.STALE
