"""Layers against each other in the gate: a row that a transform lost is found though receipts agree
with their files.

Tested here: `plans.gate.layer_findings` on files of raw and staging, without an engine. Not tested here:
the account of landed rows (`reading/test_account.py`), the query
(`pipeline/transforms/test_queries.py`).
"""

import shutil
from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry, Provenance, Receipt
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets.pipeline.tables import tables
from backfill_assets.plans.gate import layer_findings
from backfill_assets.plans.gates import GateFinding
from backfill_assets.plans.progress import read_progress
from backfill_assets.plans.run import run_plan
from backfill_assets_tests.builders import make_commit
from backfill_assets_tests.files import stage_by_hand
from backfill_assets_tests.logs import versions
from backfill_assets_tests.planning import DAYS, HandWorker, bare_staging, planned
from backfill_assets_tests.synthetic import Made

pytestmark = pytest.mark.usefixtures("storages")


def three(day: date) -> list[dict[str, Any]]:
    """The deliveries of a day, all of them current, as staging holds them."""
    at = datetime.combine(day, time(10), tzinfo=None).astimezone()
    return [
        {
            "seq": n,
            "event_key": f"{day}-{n}",
            "event_date": day,
            "event_ts": at,
            "version_ts": at,
            "known_from": at,
            "known_until": None,
            "entity": "E",
            "value": n,
            "flag": 0,
        }
        for n in range(3)
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    """Ten days of three deliveries in raw, which were all loaded; nothing made of them."""
    there, bare = bare_staging(tmp_path)
    pipeline = replace(bare, tables=tables(there.settings))
    raw, cells = pipeline.table("raw").contract, []
    for day in DAYS:
        for row in three(day):
            cells.append(
                row
                | {
                    "arrival_ts": row["event_ts"],
                    "arrival_date": day,
                    "op": "upsert",
                    "source_file": "f",
                }
            )
    shutil.rmtree(
        there.table_place("raw").local()
    )  # its log was written by hand and names no real file
    staged, states = (
        stage_by_hand(there, raw, cells),
        pipeline.states(read_view(there, pipeline.contracts)),
    )
    found = audit_files(there, staged.paths, raw)
    entries = {
        d: DayEntry(found[d].rows, found[d].fingerprint, states.digests.of("raw", d)) for d in DAYS
    }
    done = replace_days(
        there,
        Write(raw, staged, entries, -1, Provenance("test"), force=True),
        lambda days: {d: entries[d].input_digest for d in days},
    )
    ledger = there.table_place("arrivals").local()
    told = Receipt("a", "arrivals", "manual", {}, inputs={"raw": done.version})
    make_commit(ledger, len(versions(ledger)), told)
    return there, pipeline


def worker(lake: Made, lost: int = 0) -> HandWorker:
    """Makes staging of the deliveries, and loses so many of each day."""
    return HandWorker(*lake, lambda day: three(day)[lost:])


def test_a_chunk_whose_layers_agree_passes(lake: Made) -> None:
    by = worker(lake)
    assert run_plan(lambda: lake, planned(*lake), by).state == "finished"


def test_a_row_that_was_lost_between_raw_and_staging_stops_the_plan(lake: Made) -> None:
    with pytest.raises(
        BackfillError, match="3 deliveries in raw are for it, 2 are here and 0 superseded"
    ):
        run_plan(lambda: lake, planned(*lake), worker(lake, lost=1))


def test_landed_rows_that_are_nowhere_stop_every_plan(lake: Made) -> None:
    there, pipeline = lake
    plan, first = planned(*lake), DAYS.start
    raw = there.table_place("raw").local()
    entry = read_view(there, pipeline.contracts).source("raw").loaded.latest[first].entry
    lacking = replace(entry, rows=2, counts={"duplicates": 0})
    make_commit(raw, len(versions(raw)), Receipt("w", "raw", "manual", {first: lacking}))
    ledger = there.table_place("arrivals").local()
    make_commit(
        ledger,
        len(versions(ledger)),
        Receipt("b", "arrivals", "manual", {}, inputs={"raw": len(versions(raw)) - 1}),
    )
    now = read_progress(there, pipeline, plan)
    found = layer_findings(there, pipeline, plan.chunk(1), now)
    more = "1 row(s) more landed than raw, quarantine, duplicates and too late rows account for"
    assert found == [GateFinding("raw", first, "account", more)]
