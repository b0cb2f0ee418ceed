"""`init` writes a file that the product itself accepts, and says what it saw and what not.

Tested here: the command. Not tested here: the guesses (`operations.test_first_source`) and the trial load
(`operations.test_first_lake`).
"""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets.lake.sections import SourceSettings
from backfill_assets.lake.settings import TEMPLATE, LakeSettings, load_settings
from backfill_assets_tests.cli.typed import run


def test_the_file_without_options_says_every_default(tmp_path: Path) -> None:
    result = run("init", "--lake", tmp_path / "new")
    assert result.exit_code == 0, result.output
    source = SourceSettings(files="landing/**/*.parquet", format="parquet", select=load_select(tmp_path / "new"))
    first = datetime.now(UTC).date().replace(month=1, day=1)
    assert "No file was found (landing/" in result.output
    assert load_settings(tmp_path / "new", {}) == LakeSettings(start_date=first, source=source)


def load_select(lake: Path) -> str:
    return load_settings(lake, {}).source.select


def test_options_reach_the_file(tmp_path: Path) -> None:
    select = "CAST(a AS bigint) AS seq, 'it\"s' AS op"
    options = ("--start-date", "2024-02-26", "--files", "landing/**/*.jsonl", "--windows-days", "3", "9")
    result = run("init", "--lake", tmp_path, "--select", select, *options)
    assert result.exit_code == 0, result.output
    made = load_settings(tmp_path, {})
    assert (made.start_date, made.source.files) == (date(2024, 2, 26), "landing/**/*.jsonl")
    assert made.source.format == "jsonl", "as its glob says"
    assert (made.source.select, made.features.windows_days) == (select, (3, 9))


def test_an_existing_file_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text("mine")
    result = run("init", "--lake", tmp_path)
    assert result.exit_code == 2
    assert "it exists already. Nothing was written" in result.stderr
    assert (tmp_path / "lake.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--windows-days", "9", "3"], "the short window comes first"),
        (["--select", "now() AS seq"], "not decided by the row"),
        (["--files", "landing/{a,b}.csv"], "braces are no wildcard"),
        (["--memory", "much"], "spark.memory"),
        (["--key", "nr"], "it has no column nr for event_key"),
        (["--source", "orders"], "--source orders names no glob"),
        (["--source", "orders=in/*.csv", "--files", "*"], "--source names globs of its own"),
        (["--source", "orders=in/*.csv"], "--source orders: no file lies there. No lake.toml was written"),
    ],
)
def test_what_would_not_be_accepted_is_not_written(tmp_path: Path, options: list[str], told: str) -> None:
    result = run("init", "--lake", landed(tmp_path), *options)
    assert (result.exit_code, told in " ".join(result.stderr.split())) == (2, True), result.stderr
    assert not (tmp_path / "lake.toml").exists()


ORDERS = "order_id,customer_id,ordered_at,sent_at\n1,a,2024-03-01 10:00:00,2024-03-02\n2,a,2024-03-02,2024-03-03\n"


def landed(lake: Path) -> Path:
    (lake / "landing").mkdir(parents=True)
    (lake / "landing" / "orders-2024-03-03.csv").write_text(ORDERS)
    return lake


@pytest.mark.usefixtures("spark")
def test_files_that_lie_there_decide_the_mapping_and_are_shown_as_deliveries(tmp_path: Path) -> None:
    result = run("init", "--lake", landed(tmp_path))
    assert result.exit_code == 0, result.output
    assert "2 row(s) of csv in 1 of 1 file(s); the first deliveries:" in result.output
    assert "No row of it would go to quarantine." in result.output
    assert "No column says which of a key's rows is the newest. Name one as version_ts" in result.output
    source = load_settings(tmp_path, {}).source
    assert (source.files, source.format) == ("landing/**/*.csv", "csv")
    assert source.select.startswith("CAST(ordered_at AS timestamp) AS event_ts, order_id AS event_key")


@pytest.mark.usefixtures("spark")
def test_json_that_is_nested_is_named_with_what_takes_a_value_out_and_booleans_are_booleans(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    rows = (
        {"id": f"c{n}", "changed_at": "2024-03-03T09:00:00Z", "vip": n > 1, "at": {"city": "Bonn"}} for n in range(3)
    )
    (tmp_path / "landing" / "people-2024-03-03.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run("init", "--lake", tmp_path)
    assert (
        "Nested JSON is text here (at). Write e.g. get_json_object(`at`, '$.NAME') AS NAME in select" in result.output
    )
    source = load_settings(tmp_path, {}).source
    assert source.payload == {"vip": "BOOLEAN", "at": "STRING", "id": "STRING"}
    times = "CAST(changed_at AS timestamp) AS version_ts, CAST(changed_at AS timestamp) AS event_ts"
    assert source.select == f"{times}, id AS event_key, vip, `at`, id", "the only time is that of the event, too"


@pytest.mark.usefixtures("spark")
def test_a_person_is_asked_for_what_no_option_names(tmp_path: Path) -> None:
    answers = "landing/**/*.csv\n\nsent_at\n-\n\n"  # files, key, event time, arrival, entity
    result = CliRunner().invoke(app, ["init", "--ask", "--lake", str(landed(tmp_path))], input=answers)
    assert result.exit_code == 0, result.output
    assert "has the columns order_id, customer_id, ordered_at, sent_at" in result.output
    assert "CAST(sent_at AS timestamp) AS event_ts" in load_select(tmp_path)


@pytest.mark.usefixtures("spark")
def test_names_of_columns_and_files_are_shown_without_their_signs(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "o\u202e.csv").write_text("id,at,a\x9bb\n1,2024-03-01T10:00:00Z,7\n")
    answers = "landing/**/*.csv\n\n\n\n\n"
    result = CliRunner().invoke(app, ["init", "--ask", "--lake", str(tmp_path)], input=answers)
    assert result.exit_code == 0, result.output
    assert "o\\u202e.csv has the columns id, at, a\\x9bb." in result.output
    assert not {"\u202e", "\x9b"} & {*result.output}


def test_every_setting_is_in_the_file() -> None:
    for name, field in LakeSettings.model_fields.items():
        inner = getattr(field.annotation, "model_fields", {field.alias or name: None})
        assert [key for key in inner if key not in TEMPLATE.read_text("utf-8")] == []
