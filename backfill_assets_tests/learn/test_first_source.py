"""Landed files suggest a `[source]`. DuckDB only.
Not here: the text and its trial load (`test_first_lake`), asking a person
(`learn.test_init_command`), and the load that follows (`end_to_end.test_first_source`)."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.learn.first_lake import landed_form
from backfill_assets.learn.first_source import FirstSource, guessed_source

ORDERS = """Order Id,customer_id,created_at,total,comment
1001,C-1,2024-03-01T10:00:00Z,12.50,hello
1002,C-2,2024-03-01T11:00:00Z,n/a,
,C-2,2024-03-01T12:00:00Z,3.00,no id
1003,C-1,2024-03-01 13:00:00,7,
1004,C-1,2024-02-29 23:59:00,7.25,
1010,C-3,yesterday,7.10,
1011,C-3,2024-03-01 13:00:00,7.10,x,9
""" + "".join(f"{n},C-4,2024-03-02 13:00:00,7.10,\n" for n in range(2000, 2020))


def guessed(
    lake: Path, name: str, text: str, given: Mapping[str, str] | None = None
) -> FirstSource:
    (lake / "landing").mkdir(parents=True, exist_ok=True)
    (lake / "landing" / name).write_text(text, encoding="utf-8")
    seen = landed_form(lake, None, None)
    assert seen is not None
    return guessed_source(seen.files, seen.form, given or {})


def test_roles_come_from_names_types_and_repetition(tmp_path: Path) -> None:
    guess = guessed(tmp_path, "orders-2024-03-02.csv", ORDERS)
    assert guess.select == (
        "CAST(created_at AS timestamp) AS event_ts, `Order Id` AS event_key, customer_id, total, "
        "`comment`"
    )
    assert (guess.entity, guess.start_date) == ("customer_id", date(2024, 2, 29))
    assert {n: c.type for n, c in guess.payload.items()} == {
        "customer_id": "STRING",
        "total": "DECIMAL(18,2)",
        "comment": "STRING",
    }


def test_without_a_name_like_a_key_a_corrected_text_is_the_key_before_a_measure_that_never_repeats(
    tmp_path: Path,
) -> None:
    rows = [("t1", 12), ("t2", 7), ("t3", 30), ("t2", 8)]
    text = "".join(
        f"{trip},2024-03-01T10:00:0{n}Z,{minutes}\n" for n, (trip, minutes) in enumerate(rows)
    )
    guess = guessed(tmp_path, "trips.csv", "trip,started,minutes\n" + text)
    assert (guess.roles["event_key"], guess.key_is_guessed) == ("trip", True)
    assert "minutes" in guess.payload


def test_a_file_that_says_when_rows_arrived_and_changed_gives_these_roles(tmp_path: Path) -> None:
    row = {
        "offset": 1,
        "click_id": "a",
        "user_id": 7,
        "event_ts": "2024-05-01T00:00:00Z",
        "op": "upsert",
        "received_at": "2024-05-01T00:00:05Z",
        "updated_at": "2024-05-01T00:00:01Z",
        "label": 1,
    }
    rows = [{**row, "click_id": key, "offset": n} for n, key in enumerate("abc")]
    guess = guessed(tmp_path, "clicks.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    assert guess.select == (
        "CAST(`offset` AS bigint) AS seq, CAST(received_at AS timestamp) AS arrival_ts, "
        "CAST(updated_at AS timestamp) AS version_ts, CAST(event_ts AS timestamp) AS event_ts, "
        "click_id AS event_key, "
        "op, user_id, label AS own_label"
    )


def test_typed_columns_are_not_cast_and_rows_without_arrival_arrive_when_they_happen(
    tmp_path: Path,
) -> None:
    (tmp_path / "landing").mkdir()
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "customer": ["a", "a"],
            "at": [datetime(2024, 3, 1, tzinfo=UTC)] * 2,
            "total": pa.array([Decimal("1.5"), None], pa.decimal128(10, 2)),
        }
    )
    pq.write_table(table, tmp_path / "landing" / "part.parquet")
    seen = landed_form(tmp_path, None, None)
    assert seen is not None
    assert (seen.glob, seen.form) == ("landing/**/*.parquet", "parquet")
    guess = guessed_source(seen.files, "parquet", {"entity": "customer"})
    assert (
        guess.select
        == "`at` AS event_ts, CAST(id AS string) AS event_key, `at` AS arrival_ts, customer, total"
    )
    assert guess.payload["total"].type == "DECIMAL(10,2)"


@pytest.mark.parametrize(
    ("text", "given", "told"),
    [
        (
            "id,name\n1,a\n",
            {},
            "no column of it looks like event_ts. No lake.toml was written. Name it with "
            "--event-ts",
        ),
        ("at\n2024-03-01\n", {}, "no column of it looks like event_key"),
        ("id,at\n1,2024-03-01\n", {"event_key": "key"}, "it has no column key for event_key"),
        ("id,at\n1,soon\n", {"event_ts": "at"}, "no value of at is a time of ISO 8601"),
        (
            "id,at\n1,31.03.2024 09:00\n",
            {},
            "AS event_ts, …\", in place of … to_timestamp(`at`, 'dd.MM.yyyy HH:mm')",
        ),
        (
            "id,at\n1,31/03/2024\n",
            {"event_ts": "at"},
            "say --select \"to_timestamp(`at`, 'dd/MM/yyyy') AS event_ts",
        ),
        ('"id\n', {}, "it cannot be read"),
    ],
)
def test_what_cannot_be_guessed_is_named_with_the_option(
    tmp_path: Path, text: str, given: dict[str, str], told: str
) -> None:
    with pytest.raises(SettingsError, match=r".*") as caught:
        guessed(tmp_path, "f.csv", text, given)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ('[{"id": 1}, {"id": 2}]', "one JSON array, not an object per line"),
        ('[{"id": 1},\n{"id": 2}]', "one JSON array, not an object per line"),
        ('{\n "id": 1\n}\n', "JSON objects that are not one per line"),
        ('{"id": 1}{"id": 2}', "JSON objects that are not one per line"),
        ("\n\n", "it has no row"),
    ],
)
def test_json_without_an_object_on_any_line_is_named_with_what_it_holds(
    tmp_path: Path, text: str, held: str
) -> None:
    with pytest.raises(SettingsError, match="Write an object per line, as `jq -c") as caught:
        guessed(tmp_path, "f.jsonl", text)
    assert held in str(caught.value)


@pytest.mark.parametrize(
    ("name", "values", "op"),
    [
        (
            "Op",
            "IUD",
            "CASE WHEN lower(trim(Op)) IN ('d') THEN 'delete' WHEN lower(trim(Op)) IN ('c', 'i', "
            "'r', 'u') "
            "THEN 'upsert' END AS op",
        ),
        ("action", ("upsert", "delete"), "action AS op"),
        ("op", ("upsert", "delete"), "op"),
        ("action", ("view", "click"), ""),
        ("op", ("x", "y"), ""),
    ],
)
def test_an_operation_is_known_by_its_values(
    tmp_path: Path, name: str, values: Sequence[str], op: str
) -> None:
    rows = "".join(f"{n},2024-03-01T10:00:00Z,{value}\n" for n, value in enumerate(values))
    guess = guessed(tmp_path, "o.csv", f"id,at,{name}\n{rows}")
    assert guess.roles.get("op") == (name if op else None)
    assert op in guess.select
    assert bool(op) or name.lower() in {c.name.lower() for c in guess.payload.values()}
