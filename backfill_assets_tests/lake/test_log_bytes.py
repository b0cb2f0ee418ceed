"""Opening a table whose checkpoints may be torn. Digests: `operations.test_doctor_verify`.

Tested here: `lake.log` on files made by hand. Not tested here: how a checkpoint gets torn, and mending it by
the command that is told (`test_commit_steps`).
"""

from pathlib import Path

from backfill_assets.lake.log import HINT, MAGIC, torn_checkpoints
from backfill_assets_tests.builders import day
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


def test_a_checkpoint_of_a_version_without_a_whole_commit_counts_as_torn(tmp_path: Path) -> None:
    file = checkpoint(tmp_path, 3, MAGIC * 2, '{"version": 3}')
    file.with_name(f"{3:020d}.json").write_text('{"commitInfo"')
    assert torn_checkpoints(place_of(tmp_path)) == [file.name, HINT]


def test_a_hint_to_a_checkpoint_that_is_gone_misleads_and_one_that_nobody_can_read_does_not(tmp_path: Path) -> None:
    file = checkpoint(tmp_path, 3, MAGIC * 2, '{"version": 4}')
    assert torn_checkpoints(place_of(tmp_path)) == [HINT]
    file.with_name(HINT).write_text("{")
    assert torn_checkpoints(place_of(tmp_path)) == []
