"""`init` writes a file that the product itself accepts, and says what it saw and what not. Not
here: the guesses (`learn.test_first_source`) and the trial load
(`learn.test_first_lake`)."""

from datetime import date
from pathlib import Path

import pytest

from backfill_assets import LakeSettings
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets.learn.new_lake import TEMPLATE
from backfill_assets_tests.cli.typed import run


@pytest.mark.parametrize("engine", ["embedded", "sail"])
def test_options_reach_the_file_and_the_engine_that_is_used_here(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", engine)
    select = "CAST(a AS bigint) AS seq, 'it\"s' AS op"
    options = ("--start-date", "2024-02-26", "--files", "landing/**/*.jsonl")
    result = run("init", "--lake", tmp_path, "--select", select, *options)
    assert result.exit_code == 0, result.output
    made = load_settings(tmp_path, {})
    assert (made.start_date, made.source.files) == (date(2024, 2, 26), "landing/**/*.jsonl")
    assert made.source.format == "jsonl", "as its glob says"
    assert made.source.select == select
    assert made.spark.engine == engine


def test_an_existing_file_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text("mine")
    result = run("init", "--lake", tmp_path)
    assert result.exit_code == 2
    assert "it exists already. Nothing was written" in result.stderr
    assert (tmp_path / "lake.toml").read_text() == "mine"


ORDERS = (
    "order_id,customer_id,ordered_at,sent_at\n1,a,2024-03-01 "
    "10:00:00,2024-03-02\n2,a,2024-03-02,2024-03-03\n"
)


def landed(lake: Path) -> Path:
    (lake / "landing").mkdir(parents=True)
    (lake / "landing" / "orders-2024-03-03.csv").write_text(ORDERS)
    return lake


@pytest.mark.usefixtures("spark")
def test_files_that_lie_there_decide_the_mapping_and_are_shown_as_deliveries(
    tmp_path: Path,
) -> None:
    result = run("init", "--lake", landed(tmp_path))
    assert result.exit_code == 0, result.output
    assert "2 row(s) of csv in 1 of 1 file(s); the first deliveries:" in result.output
    assert "No row of it would go to quarantine." in result.output
    assert (
        "No column says which of a key's rows is the newest. Name one as version_ts"
        in result.output
    )
    source = load_settings(tmp_path, {}).source
    assert (source.files, source.format) == ("landing/**/*.csv", "csv")
    assert source.select.startswith(
        "CAST(ordered_at AS timestamp) AS event_ts, order_id AS event_key"
    )


def test_every_setting_is_in_the_file() -> None:
    for name, field in LakeSettings.model_fields.items():
        inner = getattr(field.annotation, "model_fields", {field.alias or name: None})
        assert [key for key in inner if key not in TEMPLATE.read_text("utf-8")] == []
