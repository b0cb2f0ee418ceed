"""One number, or one moment, in the types and forms that senders' files have: one key, or a refusal
by name.

Tested here: whole files of CSV, JSON lines and Parquet, each with the expressions that users write
for `event_key`. Not tested here: which expressions those are (`intake.test_key_texts`), and keys
in tables (`test_table_keys`).
"""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets import LakeSettings
from backfill_assets.intake.content_store import StoredFile, find_content
from backfill_assets.intake.deliveries import read_deliveries
from backfill_assets.intake.ingest import ingest
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.landed import land, stock

SEEN, AT = datetime(2024, 3, 10, tzinfo=UTC), "2024-03-05T09:00:00Z"
SELECT = (
    "{} AS event_key, CAST(at AS timestamp) AS event_ts, CAST(at AS timestamp) AS arrival_ts, 'a' "
    "AS who"
)
MOMENT = datetime(2024, 3, 1, tzinfo=UTC)
PARQUET = {
    "INT": pa.array([1], pa.int32()),
    "BIGINT": pa.array([1], pa.int64()),
    "DOUBLE": pa.array([1.0]),
    "FLOAT": pa.array([1.0], pa.float32()),
    "DECIMAL(9,0)": pa.array([Decimal(1)], pa.decimal128(9, 0)),
    "DECIMAL(9,2)": pa.array([Decimal(1)], pa.decimal128(9, 2)),
    "text": pa.array(["1"]),
}
MOMENTS = {
    "DATE": pa.array([date(2024, 3, 1)]),
    "TIMESTAMP": pa.array([MOMENT], pa.timestamp("us", "UTC")),
    "NTZ": pa.array([MOMENT], pa.timestamp("us")),
    "ns": pa.array([MOMENT], pa.timestamp("ns", "UTC")),
    "ms": pa.array([MOMENT], pa.timestamp("ms")),
}
IN_JSON = ("1", "1.0", "1e0", "1E0", "10e-1", "1.00", '"1"', "0", "-0", "-0.0", "0.0", "0e5")
AS_THEY_COME = (
    "k",
    "CAST(k AS string)",
    "concat('o-', k)",
    "k || ''",
    "lower(k)",
    "concat_ws('-', k, 'x')",
)
WHOLE = ("CAST(CAST(k AS bigint) AS string)", "concat('o-', CAST(k AS bigint))")


def chosen(format: str, key: str) -> LakeSettings:
    source = {
        "files": "x",
        "format": format,
        "select": SELECT.format(key),
        "payload": {"who": "STRING"},
    }
    return LakeSettings.model_validate(
        {"start_date": date(2024, 3, 1), "source": source, "features": {"entity": ["who"]}}
    )


def stocked(folder: Path, name: str, content: bytes) -> StoredFile:
    format = name.rpartition(".")[2]
    intake = ingest(land(folder / "landing", name, content), format, stock(folder))
    found = find_content(stock(folder), intake.sha256, SEEN, date(2024, 3, 5))
    assert found is not None
    return found


def in_parquet(folder: Path, name: str, keys: pa.Array) -> StoredFile:
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"k": keys, "at": pa.array([AT] * len(keys)), "n": [name] * len(keys)}), sink
    )
    return stocked(folder, f"{name}.parquet", sink.getvalue().to_pybytes())


def keys_of(
    spark: "SparkSession", files: dict[str, StoredFile], format: str, key: str
) -> dict[str, Any]:
    """By name of a file its first key, or the reason why there is none."""
    read = read_deliveries(spark, list(files.values()), chosen(format, key))
    found = read.select("sha256", "reason", "event_key").collect()
    rows = {r["sha256"]: r["reason"] or [r["event_key"]] for r in found}
    return {name: rows[file.sha256] for name, file in files.items()}


def judge(found: dict[str, Any]) -> set[str]:
    """The names of files that are refused, which must say why; the others must agree in one key."""
    keys = {name: key[0] for name, key in found.items() if isinstance(key, list)}
    assert len({*keys.values()}) <= 1, found
    for name in found.keys() - keys.keys():
        assert "event_key takes k" in found[name] or "Sail may make" in found[name], found
    return found.keys() - keys.keys()


