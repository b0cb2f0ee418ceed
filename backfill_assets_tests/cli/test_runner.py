"""A backfill before its run begins, and after it was interrupted. No JVM.
Not here: the run (`test_demo.py`, `end_to_end`) and signals (`end_to_end.test_interrupts`)."""

import os
import uuid
from pathlib import Path
from typing import NoReturn

import dagster as dg
import pytest

from backfill_assets.cli import runner
from backfill_assets.cli.common import Overrides
from backfill_assets.cli.progress import ProgressLines, RunOutcome
from backfill_assets.dagster.adapter.context import PLAIN
from backfill_assets.dagster.adapter.io_manager import as_failure
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.interrupts import Interrupted
from backfill_assets.kernel.core.plans import Work
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.synthetic import START, build, synthetic_lake


def test_what_an_interrupted_run_had_written_is_told_by_its_receipts(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 3)
    last = START + ONE_DAY * 2
    for table in ("raw", "staging"):
        build(
            lake, pipeline, table, dict.fromkeys(DayRange(START, last + ONE_DAY), 3), run_id="run-1"
        )
    said = runner.written_days_text(lake, ["raw", "staging"], "run-1")
    assert (
        said == f"written before that: raw {START}..{last}; staging {START}..{last}; no other day"
    )
    assert runner.written_days_text(lake, ["raw", "staging"], "another run") == "no day was written"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("no day was written", "Interrupted: no day was written. Run the same command again."),
        ("", "Interrupted: what was not committed is not written. Run the same command again."),
    ],
)
def test_an_interrupted_command_is_one_line_and_exit_code_130(
    tmp_path: Path, words: str, line: str
) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 3)

    def interrupted(*_: object) -> NoReturn:
        raise Interrupted(2, words)

    asked = Work(DayRange(START, START + ONE_DAY), ("raw",))
    days = ("--from", asked.days.start, "--to", asked.days.last)
    done = run("backfill", "--lake", lake.root, *days, overrides=Overrides(work=interrupted))
    assert done.exit_code == 130
    assert done.stderr.strip() == line


def test_a_lake_that_may_not_be_written_is_refused_before_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic_lake(tmp_path, 1)
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path) != tmp_path / "tables"
    )  # root may write everything
    result = run("backfill", "--lake", tmp_path, "--from", START, "--to", START)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert (
        f"Error: {tmp_path / 'tables'}: this user may not write there. Nothing was started"
        in result.stderr
    )


def test_each_table_of_a_run_keeps_its_own_cause(tmp_path: Path) -> None:
    @dg.op(name=PLAIN.step("staging"))
    def one() -> None:
        raise as_failure(BackfillError("the table staging", "no", "Nothing was written", "Look"))

    @dg.op(name=PLAIN.step("labels"))
    def other() -> None:
        raise as_failure(BackfillError("the table labels", "no", "Nothing was written", "Look"))

    @dg.job
    def both() -> None:
        one()
        other()

    run_id = str(uuid.uuid4())
    with (
        ProgressLines(DayRange(START, START + ONE_DAY)) as lines,
        dg.DagsterInstance.ephemeral() as instance,
    ):
        listener = runner._Listener(lines)
        instance.add_event_listener(run_id, listener.on_event)
        both.execute_in_process(instance=instance, run_id=run_id, raise_on_error=False)
    found = RunOutcome("r", False, tuple(listener.ended), listener.cause, 1.0).causes
    assert sorted(found) == [
        f"the table {name}: no. Nothing was written. Look." for name in ("labels", "staging")
    ]
