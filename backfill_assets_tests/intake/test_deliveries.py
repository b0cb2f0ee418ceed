"""Landed rows as deliveries: `select` applied, casts that give NULL, one reason per unusable row,
one outcome per row. Not here: whole loads (`end_to_end.test_ledger`)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets import LakeSettings
from backfill_assets.intake.content_store import StoredFile, find_content
from backfill_assets.intake.deliveries import read_deliveries, split_day_rows
from backfill_assets.intake.ingest import ingest
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD, MACHINERY
from backfill_assets_tests.landed import land, stock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.on_spark("it is what Spark makes of select, and what it refuses")
DELIVERED = (*MACHINERY, *(c.name for c in DEFAULT_PAYLOAD))
SEEN = datetime(2024, 3, 10, tzinfo=UTC)
MOMENT = "2024-03-05 10:00:00"
PLAIN = (
    "cast(seq AS bigint) AS seq, cast(at AS timestamp_ntz) AS arrival_ts, cast(at AS "
    "timestamp_ntz) AS version_ts, "
    "cast(at AS timestamp_ntz) AS event_ts, key AS event_key, 'upsert' AS op, who AS entity, n AS "
    "value, 0 AS flag"
)


def settings(format: str, select: str = PLAIN) -> LakeSettings:
    return LakeSettings.model_validate(
        {
            "start_date": date(2024, 3, 1),
            "source": {"files": "x", "format": format, "select": select},
        }
    )


def stocked(folder: Path, name: str, content: bytes, home: date | None = None) -> StoredFile:
    format = name.split(".", 1)[1]
    intake = ingest(land(folder / "landing", name, content), format, stock(folder))
    found = find_content(stock(folder), intake.sha256, SEEN, home)
    assert found is not None
    return found


def parquet(folder: Path, name: str, columns: Mapping[str, Any]) -> StoredFile:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink)
    return stocked(folder, name, sink.getvalue().to_pybytes())


def judged(
    spark: "SparkSession", files: Sequence[StoredFile], chosen: LakeSettings
) -> list[dict[str, Any]]:
    rows = read_deliveries(spark, files, chosen).orderBy("sha256", "row_number").collect()
    return [r.asDict() for r in rows]


def test_a_column_that_json_lacks_is_null_and_one_of_csv_spoils_its_file(
    spark: "SparkSession", tmp_path: Path
) -> None:
    line = f'{{"seq": 1, "at": "{MOMENT}", "key": "k", "n": 1}}\n'.encode()
    found = judged(spark, [stocked(tmp_path, "a.jsonl", line)], settings("jsonl"))
    assert [(r["entity"], r["reason"]) for r in found] == [(None, None)]
    text = f"seq,at,key,n\n1,{MOMENT},k,1\n".encode()
    found = judged(spark, [stocked(tmp_path, "a.csv", text, date(2024, 3, 4))], settings("csv"))
    assert [(r["reason"], r["arrival_date"]) for r in found] == [
        ("the file lacks the column who", date(2024, 3, 4))
    ]


def test_of_binary_numbers_fractions_nan_and_overflow_are_unusable(
    spark: "SparkSession", tmp_path: Path
) -> None:
    numbers = [3.0, 3.5, float("nan"), float("inf"), 1e300, None, -4.0]
    columns = {"seq": list(range(7)), "key": ["k"] * 7, "who": ["A"] * 7, "n": numbers}
    columns |= {"at": [datetime.fromisoformat(MOMENT)] * 7}
    found = judged(spark, [parquet(tmp_path, "a.parquet", columns)], settings("parquet"))
    assert [r["value"] for r in found] == [3, None, None, None, None, None, -4]
    assert [r["reason"] is None for r in found] == [r["value"] is not None for r in found]


def test_a_time_without_zone_is_utc_and_one_with_a_zone_is_its_instant(
    spark: "SparkSession", tmp_path: Path
) -> None:
    moment = datetime.fromisoformat(MOMENT).replace(tzinfo=UTC)
    zones = {
        "plain": pa.timestamp("us"),
        "tokyo": pa.timestamp("us", "Asia/Tokyo"),
        "nanos": pa.timestamp("ns"),
    }
    common: dict[str, Any] = {"seq": [1], "key": ["k"], "who": ["A"], "n": [1]}
    for name, kind in zones.items():
        file = parquet(tmp_path, f"{name}.parquet", {**common, "at": pa.array([moment], kind)})
        (row,) = judged(
            spark, [file], settings("parquet", PLAIN.replace("cast(at AS timestamp_ntz)", "at"))
        )
        assert row["arrival_ts"].timestamp() == moment.timestamp(), name
        assert row["arrival_date"] == date(2024, 3, 5)


def test_rows_without_a_usable_arrival_lie_on_the_home_day_with_their_text(
    spark: "SparkSession", tmp_path: Path
) -> None:
    lines = [
        f'{{"seq": 1, "at": "{MOMENT}", "key": "{"k" * 9000}", "n": "x", "who": "A"}}',
        '{"seq": 2, "at": "2024-03-12 00:00:00", "key": "k", "n": "1", "who": "A"}',
        '{"seq": 3, "at": "2024-03-11 00:00:00", "key": "k", "n": "1", "who": "A"}',
        "broken",
    ]
    file = stocked(tmp_path, "a.jsonl", "\n".join(lines).encode(), date(2024, 3, 4))
    found = judged(spark, [file], settings("jsonl"))
    assert [r["arrival_date"].day for r in found] == [5, 4, 11, 4]
    assert [r["usable_arrival"] for r in found] == [True, False, True, False]
    assert [len(r["text"] or "") for r in found] == [8192, len(found[1]["text"]), 0, 6]


def test_times_beyond_the_calendar_are_told_by_column_in_arrays_too(
    spark: "SparkSession", tmp_path: Path
) -> None:
    chosen = LakeSettings.model_validate(
        {
            "start_date": date(2024, 3, 1),
            "source": {
                "files": "x",
                "format": "jsonl",
                "payload": {"days": "ARRAY<DATE>", "until": "TIMESTAMP"},
                "select": "seq, at arrival_ts, version version_ts, at event_ts, 'k' AS event_key, "
                "op, "
                "days, until",
            },
            "features": {"entity": ["until"]},
        }
    )
    calendar = "0001-01-01 .. 9999-12-31"
    first, last = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
    before, after = "0000-12-31 23:59:59.999999", "+10000-01-01 00:00:00"
    rows: list[tuple[dict[str, Any], str | None]] = [
        ({"days": ["0001-01-01", None, "9999-12-31"], "until": last, "version": first}, None),
        ({"days": ["2024-01-01", "0000-12-31"]}, f"days lies beyond {calendar}"),
        ({"until": after, "op": "delete"}, f"until lies beyond {calendar}"),
        ({"version": before}, f"version_ts lies beyond {calendar}"),
        ({"version": after}, f"version_ts lies beyond {calendar}"),
    ]
    usual = {"at": MOMENT, "version": MOMENT, "op": "upsert"}
    lines = [json.dumps(usual | row | {"seq": seq}) for seq, (row, _) in enumerate(rows)]
    read = read_deliveries(spark, [stocked(tmp_path, "a.jsonl", "\n".join(lines).encode())], chosen)
    found = (
        read.orderBy("row_number").select("reason", "arrival_date").collect()
    )  # Python has no word for the others
    assert [r["reason"] for r in found] == [told for _, told in rows]
    assert {r["arrival_date"] for r in found} == {date(2024, 3, 5)}


def test_an_event_may_lie_as_many_days_ahead_as_declared_to_the_microsecond_at_any_end_of_time(
    spark: "SparkSession", tmp_path: Path
) -> None:
    select = (
        "seq, at arrival_ts, at version_ts, happened event_ts, 'k' AS event_key, 'upsert' op, "
        "'e' AS entity, 1 AS value, 0 AS flag"
    )
    chosen = settings("jsonl", select).model_copy(update={"start_date": date(1900, 1, 1)})
    ahead = "the event lies more than 1 day(s) after its arrival"
    rows = [
        ("1969-12-31 23:59:59.999999", "1970-01-01 23:59:59.999999", None, date(1969, 12, 31)),
        ("1969-12-31 00:00:00", "1970-01-01 00:00:00.000001", ahead, date(1969, 12, 31)),
        ("2024-02-29 00:00:00", "2024-02-28 23:59:59.999999", None, date(2024, 2, 29)),
        ("2024-03-10 23:59:59.999999", "2024-03-11 23:59:59.999999", None, date(2024, 3, 10)),
        ("2024-03-11 00:00:00", "9999-12-31 23:59:59.999999", ahead, date(2024, 3, 11)),
    ]
    far = ("-290000-01-01 00:00:00", "+290000-01-01 00:00:00")
    lines = [
        json.dumps({"seq": seq, "at": row[0], "happened": row[1]})
        for seq, row in enumerate([*rows, far])
    ]
    first = stocked(tmp_path, "a.jsonl", "\n".join(lines).encode())
    other = replace(
        stocked(tmp_path, "b.jsonl", json.dumps({"seq": 9, "at": MOMENT}).encode()),
        first_scan=datetime(1900, 1, 1, tzinfo=UTC),
    )
    for files in ([first], [first, other]):  # of one scan, and of several
        read = read_deliveries(spark, files, chosen).where(f"sha256 = '{first.sha256}'")
        found = read.orderBy("row_number").select("reason", "arrival_date").collect()
        assert [(r["reason"], r["arrival_date"]) for r in found[:-1]] == [r[2:] for r in rows]
        assert "arrival_ts lies beyond" in found[-1]["reason"]


def test_of_rows_with_one_number_the_first_stays_equal_ones_are_duplicates_and_others_are_set_aside(
    spark: "SparkSession", tmp_path: Path
) -> None:
    def line(seq: int, key: str, day: int = 5) -> str:
        return (
            f'{{"seq": {seq}, "at": "2024-03-0{day} 10:00:00", "key": "{key}", "n": 1, "who": '
            f"null}}"
        )

    text = "\n".join(
        [line(1, "a"), line(1, "a"), line(1, "b"), line(1, "a", day=6), line(2, " "), line(2, "c")]
    )
    file = stocked(tmp_path, "a.jsonl", text.encode())
    from pyspark.sql import functions as F

    rows = read_deliveries(spark, [file, replace(file)][:1], settings("jsonl")).selectExpr(
        "*", "true AS due"
    )
    found = {
        r["row_number"]: r for r in split_day_rows(rows, F.lit(False), "raw", DELIVERED).collect()
    }
    outcomes = [found[n]["outcome"] for n in range(1, 7)]
    assert outcomes == ["raw", "duplicate", "quarantine", "raw", "quarantine", "raw"]
    assert "other content" in found[3]["reason"]
    assert '"event_key":"b"' in found[3]["text"]
    some_due = rows.selectExpr("* EXCEPT (due)", "seq = 1 AS due")
    later = split_day_rows(some_due, F.lit(False), "raw", DELIVERED).where("outcome = 'not due'")
    assert {r["row_number"] for r in later.collect()} == {5, 6}
