"""A lake of text files in dialects: loaded, read again under another one, and without the rows of a
forgotten name. Not here: parsing (`intake.test_dialect`)."""

import tomllib
from datetime import date
from pathlib import Path

import pytest

from backfill_assets import LakeSettings
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.erasure.landed_files import erase_landed_rows
from backfill_assets.erasure.traces import Search, Trace
from backfill_assets.intake.counting import stored_contents
from backfill_assets.intake.files import LandingError
from backfill_assets.intake.forgotten import begin_erasure
from backfill_assets.intake.landed_changes import counting_digest
from backfill_assets.intake.ledger import read_files
from backfill_assets.intake.scan import scan_source
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.pipeline.daily.raw import raw
from backfill_assets_tests.lakes import backfill, content, land_bytes

START = date(2024, 3, 1)
SETTINGS = """start_date = 2024-03-01
[source]
files = "landing/**/*.csv"
format = "csv"
select = "id AS event_key, CAST(at AS timestamp) AS event_ts, who, total"
payload = {{ who = "STRING", total = "DECIMAL(18,3)" }}
{dialect}
[features]
entity = ["who"]
columns = [{{ name = "events_7d", agg = "count", days = 7 }}]
[labels]
label = "count_ahead() > 0"
[spark]
memory = "2g"
"""
ROWS = """id;at;who;total
1;2024-03-01 10:00:00;zoë;1.234,5
2;2024-03-01 11:00:00;bob;1.234
3;2024-03-01 12:00:00;eve;1.2345
"""
GERMAN = (
    'dialect = {{ separator = ";", encoding = "{}", numbers = ["total"], decimal = ",", thousands '
    '= "." }}'
)


def made(folder: Path, dialect: str, data: bytes) -> Lake:
    land_bytes(folder / "landing", "dt=2024-03-01/a.csv", data)
    (folder / "lake.toml").write_text(SETTINGS.format(dialect=dialect))
    return open_lake(folder)


def totals(lake: Lake) -> dict[str, str]:
    return {str(row[4]): str(row[7]) for row in content(lake, "raw")}


def test_another_dialect_reads_loaded_files_again_and_their_days_follow(
    spark: object, tmp_path: Path
) -> None:
    lake = made(tmp_path, 'dialect = { separator = ";" }', ROWS.encode())
    backfill(lake, START, START, tables=["raw"])
    assert totals(lake) == {"2": "1.234"}, "what the wrong dialect makes of it, to be corrected"
    lake = made(tmp_path, GERMAN.format("utf-8"), ROWS.encode())
    backfill(lake, START, START, tables=["raw"])
    assert totals(lake) == {"1": "1234.500", "2": "1234.000"}
    ((*_, reason),) = [
        [c for c in row if "no number" in str(c)] for row in content(lake, "quarantine")
    ]
    assert (
        reason == "total is '1.2345', which is no number with ',' before its fraction, '.' between "
        "thousands"
    )
    assert scan_source(LakeSession(lake)).is_clean


def test_a_dialect_that_cannot_be_applied_any_more_loses_no_copy(
    spark: object, tmp_path: Path
) -> None:
    lake = made(tmp_path, GERMAN.format("utf-8"), ROWS.encode())
    scan_source(LakeSession(lake))
    (tmp_path / "landing" / "dt=2024-03-01" / "a.csv").unlink()
    other = tmp_path / "lake.toml"
    other.write_text(SETTINGS.format(dialect='dialect = { separator = ";" }'))
    with pytest.raises(LandingError, match="neither in the stock nor in the landing folder"):
        stored_contents(LakeSession(open_lake(tmp_path)), read_files(lake.store))
    (kept,) = stored_contents(LakeSession(lake), read_files(lake.store))
    assert (kept.rows, kept.bad_rows) == (3, 1)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le"])
def test_a_forgotten_name_is_found_in_and_leaves_files_of_any_encoding(
    spark: object, tmp_path: Path, encoding: str
) -> None:
    data = (ROWS + "4;2024-03-01;zoë;9;torn\n").encode(encoding)
    lake = made(tmp_path, GERMAN.format(encoding), data)
    backfill(lake, START, START, tables=["raw"])
    landed, trace = (
        tmp_path / "landing" / "dt=2024-03-01" / "a.csv",
        Trace({"who": "zoë"}, in_cells=True),
    )
    assert Search(lake, trace).of(landed).held
    erase_landed_rows(LakeSession(lake), trace, begin_erasure(lake, trace.values, "asked for"))
    kept = [line for line in ROWS.splitlines(keepends=True) if "zoë" not in line]
    assert landed.read_bytes().decode(encoding) == "".join(kept)
    found = Search(lake, trace).of(landed)
    assert (found.held, found.unread) == (False, False)


def test_plain_files_have_the_digests_of_before_and_a_dialect_changes_them() -> None:
    plain, same, other = (
        LakeSettings.model_validate(tomllib.loads(SETTINGS.format(dialect=dialect)))
        for dialect in ("", 'dialect = { encoding = "utf-8" }', 'dialect = { quote = "" }')
    )
    assert counting_digest(plain) == counting_digest(same) != counting_digest(other)
    assert raw(plain).settings == raw(same).settings
    assert "dialect" not in raw(plain).settings
    assert raw(other).settings["dialect"] == {"quote": ""}


@pytest.mark.parametrize(
    ("form", "dialect", "why"),
    [
        ("parquet", '{ separator = ";" }', "dialect.separator"),
        ("jsonl", '{ quote = "" }', "dialect.quote"),
        ("csv", "{ x = 1 }", "x"),
    ],
)
def test_a_dialect_that_such_files_have_not_is_refused(form: str, dialect: str, why: str) -> None:
    body = tomllib.loads(
        SETTINGS.format(dialect=f"dialect = {dialect}").replace('"csv"', f'"{form}"')
    )
    with pytest.raises(ValueError, match=why):
        LakeSettings.model_validate(body)
