"""Opening a table whose checkpoints may be torn. Digests: `operations.test_doctor_verify`.

Tested here: `lake.log` on files made by hand. Not tested here: how a checkpoint gets torn, and mending it by
the command that is told (`test_commit_steps`).
"""

from pathlib import Path

from backfill_assets.lake.log import HINT, LOG, MAGIC, checkpoint_names, open_delta, torn_checkpoints
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.logs import place_of

ROWS = [{"entity": "A", "value": 1, "event_date": day(0)}]


def checkpoint(table: Path, version: int, content: bytes, hint: str) -> Path:
    log = table / "_delta_log"
    log.mkdir(parents=True)
    file = log / f"{version:020d}.checkpoint.parquet"
    file.write_bytes(content)
    (log / f"{version:020d}.json").write_text('{"commitInfo":{}}\n')
    (log / HINT).write_text(hint)
    return file


def test_a_table_without_checkpoints_is_opened_at_any_version(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    publish_by_hand(lake, STAGING, ROWS)
    path = lake.table_place(STAGING.name).local()
    assert [open_delta(place_of(path)).version(), open_delta(place_of(path), 0).version()] == [1, 0]
    assert torn_checkpoints(place_of(path)) == []
    assert checkpoint_names(place_of(path), 1) == []


def test_a_whole_checkpoint_and_the_hint_that_names_it_are_left_alone(tmp_path: Path) -> None:
    file = checkpoint(tmp_path, 3, MAGIC + b"..." + MAGIC, '{"version": 3}')
    assert torn_checkpoints(place_of(tmp_path)) == []
    assert checkpoint_names(place_of(tmp_path), 3) == [f"{LOG}/{file.name}", f"{LOG}/{HINT}"]


def test_a_torn_checkpoint_is_named_with_its_hint_in_a_command_for_any_folder(tmp_path: Path) -> None:
    table = tmp_path / "with spaces"
    file = checkpoint(table, 3, MAGIC + b"...", '{"version": 3}')
    assert torn_checkpoints(place_of(table)) == [file.name, HINT]


def test_a_checkpoint_of_a_version_without_a_whole_commit_counts_as_torn(tmp_path: Path) -> None:
    file = checkpoint(tmp_path, 3, MAGIC * 2, '{"version": 3}')
    file.with_name(f"{3:020d}.json").write_text('{"commitInfo"')
    assert torn_checkpoints(place_of(tmp_path)) == [file.name, HINT]


def test_a_hint_to_a_checkpoint_that_is_gone_misleads_and_one_that_nobody_can_read_does_not(tmp_path: Path) -> None:
    file = checkpoint(tmp_path, 3, MAGIC * 2, '{"version": 4}')
    assert torn_checkpoints(place_of(tmp_path)) == [HINT]
    file.with_name(HINT).write_text("{")
    assert torn_checkpoints(place_of(tmp_path)) == []
