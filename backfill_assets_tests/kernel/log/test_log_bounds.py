"""Whoever reads a log of others is told by the bounds of landed files. Not here: the bounds
(`intake.test_log_bounds`)."""

import os
from pathlib import Path

from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.log.log import LOG, commit_name
from backfill_assets.kernel.log.log_bounds import DATA_FAULT, LOG_FAULT, data_fault, log_fault
from backfill_assets.kernel.place.folder import Folder


def test_the_bounds_are_offered_by_a_room() -> None:
    assert None not in (offered_function(LOG_FAULT), offered_function(DATA_FAULT))


def test_a_log_with_a_pipe_and_a_data_file_that_is_none_are_refused(tmp_path: Path) -> None:
    table = Folder(str(tmp_path))
    assert log_fault(table) == ""
    (tmp_path / LOG).mkdir()
    os.mkfifo(tmp_path / commit_name(0))
    assert "which is no regular file" in log_fault(table)
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    assert "a.parquet cannot be used" in data_fault(table, ["a.parquet"])
