"""The settings of a lake: what parses, what overrides what, and that every refusal names its file
or variable. Not here: what a setting does to a table (each beside its rule)."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

import backfill_assets
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.rooms import installed_rooms, resolve_reference
from backfill_assets.kernel.tables.sections import Section
from backfill_assets.kernel.tables.settings import (
    ENV_PREFIX,
    FILE_NAME,
    LakeSettings,
    lake_model,
    load_settings,
    model_with,
)
from backfill_assets_tests.processes import run_python

NEEDED = (
    'start_date = 2013-10-01\n{top}\n[source]\nfiles = "*.csv"\nformat = "csv"\nselect = '
    '"seq"\n{rest}\n'
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path


def _load(lake: Path, top: str = "", rest: str = "", **environ: str) -> LakeSettings:
    (lake / FILE_NAME).write_text(NEEDED.format(top=top, rest=rest), encoding="utf-8")
    return load_settings(lake, {ENV_PREFIX + name: value for name, value in environ.items()})


def _refusal(lake: Path, top: str = "", rest: str = "", **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        _load(lake, top, rest, **environ)
    assert caught.value.object == str(lake / FILE_NAME)
    return caught.value.culprit


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("2014-06-01T12:30:00Z", datetime(2014, 6, 1, 12, 30, tzinfo=UTC)),
        ("2014-06-01 12:30:00.000001", datetime(2014, 6, 1, 12, 30, 0, 1, tzinfo=UTC)),
        ("2014-06-01T02:00:00+02:00", datetime(2014, 6, 1, tzinfo=UTC)),
        ("2014-06-01", datetime(2014, 6, 1, tzinfo=UTC)),
        ('"2014-06-01T12:30:00"', datetime(2014, 6, 1, 12, 30, tzinfo=UTC)),
    ],
)
def test_as_of_is_an_instant_in_utc_and_naive_means_utc(
    lake: Path, written: str, instant: datetime
) -> None:
    found = _load(lake, f"as_of = {written}").as_of
    assert found == instant
    assert found is not None
    assert found.utcoffset() == timedelta()


BAD = {
    "a day that is none": ("start_date", "", "", {"START_DATE": "2013-02-30"}),
    "a start as a number": ("start_date", "", "", {"START_DATE": "20131001"}),
    "as_of as a word": ("as_of", 'as_of = "yesterday"', "", {}),
    "as_of as a yes": ("as_of", "as_of = true", "", {}),
    "an unknown format": ("source.format", "", "", {"SOURCE__FORMAT": "orc"}),
    "three windows": ("features.windows_days", "", "[features]\nwindows_days = [1, 2, 3]", {}),
    "a window of centuries": (
        "features.windows_days.1",
        "",
        "[features]\nwindows_days = [7, 36500]",
        {},
    ),
    "windows in the wrong order": ("windows_days", "", "[features]\nwindows_days = [28, 7]", {}),
    "half a day": ("labels.maturity_days", "", "[labels]\nmaturity_days = 0.5", {}),
    "a change that is no number": (
        "max_relative_change",
        "",
        "[gates.tables.raw]\nmax_relative_change = nan",
        {},
    ),
    "an unknown emptiness": (
        "gates.tables.raw.empty",
        "",
        '[gates.tables.raw]\nempty = "maybe"',
        {},
    ),
    "an unknown engine": ("spark.engine", "", '[spark]\nengine = "mesos://h"', {}),
    "memory without a unit": ("spark.memory", "", '[spark]\nmemory = "2048"', {}),
    "memory as a number": ("spark.memory", "", "", {"SPARK__MEMORY": "2048"}),
    "a conf that is no text": ("spark.confs", "", "[spark.confs]\n'spark.x' = 4", {}),
    "an unknown key": ("colour", 'colour = "blue"', "", {}),
    "an unknown key in a section": (
        "features.window_days",
        "",
        "[features]\nwindow_days = [7, 28]",
        {},
    ),
    "an unknown section": ("feature", "", "[feature]\nwindows_days = [7, 28]", {}),
}


@pytest.mark.parametrize(("key", "top", "rest", "environ"), BAD.values(), ids=BAD.keys())
def test_a_bad_value_is_refused_by_its_key_and_its_file_or_variable(
    lake: Path, key: str, top: str, rest: str, environ: dict[str, str]
) -> None:
    culprit = _refusal(lake, top, rest, **environ)
    assert key in culprit
    for variable in environ:
        assert f"(from ${ENV_PREFIX}{variable})" in culprit
    assert environ or "from $" not in culprit


@pytest.mark.whole_house  # the room `plans` has the section
def test_a_section_of_before_is_refused_with_what_takes_its_place(lake: Path) -> None:
    culprit = _refusal(lake, "", '[plan]\nwindow = "22:00-06:00"')
    assert "take it out, and start plans by cron" in culprit


def test_a_variable_below_a_value_is_refused_by_its_name(lake: Path) -> None:
    assert f"${ENV_PREFIX}SOURCE__FORMAT" in _refusal(lake, SOURCE="7", SOURCE__FORMAT="csv")


def test_variables_are_read_as_toml_reads_values_else_as_text(lake: Path) -> None:
    found = _load(
        lake,
        FEATURES__WINDOWS_DAYS="[3, 9]",
        START_DATE="2014-01-02",
        AS_OF="2014-02-01T06:00:00",
        SPARK__ENGINE="local[2]",
        GATES__TABLES__RAW__MIN_ROWS="5",
        SOURCE__FILES='"quoted *.csv"',
    )
    assert (found.features.windows_days, found.start_date) == ((3, 9), date(2014, 1, 2))
    assert found.as_of == datetime(2014, 2, 1, 6, tzinfo=UTC)
    assert (found.spark.engine, found.gates.tables["raw"].min_rows) == ("local[2]", 5)
    assert found.source.files == "quoted *.csv"


@pytest.mark.usefixtures("processes")
def test_the_process_environment_counts_when_none_is_given_but_its_time_zone_never(
    lake: Path,
) -> None:
    _load(lake, "as_of = 2014-06-01T12:30:00")
    code = """
        import pathlib, sys
        from backfill_assets.kernel.tables.settings import load_settings
        found = load_settings(pathlib.Path(sys.argv[1]))
        print(found.spark.memory, found.as_of.isoformat())
    """
    told = run_python(
        code, lake, env={f"{ENV_PREFIX}SPARK__MEMORY": "3g", "TZ": "Pacific/Kiritimati"}
    )
    assert told.split() == ["3g", "2014-06-01T12:30:00+00:00"]


@pytest.mark.parametrize("content", [b"start_date = ", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_named(lake: Path, content: bytes) -> None:
    (lake / FILE_NAME).write_bytes(content)
    with pytest.raises(SettingsError, match="it is not TOML") as caught:
        load_settings(lake, {})
    assert caught.value.object == str(lake / FILE_NAME)


def test_the_settings_that_users_import_have_the_sections_of_every_room() -> None:
    assert {backfill_assets.LakeSettings} == {lake_model()}
    of_rooms = [resolve_reference(room.settings) for room in installed_rooms() if room.settings]
    assert all(issubclass(lake_model(), model) for model in (LakeSettings, *of_rooms))


def test_a_section_is_of_one_room_or_of_the_kernel_whose_keys_stay() -> None:
    """A room that adds keys to a section of the kernel adds them to its model."""
    of_rooms = [resolve_reference(room.settings) for room in installed_rooms() if room.settings]
    added = [(name, field) for model in of_rooms for name, field in model.model_fields.items()]
    known = LakeSettings(start_date=date(2024, 3, 1), assets_only=True)
    for name, field in added:
        ours = getattr(known, name, None)
        assert not isinstance(ours, Section) or issubclass(field.annotation, type(ours))
    names = [name for name, _ in added]
    assert len(names) == len({*names})


@pytest.mark.whole_house
def test_a_section_goes_with_its_room() -> None:
    body = {"start_date": "2024-03-01", "assets_only": True, "proof": {"hour": 5}}
    assert "proof" in lake_model().model_validate(body).model_fields_set
    without = model_with(room for room in installed_rooms() if room.name != "compare")
    with pytest.raises(ValidationError, match="proof") as caught:
        without.model_validate(body)
    assert [error["type"] for error in caught.value.errors()] == ["extra_forbidden"]
