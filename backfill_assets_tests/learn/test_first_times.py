"""Times of other forms than ISO 8601 are named with the Spark SQL that reads them. DuckDB only.

Not here: what `init` says where such a column is the event's time (`test_first_source`), and its
trial load.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.intake.select import select_expressions
from backfill_assets.learn.first_lake import landed_form
from backfill_assets.learn.first_source import guessed_source
from backfill_assets_tests.learn.test_first_source import guessed

ISO = "2024-03-01T10:00:00Z"


@pytest.mark.parametrize(
    ("column", "values", "read"),
    [
        ("paid", ("31.03.2024", "01.04.2024"), "to_timestamp(paid, 'dd.MM.yyyy')"),
        ("paid", ("31.03.2024 09:30", " "), "to_timestamp(paid, 'dd.MM.yyyy HH:mm')"),
        ("paid", ("03/31/2024 09:30:01",), "to_timestamp(paid, 'MM/dd/yyyy HH:mm:ss')"),
        (
            "paid",
            ("01/02/2024",),
            "to_timestamp(paid, 'dd/MM/yyyy') or to_timestamp(paid, 'MM/dd/yyyy')",
        ),
        ("Paid On", ("2024/03/31",), "to_timestamp(`Paid On`, 'yyyy/MM/dd')"),
        ("paid_at", ("1709280000", "1709290000"), "timestamp_seconds(CAST(paid_at AS bigint))"),
        ("paid_at", (1709280000000,), "timestamp_millis(CAST(paid_at AS bigint))"),
        ("paid_ts_us", (1709280000000000,), "timestamp_micros(CAST(paid_ts_us AS bigint))"),
        ("paid_date", (20240331, 20240401), "to_timestamp(paid_date, 'yyyyMMdd')"),
        ("customer_no", (1709280000,), None),
        ("amount", ("20240331",), None),
        ("paid", ("31.02.2024",), None),
        ("paid", ("soon",), None),
        ("paid_at", (ISO, "2024-03-01"), None),
    ],
)
def test_a_time_of_another_form_is_named_with_what_reads_it(
    tmp_path: Path, column: str, values: tuple[object, ...], read: str | None
) -> None:
    rows = [{"id": f"o{n}", "happened": ISO, column: value} for n, value in enumerate(values)]
    guess = guessed(tmp_path, "orders.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert guess.other_times.get(column) == read
    assert [line for line in guess.remarks if "another form" in line] == (
        [f"{column} holds times of another form than ISO 8601: write {read} in select."]
        if read
        else []
    )
    assert all(
        select_expressions(f"{form} AS event_ts") for form in (read.split(" or ") if read else ())
    )  # a lake takes it


def test_numbers_of_parquet_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    rows = {
        "id": ["a"],
        "happened": [datetime(2024, 3, 1, tzinfo=UTC)],
        "paid_at": [1709280000],
        "due_on": [20240331],
    }
    pq.write_table(pa.table(rows), tmp_path / "landing" / "orders.parquet")
    seen = landed_form(tmp_path, None, None)
    assert seen is not None
    assert guessed_source(seen.files, seen.form, {}).other_times == {
        "paid_at": "timestamp_seconds(paid_at)",
        "due_on": "to_timestamp(CAST(due_on AS string), 'yyyyMMdd')",
    }
