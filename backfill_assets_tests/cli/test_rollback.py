"""`rollback` and `release` as a person types them: shown first, done with --yes, refused in one line. No JVM."""

import pytest

from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")


def test_a_chunk_is_shown_then_put_back_then_released(made: Planned) -> None:
    made.write("features", {5: 3})
    which = ("--plan", "p1", "--chunk", "4")
    shown = run("rollback", *which, on=made)
    assert shown.exit_code == 0, shown.output
    assert f"features: {day(5)} will be stale" in shown.stdout
    assert "Nothing was done. Add --yes to do it." in shown.stdout
    assert "by version" not in shown.stdout, "what was not done has no version"
    assert made.values("staging")[3] == 9
    done = read(run("rollback", *which, "--yes", "--json", "--note", "wrong select", on=made))
    assert done["done"]
    assert [(t["table"], len(t["days"]), t["files_back"], t["files_out"]) for t in done["tables"]] == [
        ("staging", 2, 2, 2), ("features", 2, 2, 2)
    ]  # fmt: skip
    assert done["stale"] == {"features": [{"from": str(day(5)), "to": str(day(5))}]}
    assert made.values("staging")[3] == 1
    assert not read(run("release", *which, "--json", on=made))["done"]
    assert "held" in {e.entry.built for e in made.view("staging").latest.values()}
    let_go = run("release", *which, "--yes", on=made).stdout
    assert "released" in let_go
    assert "run p1" not in let_go, "no file of the plan p1 is there to run it by"
    assert "held" not in {e.entry.built for e in made.view("staging").latest.values()}


def test_days_of_a_table_go_back_to_a_version_and_the_command_that_ends_the_hold_is_told(made: Planned) -> None:
    asked = run("rollback", "--table", "staging", "--days", f"{day(3)}..{day(4)}", "--to-version", 1, "--yes", on=made)
    assert asked.exit_code == 0, asked.output
    assert f"Held until: backfill-assets release staging --from {day(3)} --to {day(4)} --yes" in asked.stdout
    assert run("release", "staging", "--days", day(3), "--yes", on=made).exit_code == 0
    assert made.values("staging")[3:5] == [1, 1]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("rollback", "--table", "staging"), "--table needs --from, --to and --to-version N"),
        (("rollback", "--plan", "p1", "--to-version", "3"), "leave out --to-version"),
        (("rollback",), "say what: --plan ID (see `plan list`), or a table: `rollback --table NAME --from DAY"),
        (("rollback", "--table", "staging", "--chunk", "4"), "--chunk is one of a plan"),
        (("release", "--plan", "p1", "--days", "2024-03-01"), "days go with a table"),
        (("release", "staging", "--days", "2024-03-04..2024-03-01"), "before it starts"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(made: Planned, args: tuple[str, ...], told: str) -> None:
    result = run(*args, on=made)
    assert result.exit_code == 2
    assert told in result.output


def test_a_refusal_is_one_line_with_exit_code_1(made: Planned) -> None:
    made.write("staging", {4: 5}, "another-run")
    result = run("rollback", "--plan", "p1", "--chunk", "4", "--yes", on=made)
    assert result.exit_code == 1
    assert "Error: the table staging:" in result.output
    assert "Nothing was put back" in result.output
