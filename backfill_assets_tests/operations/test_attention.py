"""What needs a person stands in the lake while it is so, and `status` says it.

Tested here: `operations.attention`, what the sensors keep there, and the line of `status`. Not tested here: finding it
(`orchestration.test_requesting`).
"""

import json
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets.operations.attention import FOLDER, attention, keep_attention, keep_disagreements
from backfill_assets.orchestration.assemble import assemble
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.operations.synthetic import START, synthetic_lake


def test_what_every_sensor_of_every_instance_found_stands_there_until_it_is_over(tmp_path: Path) -> None:
    keep_attention(tmp_path, "home-1", "landing", {"altered files": "a is altered"})
    keep_attention(tmp_path, "home-2", "landing", {"altered files": "a is altered", "scan": "in vain"})
    assert attention(tmp_path) == ["a is altered", "in vain"]
    keep_attention(tmp_path, "home-2", "landing", {})
    assert attention(tmp_path) == ["a is altered"]


def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    keep_attention(tmp_path, "home", "landing", {"scan": "in vain"})
    (file,) = (tmp_path / FOLDER).iterdir()
    before = file.stat()
    keep_attention(tmp_path, "home", "landing", {"scan": "in vain"})
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_days_over_which_two_engines_disagree_stand_there_until_they_are_made_again_and_agree(tmp_path: Path) -> None:
    days = ["2024-03-01", "2024-03-02", "2024-03-03"]
    keep_disagreements(tmp_path, "staging", days, {})
    assert not (tmp_path / FOLDER).exists()
    keep_disagreements(tmp_path, "staging", days, dict.fromkeys(days[:2], "sail gives other rows than spark gave"))
    keep_disagreements(tmp_path, "features", days[:1], {days[0]: "sail gives other rows"})
    said = "staging {0}: sail gives other rows than spark gave; see `backfill-assets show staging {0}`"
    assert attention(tmp_path)[1:] == [said.format(day) for day in days[:2]]
    keep_disagreements(tmp_path, "staging", days[1:], {})
    assert attention(tmp_path)[1:] == [said.format(days[0])], "a day that was not made again still differs"
    keep_disagreements(tmp_path, "staging", days[:1], {})
    keep_disagreements(tmp_path, "features", days[:1], {})
    assert attention(tmp_path) == []
    assert not [*(tmp_path / FOLDER).iterdir()]


def test_a_file_that_is_torn_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "home landing.json").write_text("[")
    assert attention(tmp_path) == []


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
