"""What a backfill refuses before a run is begun, and the command that shows its runs. No JVM.

Tested here: `cli.runner` and `cli.dagster_home` up to the run. Not tested here: the run (`test_demo.py`, `end_to_end`).
"""

import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets.cli.dagster_home import ui_command
from backfill_assets_tests.operations.synthetic import START, synthetic_lake


def test_a_lake_that_may_not_be_written_is_refused_before_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic_lake(tmp_path, 1)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / "tables")  # root may write everything
    days = ("--from", str(START), "--to", str(START))
    result = CliRunner().invoke(app, ["backfill", "--lake", str(tmp_path), *days])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"Error: {tmp_path / 'tables'}: this user may not write there. Nothing was started" in result.stderr


def test_a_printed_command_can_be_typed_whatever_the_folder_is_called(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path / "my lake; rm -rf $HOME", 1)
    assert f"BACKFILL_ASSETS_LAKE={lake.root}" in shlex.split(ui_command(lake))
