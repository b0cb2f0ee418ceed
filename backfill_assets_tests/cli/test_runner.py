"""An interrupted command says what it had written, in one line, and ends as shells expect.

Tested here: `cli.runner.written`, and what the front door makes of an interrupt. Not tested here: real signals
(`lake.test_interrupts`, `end_to_end`).
"""

from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from backfill_assets.cli import backfill, runner
from backfill_assets.cli.app import app
from backfill_assets.cli.progress import Asked, TableOutcome, told
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.lake.interrupts import Interrupted
from backfill_assets_tests.operations.synthetic import START, synthetic_lake


def test_what_an_interrupted_run_had_written_is_told_by_its_receipts(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 3)
    last = START + ONE_DAY * 2
    said = runner.written(lake, ["raw", "staging"], "run-1")
    assert said == f"written before that: raw {START}..{last}; staging {START}..{last}; nothing else"
    assert runner.written(lake, ["raw", "staging"], "another run") == "nothing was written"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("nothing was written", "Interrupted: nothing was written. Run the same command again."),
        ("", "Interrupted: what was not committed is not written. Run the same command again."),
    ],
)
def test_an_interrupted_command_is_one_line_and_exit_code_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, line: str
) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 3)

    def interrupted(*_: object) -> NoReturn:
        raise Interrupted(2, words)

    monkeypatch.setattr(backfill, "work", interrupted)
    asked = Asked(DayRange(START, START + ONE_DAY), ("raw",))
    command = ["backfill", "--lake", str(lake.root), "--from", str(asked.days.start), "--to", str(asked.days.last)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 130
    assert done.stderr.strip() == line


def test_days_that_were_written_again_as_they_were_are_told_apart_from_changed_ones() -> None:
    days = DayRange(START, START + ONE_DAY * 3)
    forced = TableOutcome("staging", days=3, changed=1, rows=9, seconds=1.0, rewritten=2)
    assert told(forced, days).endswith(": 3 days, 1 changed, 2 written again, 1.0 s")
    assert (forced.to_dict()["changed"], forced.to_dict()["rewritten"]) == (1, 2)
