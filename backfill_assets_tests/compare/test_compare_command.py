"""`compare` as a person meets it: lines, JSON, a page, and an exit code for columns that were to be
left alone. Not here: what is compared (`compare.test_compare`)."""

import re
from pathlib import Path

import pytest
from click.testing import Result

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.plans.files import keep_plan
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(made: Planned) -> Planned:
    """Chunk 4 of the plan p1 wrote two days of staging and features again."""
    made.chunk(4, (3, 4), 9)
    return made


def compared(made: Planned, *more: object) -> Result:
    return run("compare", "--table", "staging", "--days", f"{day(0)}..{day(7)}", *more, on=made)


def test_days_columns_and_samples_are_told(made: Planned, tmp_path: Path) -> None:
    told = compared(made, "--from-version", 1)
    assert told.exit_code == 0, told.output
    assert (
        "version 1 to 2: 2 of 8 day(s) differ: 0 row(s) added, 0 removed, 2 changed" in told.stdout
    )
    assert "value=1" in told.stdout
    page = tmp_path / "compare.html"
    found = read(compared(made, "--from-version", 1, "--json", "--html", page))
    assert [d["day"] for d in found["days"]] == [str(day(3)), str(day(4))]
    assert found["statistic"] == "population stability index"
    assert "value=9" in page.read_text()


def test_a_column_that_was_to_be_left_alone_ends_with_exit_code_1(made: Planned) -> None:
    assert compared(made, "--from-version", 1, "--meant", "value").exit_code == 0
    result = compared(made, "--from-version", 1, "--meant", "entity")
    assert result.exit_code == 1
    assert "Not meant to change and changed all the same: value" in result.stdout


def test_a_comparison_with_nothing_is_wrong_usage(made: Planned) -> None:
    result = compared(made)
    assert result.exit_code == 2
    assert "say what to compare with" in result.output


def plan_of_two_chunks(made: Planned) -> str:
    """A plan of staging and features that the lake keeps, whose canary and first chunk wrote."""
    days = DayRange(day(0), day(8))
    plan = make_plan(
        made.lake,
        made.pipeline,
        PlanRequest(days, ("staging", "features"), Policy(chunk="3d", force=True)),
    )
    keep_plan(made.lake, plan)
    made.chunk(1, (0,), 7, plan.id)
    made.write("staging", {7: 5}, "someone")
    made.chunk(2, (1, 2, 3), 8, plan.id)
    return plan.id


def test_what_a_plan_or_a_chunk_of_it_changed_is_told_without_versions(
    made: Planned, tmp_path: Path
) -> None:
    plan = plan_of_two_chunks(made)

    def told(*more: str) -> list[str]:
        """How many days of each table differ."""
        found = run("compare", "--plan", plan[:-1], *more, on=made)
        assert found.exit_code == 0, found.output
        return re.findall(r"(\d+ of \d+) day\(s\) differ", found.output)

    assert told("--chunk", "1") == ["1 of 1", "1 of 1"]
    assert told("--chunk", "2") == ["3 of 3", "3 of 3"]
    assert told() == ["5 of 8", "4 of 8"], "someone wrote a day of staging between them"
    assert told("--table", "features", "--meant", "value") == ["4 of 8"]
    page = tmp_path / "plan.html"
    found = read(run("compare", "--plan", plan, "--json", "--html", page, on=made))
    assert [r["table"] for r in found] == ["staging", "features"]
    assert f"plan {plan}" in page.read_text()


@pytest.mark.parametrize(
    ("args", "told", "code"),
    [
        (("--chunk", "3"), "chunk 3 of it wrote nothing. Nothing was compared", 1),
        (("--chunk", "9"), "it has no chunk 9", 1),
        (("--table", "raw"), "it wrote nothing to raw", 1),
        (("--from-version", "1"), "says days and versions already", 2),
        (("--meant", "value"), "say --table with it, one of staging, features", 2),
    ],
)
def test_what_does_not_go_with_a_plan_is_refused(
    made: Planned, args: tuple[str, ...], told: str, code: int
) -> None:
    done = run("compare", "--plan", plan_of_two_chunks(made), *args, on=made)
    assert told in " ".join((done.output + str(done.exception)).split())
    assert done.exit_code == code
