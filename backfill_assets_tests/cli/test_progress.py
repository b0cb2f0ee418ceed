"""What a backfill tells while it works, and its outcome for programs.
Not here: who calls it (`test_runner`)."""

from datetime import date

import pytest

from backfill_assets.cli.progress import ProgressLines, RunOutcome, TableOutcome, outcome_line
from backfill_assets.kernel.core.days import DayRange

DAYS = DayRange(date(2024, 3, 1), date(2024, 3, 4))


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (TableOutcome("raw", 3, 2, 10, 3.21), "3 days, 2 changed, 3.2 s"),
        (TableOutcome("raw", 1, 0, 10, 0.04), "1 day, 0 changed, 0.0 s"),
        (TableOutcome("raw", 2, 1, 10, 1, unit="month"), "2 months, 1 changed, 1.0 s"),
        (
            TableOutcome("raw", 3, 0, 10, 1, rewritten=3),
            "3 days, 0 changed, 3 written again, 1.0 s",
        ),
        (TableOutcome("raw", 0, 0, 0, 7, cause="the disk is full"), "failed after 7.0 s"),
    ],
)
def test_a_table_is_told_in_one_line(outcome: TableOutcome, line: str) -> None:
    assert outcome_line(outcome, DAYS) == f"raw {DAYS}: {line}"


def test_off_a_terminal_only_ends_are_told_and_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressLines(DAYS) as lines:
        lines.started("raw")
        lines.ended(TableOutcome("raw", 3, 2, 10, 3.2))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [f"raw {DAYS}: 3 days, 2 changed, 3.2 s"]


def test_the_outcome_for_programs_tells_failures_as_such() -> None:
    tables = (
        TableOutcome("raw", 3, 2, 10, 1.23456),
        TableOutcome("staging", 0, 0, 0, 0.5, cause="full"),
    )
    said = RunOutcome("run-1", False, tables, "full", 2.00049).to_dict()
    assert (said["run_id"], said["success"], said["cause"], said["seconds"]) == (
        "run-1",
        False,
        "full",
        2.0,
    )
    assert [(t["table"], t["unchanged"], t["failed"]) for t in said["tables"]] == [
        ("raw", 1, False),
        ("staging", 0, True),
    ]
    assert {*said} == {"run_id", "success", "cause", "causes", "seconds", "tables"}
    assert {key for table in said["tables"] for key in table} == {
        "table",
        "days",
        "changed",
        "unchanged",
        "rewritten",
        "rows",
        "seconds",
        "failed",
        "phases",
        "ahead",
        "unlike",
        "incomplete",
        "kept_back",
    }
    assert RunOutcome("run-1", True, (), "", 1).to_dict()["cause"] is None
