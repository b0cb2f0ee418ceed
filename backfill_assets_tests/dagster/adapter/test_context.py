"""A lake as definitions see it: opened with its tables, or shown with what is missing where there
is none yet.

Tested here: `dagster.adapter.context`, and a fresh checkout in the browser, which says what is
missing and waits. Not tested here: what definitions are made of a lake (`test_assemble`), and names
under a prefix there (`dagster.test_definitions`).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.dagster.adapter.assemble import assemble, project_definitions
from backfill_assets.dagster.adapter.context import (
    PLAIN,
    LakeContext,
    Naming,
    Opened,
    table_of_step,
)
from backfill_assets.dagster.adapter.runs import REBUILD
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.learn.example_lakes import days_until, make_sample
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.synthetic import START, build, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
LATER = START + ONE_DAY * 4


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
    assert (moved.of("labels", LATER), context.known().read().of("labels", LATER)) == (
        State.FRESH,
        State.OUTDATED,
    )


@pytest.mark.parametrize(
    "beside", [False, True], ids=["alone", "where assets of a project write beside them"]
)
def test_the_steps_of_a_run_share_one_look_where_nobody_else_writes(
    tmp_path: Path, beside: bool
) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 9)
    *own, last = pipeline.tables
    given = replace(last, contract=replace(last.contract, made_by="project/training"))
    opened = Opened(lake, replace(pipeline, tables=(*own, given)) if beside else pipeline)
    assert opened.known("one").states.of("staging", START) is State.FRESH
    build(lake, pipeline, "staging", {START: 3}, digests={START: "older"})
    assert opened.known("one").states.of("staging", START) is (
        State.STALE if beside else State.FRESH
    )
    assert opened.known("two").states.of("staging", START) is State.STALE


TABLES = {"raw", "staging", "features", "features_as_known", "labels", "training"}
BESIDE = {"quarantine", "too_late", "arrivals"}


@pytest.fixture
def fresh(tmp_path: Path) -> dg.Definitions:
    return project_definitions(tmp_path / "lake", tables)


def test_every_table_says_what_is_missing_and_how_to_make_it(fresh: dg.Definitions) -> None:
    specs = {s.key.path[-1]: s for s in fresh.resolve_all_asset_specs()}
    assert set(specs) == TABLES | BESIDE
    for name, spec in specs.items():
        said = spec.description or ""
        for part in (
            "No lake yet",
            "has no lake.toml",
            "backfill-assets demo",
            "backfill-assets init",
        ):
            assert part in said, name


def test_a_run_without_a_lake_says_so(
    fresh: dg.Definitions, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    job = fresh.resolve_job_def(REBUILD)
    done = job.execute_in_process(
        instance=instance,
        partition_key=_first(fresh),
        asset_selection=[dg.AssetKey("raw")],
        raise_on_error=False,
    )
    (failure,) = [e for e in done.all_events if e.is_step_failure]
    told = failure.step_failure_data.user_failure_data
    assert told is not None
    assert "has no lake.toml" in (told.description or "")
    error = failure.step_failure_data.error
    assert error is not None
    assert error.cause is None, "one line, without the stack of what led to it"
    assert not (tmp_path / "lake").exists()


def _first(definitions: dg.Definitions) -> str:
    days = definitions.resolve_assets_def("raw").partitions_def
    assert days is not None
    first: str = days.get_partition_keys()[0]
    return first


@pytest.mark.parametrize("name", ["landing", "late_data"])
def test_sensors_wait_for_a_lake_in_silence(
    fresh: dg.Definitions, instance: dg.DagsterInstance, name: str
) -> None:
    found: Any = fresh.resolve_sensor_def(name).evaluate_tick(
        dg.build_sensor_context(instance=instance)
    )
    assert "has no lake.toml" in found.skip_message
    assert not found.run_requests


def test_the_sample_that_was_shown_is_the_one_that_demo_makes(
    fresh: dg.Definitions, tmp_path: Path
) -> None:
    make_sample(tmp_path / "lake", days_until(utc_today()))
    assert str(open_lake(tmp_path / "lake").settings.start_date) == _first(fresh)
    later = project_definitions(tmp_path / "lake", tables)
    assert all("No lake yet" not in (s.description or "") for s in later.resolve_all_asset_specs())


def test_bad_settings_are_still_an_error_and_so_is_a_missing_lake_on_the_command_line(
    tmp_path: Path,
) -> None:
    with pytest.raises(SettingsError, match=r"has no lake\.toml"):
        assemble(tmp_path, tables)
    (tmp_path / "lake.toml").write_text("start_date = ?")
    with pytest.raises(SettingsError, match="not TOML"):
        project_definitions(tmp_path, tables)


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
PARTS = NAMES.filter(
    lambda part: not part.startswith("make_") and "__" not in part and not part.endswith("_")
)


@given(st.lists(PARTS, max_size=3), NAMES)
def test_a_table_comes_back_from_its_key_and_from_its_step(prefix: list[str], table: str) -> None:
    naming = Naming.below(prefix)
    assert naming.table_of(naming.key(table)) == table
    assert table_of_step(naming.step(table)) == table
    assert naming.output(table) == naming.key(table).to_python_identifier()


@pytest.mark.parametrize(
    ("naming", "key", "job", "step", "page"),
    [
        (PLAIN, ["raw"], "rebuild", "make_raw", "../assets/raw"),
        (
            Naming.below(["eu", "shop"]),
            ["eu", "shop", "raw"],
            "eu__shop__rebuild",
            "eu__shop__make_raw",
            "../assets/eu/shop/raw",
        ),
        (
            Naming.below("shop"),
            ["shop", "raw"],
            "shop__rebuild",
            "shop__make_raw",
            "../assets/shop/raw",
        ),
        (Naming.below(()), ["raw"], "lake__rebuild", "lake__make_raw", "../assets/raw"),
    ],
    ids=["a lake that is alone", "two parts", "one part", "no prefix, beside other definitions"],
)
def test_a_prefix_leads_keys_pages_and_all_other_names_also_in_commands_that_the_project_starts(
    naming: Naming, key: list[str], job: str, step: str, page: str
) -> None:
    assert (naming.key("raw"), naming.name("rebuild")) == (dg.AssetKey(key), job)
    assert (naming.step("raw"), naming.page("raw")) == (step, page)
    assert Naming.named_by(naming.environ) == naming


def test_a_key_of_another_lake_or_of_the_project_and_a_step_of_no_table_name_none() -> None:
    shop = Naming.below("shop")
    for path in (["raw"], ["eu", "raw"], ["eu", "shop", "raw"], ["shop", "eu", "raw"]):
        assert shop.table_of(dg.AssetKey(path)) is None
    assert PLAIN.table_of(dg.AssetKey(["shop", "raw"])) is None
    assert table_of_step("features_no_stale_days") is table_of_step("shop__take_stock") is None


def test_a_variable_that_is_no_prefix_is_refused_by_its_name() -> None:
    with pytest.raises(
        SettingsError, match=r"BACKFILL_ASSETS_KEY_PREFIX.*'a b' is no part of a name"
    ):
        Naming.named_by({"BACKFILL_ASSETS_KEY_PREFIX": "shop/a b"})


@pytest.mark.parametrize("part", ["", "a b", "a/b", "make_it", "a-b", "ü"])
def test_a_part_of_a_prefix_that_no_name_can_have_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="key_prefix: "):
        Naming.below(["shop", part])
