"""`close`, `reopen` and `closed` as a person types them. Not here: what they do to the tables
(`test_closing`)."""

import pytest

from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")
CLOSE = ("close", "--until", day(3), "--note", "the books of March")


def test_books_are_closed_shown_and_opened_again(made: Planned) -> None:
    assert "No table is closed." in run("closed", on=made).stdout
    said = run(*CLOSE, on=made)
    assert said.exit_code == 0, said.output
    assert f"staging: closed up to {day(3)}, nothing writes these days any more" in said.stdout
    shown = run("closed", on=made).stdout
    assert "the books of March" in shown
    assert "Nothing came late into a closed period." in shown
    shown = run("show", "staging", day(2), on=made).stdout
    assert "closed" in shown
    assert f"all days up to {day(3)} were closed by" in " ".join(shown.split())
    opened = read(run("reopen", "--from", day(2), "--note", "one late bill", "--json", on=made))
    assert opened["tables"] == [
        {"table": table, "before": str(day(3)), "now": str(day(1))}
        for table in ("staging", "features")
    ]


def test_a_reason_is_asked_for(made: Planned) -> None:
    refused = run("close", "--until", day(3), on=made)
    assert refused.exit_code == 2
    assert "--note" in refused.output


def test_status_counts_closed_days_by_their_name(made: Planned) -> None:
    run(*CLOSE, on=made)
    days = read(run("status", "--json", on=made))["days"]
    early = [d for d in days if d["table"] == "staging" and d["day"] <= str(day(3))]
    assert {d["state"] for d in early} == {"closed"}


@pytest.mark.parametrize("command", ["plan", "backfill"])
def test_a_plan_and_a_backfill_of_closed_days_say_why_not(made: Planned, command: str) -> None:
    run(*CLOSE, on=made)
    span = ("--from", day(2), "--to", day(5), "--tables", "staging", "--force")
    said = run(command, *span, on=made)
    assert "closed" in said.output
    assert said.exit_code == 1
