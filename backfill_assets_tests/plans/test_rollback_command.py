"""`rollback` and `release` as a person types them: shown first, done with --yes, refused in one
line. No JVM."""

import pytest

from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(made: Planned) -> Planned:
    """Chunk 4 of the plan p1 wrote two days of staging and features again."""
    made.chunk(4, (3, 4), 9)
    return made


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
    assert [
        (t["table"], len(t["days"]), t["files_back"], t["files_out"]) for t in done["tables"]
    ] == [("staging", 2, 2, 2), ("features", 2, 2, 2)]
    assert done["stale"] == {"features": [{"from": str(day(5)), "to": str(day(5))}]}
    assert made.values("staging")[3] == 1
    assert not read(run("release", *which, "--json", on=made))["done"]
    assert "held" in {e.entry.built for e in made.view("staging").latest.values()}
    let_go = run("release", *which, "--yes", on=made).stdout
    assert "released" in let_go
    assert "run p1" not in let_go, "no file of the plan p1 is there to run it by"
    assert "held" not in {e.entry.built for e in made.view("staging").latest.values()}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("rollback", "--table", "staging"), "--table needs --from, --to and --to-version N"),
        (("rollback", "--plan", "p1", "--to-version", "3"), "leave out --to-version"),
        (
            ("rollback",),
            "say what: --plan ID (see `plan list`), or a table: `rollback --table NAME --from DAY",
        ),
        (("rollback", "--table", "staging", "--chunk", "4"), "--chunk is one of a plan"),
        (("release", "--plan", "p1", "--days", "2024-03-01"), "days go with a table"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(
    made: Planned, args: tuple[str, ...], told: str
) -> None:
    result = run(*args, on=made)
    assert result.exit_code == 2
    assert told in result.output