@pytest.mark.parametrize("key", AS_THEY_COME)
def test_a_number_of_parquet_has_one_key_or_its_file_is_refused(
    spark: "SparkSession", tmp_path: Path, key: str
) -> None:
    files = {name: in_parquet(tmp_path, name, keys) for name, keys in PARQUET.items()}
    refused = judge(keys_of(spark, files, "parquet", key))
    assert refused - {"DECIMAL(9,0)"} == {
        "DOUBLE",
        "FLOAT",
        "DECIMAL(9,2)",
    }  # Sail makes no text of a bare DECIMAL


@pytest.mark.parametrize("key", WHOLE)
def test_a_number_that_select_makes_whole_has_one_key_in_every_type(
    spark: "SparkSession", tmp_path: Path, key: str
) -> None:
    files = {name: in_parquet(tmp_path, name, keys) for name, keys in PARQUET.items()}
    assert judge(keys_of(spark, files, "parquet", key)) == set()


@pytest.mark.parametrize("key", AS_THEY_COME)
def test_a_moment_of_parquet_has_one_key_or_its_file_is_refused(
    spark: "SparkSession", tmp_path: Path, key: str
) -> None:
    files = {name: in_parquet(tmp_path, name, keys) for name, keys in MOMENTS.items()}
    assert judge(keys_of(spark, files, "parquet", key)) == {"TIMESTAMP", "NTZ", "ns", "ms"}


@pytest.mark.parametrize("key", AS_THEY_COME)
def test_a_number_of_json_has_one_key_or_its_file_is_refused(
    spark: "SparkSession", tmp_path: Path, key: str
) -> None:
    files = {
        form: stocked(tmp_path, f"{n}.jsonl", f'{{"k": {form}, "at": "{AT}", "n": {n}}}\n'.encode())
        for n, form in enumerate(IN_JSON)
    }
    found = keys_of(spark, files, "jsonl", key)
    ones = {form: key for form, key in found.items() if float(json.loads(form)) == 1}
    assert judge(ones) == {"1.0", "1e0", "1E0", "10e-1", "1.00"}
    assert judge({form: key for form, key in found.items() if form not in ones}) == {
        "-0",
        "-0.0",
        "0.0",
        "0e5",
    }


def test_a_number_of_json_that_select_makes_whole_has_one_key_in_every_form(
    spark: "SparkSession", tmp_path: Path
) -> None:
    files = {
        form: stocked(tmp_path, f"{n}.jsonl", f'{{"k": {form}, "at": "{AT}", "n": {n}}}\n'.encode())
        for n, form in enumerate(IN_JSON)
    }
    found = keys_of(spark, files, "jsonl", "CAST(CAST(CAST(k AS double) AS bigint) AS string)")
    assert found == {form: [str(int(float(json.loads(form))))] for form in IN_JSON}


def test_a_text_is_the_key_that_its_sender_wrote(spark: "SparkSession", tmp_path: Path) -> None:
    texts = ["1", "1.0", "01", "1e0", "+1", "-0.0", "2024-03-01T09:00:00Z", "2024-03-01 09:00:00"]
    csv = "k,at\n" + "".join(f"{text},{AT}\n" for text in texts)
    lines = "".join(json.dumps({"k": text, "at": AT}) + "\n" for text in texts)
    for name, content in (("a.csv", csv), ("a.jsonl", lines)):
        file = stocked(tmp_path, name, content.encode())
        read = read_deliveries(spark, [file], chosen(name.rpartition(".")[2], "k")).orderBy(
            "row_number"
        )
        assert [r["event_key"] for r in read.select("event_key").collect()] == texts


def test_other_columns_keep_their_numbers_in_any_form(
    spark: "SparkSession", tmp_path: Path
) -> None:
    lines = "".join(f'{{"k": "a{n}", "at": "{AT}", "v": {v}}}\n' for n, v in enumerate(IN_JSON))
    settings = chosen("jsonl", "k")
    file = stocked(tmp_path, "a.jsonl", lines.encode())
    assert dict(file.types) == {"k": "STRING", "at": "STRING", "v": "NUMBER"}
    rows = read_deliveries(spark, [file], settings).select("event_key", "reason").collect()
    assert {r["reason"] for r in rows} == {None}
