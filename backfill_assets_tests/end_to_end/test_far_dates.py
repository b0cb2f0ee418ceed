"""Dates and times beyond the years 1 to 9999: such a row is in quarantine with its reason, its day loads all the same.

Tested here: every time of a delivery, of each format, through load and frontier. Not tested here: what a file's
statistics and fingerprints say of such values (`lake.test_columns`, `lake.test_fingerprints`).
"""

import contextlib
import html
import io
import json
import logging
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from backfill_assets.core.days import DayRange
from backfill_assets.lake.home import open_lake
from backfill_assets.orchestration.alerts import WEBHOOK
from backfill_assets.pipeline.tables import delivered
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land_bytes
from backfill_assets_tests.homes import opened_home
from backfill_assets_tests.lakes import run_rebuild
from backfill_assets_tests.orchestration.sinks import Hook

pytestmark = [pytest.mark.users_do, pytest.mark.usefixtures("spark")]

TOML = """start_date = 2024-03-01
[source]
files = "landing/**"
format = "{format}"
select = "seq, arrival_ts, version_ts, event_ts, event_key, op, ends, until"
[source.payload]
ends = "DATE"
until = "TIMESTAMP"
[features]
entity = ["ends"]
"""
DAYS = DayRange(date(2024, 3, 1), date(2024, 3, 3))
EPOCH = date(1970, 1, 1)
FIRST, LAST = "0001-01-01", "9999-12-30"  # of the last day Sail takes no time
OF_TEXT = {"before": "0000-06-01", "after": "+12000-01-01"}
OF_DATES = {"before": -719600, "after": 3663500, "-infinity": -(2**31) + 1, "infinity": 2**31 - 1, "least": -(2**31)}
OF_TIMES = {"before": -62_200_000_000_000_000, "after": 316_516_000_000_000_000, "-infinity": -(2**63) + 1}
OF_TIMES |= {"infinity": 2**63 - 1, "least": -(2**63)}
Rows = dict[str, dict[str, Any]]  # by the key of the event


def usual(seq: int, key: str, *, is_text: bool, op: str = "upsert") -> dict[str, Any]:
    moment, ends = datetime(2024, 3, 1, 10, tzinfo=UTC), date(2024, 6, 1)
    row: dict[str, Any] = {"seq": seq, "event_key": key, "op": op}
    micros = int(moment.timestamp()) * 1_000_000
    times = dict.fromkeys(
        ("arrival_ts", "version_ts", "event_ts", "until"), "2024-03-01 10:00:00" if is_text else micros
    )
    return row | times | {"ends": str(ends) if is_text else (ends - EPOCH).days}


def far_rows(*, is_text: bool) -> Rows:
    """A row for each time of a delivery and each far value, which a delete has as its event's; two usual ones, of which
    one comes twice, and two at the ends of the calendar."""
    found: Rows = {}
    for column in ("version_ts", "event_ts", "until", "ends"):
        values: Mapping[str, Any] = OF_TEXT if is_text else OF_DATES if column == "ends" else OF_TIMES
        for name, value in values.items():
            key = f"{column} {name}"
            op = "delete" if column == "event_ts" else "upsert"
            time = " 00:00:00" if is_text and column != "ends" else ""
            found[key] = usual(len(found), key, is_text=is_text, op=op) | {
                column: f"{value}{time}" if time or is_text else value
            }
    for key, day in (("first", FIRST), ("last", LAST)):
        days = (date.fromisoformat(day) - EPOCH).days
        until = f"{day} 00:00:00" if is_text else days * 86_400_000_000
        found[key] = usual(len(found), key, is_text=is_text) | {"ends": day if is_text else days, "until": until}
    found["usual"] = usual(len(found), "usual", is_text=is_text)
    return found


def encoded(format: str, rows: list[dict[str, Any]]) -> bytes:
    if format == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    sink, table = io.BytesIO(), pa.Table.from_pylist(rows)
    if format == "csv":
        pyarrow.csv.write_csv(table, sink)
        return sink.getvalue()
    kinds = {"ends": (pa.int32(), pa.date32())} | dict.fromkeys(
        ("arrival_ts", "version_ts", "event_ts", "until"), (pa.int64(), pa.timestamp("us", "UTC"))
    )
    for name, (number, kind) in kinds.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(name).cast(number).cast(kind))
    pq.write_table(table, sink)
    return sink.getvalue()


def far_lake(root: Path, format: str, rows: list[dict[str, Any]]) -> World:
    root.mkdir()
    (root / "lake.toml").write_text(TOML.format(format=format) + SHARED)
    world = World(root, delivered)
    land_bytes(world, f"a.{format}", encoded(format, rows))
    return world


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_a_row_with_a_time_beyond_the_calendar_is_in_quarantine_and_its_arrival_day_is_loaded(
    tmp_path: Path, format: str
) -> None:
    rows = far_rows(is_text=format != "parquet")
    far = {key for key in rows if " " in key}
    world = far_lake(tmp_path / "lake", format, [*rows.values(), rows["usual"]])
    loaded = world.backfill(DAYS)["raw"]
    assert {r["event_key"] for r in world.content("raw")} == rows.keys() - far
    kept = {r["row_number"]: r["reason"] for r in world.content("quarantine")}
    assert len(kept) == len(far)
    for number, key in enumerate(rows, start=1):
        assert (key in far) == (number in kept)
        assert key not in far or key.split()[0] in kept[number], "the reason names the column"
    (outcomes,) = (dict(f) for by_day in loaded.accounts.values() for f in by_day["by_file"].values())
    assert outcomes == {"raw": len(rows) - len(far), "quarantine": len(far), "duplicate": 1}
    assert world.states() == {"raw": {"fresh"}, "staging": {"fresh"}}


def test_a_run_that_loads_such_rows_says_so_in_a_warning_and_by_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = Hook()
    monkeypatch.setenv(WEBHOOK, hook.url)
    world = far_lake(tmp_path / "lake", "jsonl", list(far_rows(is_text=True).values()))
    with contextlib.closing(hook), opened_home(tmp_path) as instance:
        result = run_rebuild(open_lake(world.root), DAYS.start, DAYS.start, instance, ["raw"], delivered)
        assert result.success
        warned = [e.user_message for e in instance.all_logs(result.run_id) if e.level == logging.WARNING]
    (alert,) = hook.kept
    (line,) = [text for text in warned if "landed row(s) are unusable" in text]
    assert "8 landed row(s)" in line
    assert alert["subject"] == f"Needs a person: raw {DAYS.start}"
    assert html.escape(line, quote=False) in alert["text"]
