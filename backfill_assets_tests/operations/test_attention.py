"""What needs a person stands in the lake while it is so, and `status` says it.

Tested here: `operations.status`, what the sensors keep there, and the line of `status`. Not tested here: finding it
(`orchestration.test_backfill_requests`).
"""

import json
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.view import DayReceipt, TableView
from backfill_assets.operations.standing import attention, keep_attention
from backfill_assets.operations.status import irreproducible_days
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import Story, day
from backfill_assets_tests.operations.synthetic import START, synthetic_lake


def test_what_every_sensor_of_every_instance_found_stands_there_until_it_is_over(tmp_path: Path) -> None:
    keep_attention(tmp_path, "home-1", "landing", {"altered files": "a is altered"})
    keep_attention(tmp_path, "home-2", "landing", {"altered files": "a is altered", "scan": "in vain"})
    assert attention(tmp_path) == ["a is altered", "in vain"]
    keep_attention(tmp_path, "home-2", "landing", {})
    assert attention(tmp_path) == ["a is altered"]


def test_days_whose_newest_receipt_says_that_they_were_others_before_are_told_until_it_does_not() -> None:
    receipt = DayReceipt(DayEntry(1, "f", "inputs"), 1, "write", "code", "settings", "run")
    latest = {day(n): replace(receipt, irreproducible=n != 2) for n in range(4)}
    view = replace(Story().view(), tables={"staging": TableView(1, latest), "labels": TableView(1, {day(0): receipt})})
    ((name, told),) = irreproducible_days(view)
    assert name == "staging"
    assert told.startswith(f"staging {day(0)}..{day(1)}, {day(3)}: made again from the same inputs, code and settings")


@pytest.mark.slow
def test_a_tick_of_the_sensor_is_enough_for_status_to_say_what_needs_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 3)
    name = f"{START}.jsonl"
    (lake.root / "landing" / name).unlink()
    sensors = {s.name: s for s in assemble(lake.root, tables).sensors or ()}
    with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance=instance) as context:
        sensors["landing"].evaluate_tick(context)
    shown = CliRunner().invoke(app, ["status", "--lake", str(lake.root)])
    assert f"needs a person: 1 landed file(s) missing: {name}" in shown.output
    told = json.loads(CliRunner().invoke(app, ["status", "--json", "--lake", str(lake.root)]).output)
    assert len(told["needs_a_person"]) == 1
