"""`backfill-assets plan`: what it prints and refuses, and the marks of a plan.
Not here: running a plan (`end_to_end/test_plan_at_once.py`)."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.planning import versions_of
from backfill_assets_tests.synthetic import START, synthetic_lake

LAST = START + ONE_DAY * 9
RANGE = f"{START}..{LAST}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lake of ten fresh days."""
    return synthetic_lake(tmp_path / "lake", 10)[0].root


def call(root: Path, *words: str) -> Result:
    """One command on the lake."""
    return run("--lake", root, *words)


def forced(root: Path, *more: str) -> Any:
    """A plan of staging on all days, as JSON."""
    return read(
        call(root, "plan", "--partitions", RANGE, "--tables", "staging", "--force", "--json", *more)
    )


def test_a_plan_is_kept_listed_and_shown_as_json_and_as_a_runbook(root: Path) -> None:
    said = forced(root, "--chunk", "3d")
    canary, first = said["chunks"][:2]
    assert (canary["days"], first["days"]) == (
        [str(START)] * 2,
        [str(START + ONE_DAY), str(START + ONE_DAY * 3)],
    )
    assert [p["id"] for p in read(call(root, "plan", "list", "--json"))] == [said["id"]]
    shown = call(root, "plan", "show", said["id"][:-1])
    assert "1  2024-02-26" in shown.output
    assert f"next: backfill-assets run {said['id']}" in shown.output
    runbook = call(root, "plan", "show", said["id"], "--markdown").output
    for part in (
        "# Backfill",
        "## Window, tables, keys",
        "## Preflight",
        "## Steps",
        "rollback --plan",
        "## Pins",
    ):
        assert part in runbook


def test_days_that_need_nothing_make_no_plan_and_one_line(root: Path) -> None:
    before = versions_of(synthetic_lake(root.parent / "other", 10)[0])
    done = call(root, "plan", "--partitions", RANGE, "--tables", "staging")
    told = f"nothing to do: {RANGE} of staging need nothing (--force makes them all the same)\n"
    assert (done.exit_code, done.output) == (0, told)
    assert read(call(root, "plan", "--partitions", RANGE, "--tables", "staging", "--json")) == {
        "id": None,
        "state": "nothing to do",
        "days": [str(START), str(LAST)],
        "tables": ["staging"],
    }
    assert not (root / ".plans").exists()
    assert versions_of(open_lake(root)) == before


def test_append_is_refused_with_the_incident_it_prevents(root: Path) -> None:
    lake = synthetic_lake(root.parent / "other", 2)[0]
    before = versions_of(lake)
    refused = call(
        lake.root, "plan", "--from", str(START), "--to", str(START), "--write-mode", "append"
    )
    assert refused.exit_code == 2
    assert "a backfill by append has doubled three years of sums" in " ".join(
        refused.output.split()
    )
    assert versions_of(lake) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--partitions", RANGE, "--chunk", "40d", "--max-chunk-days", "5"), "--max-chunk-days 9"),
        ((), "which days?"),
        (("--partitions", RANGE, "--canary", "32"), "32 days are no canary"),
        (("--partitions", RANGE, "--canary", "-1"), "is not a date"),
        (("--partitions", RANGE, "--write-mode", "upsert"), "is not one of 'overwrite', 'merge'"),
    ],
)
def test_what_cannot_be_planned_is_refused_and_says_what_to_type(
    root: Path, words: tuple[str, ...], told: str
) -> None:
    refused = call(root, "plan", *words)
    assert refused.exit_code == 2, refused.output
    assert told in " ".join(refused.output.split())
    assert not (root / ".plans").exists()


@pytest.mark.slow
def test_a_plan_can_be_paused_resumed_and_cancelled(root: Path) -> None:
    plan = forced(root)["id"]

    def state() -> str:
        return str(read(call(root, "plan", "list", "--json"))[0]["state"])

    assert state() == "new"
    assert call(root, "plan", "pause", plan, "--note", "lunch").exit_code == 0
    assert state() == "paused"
    assert "plan resume" in call(root, "run", plan).output
    assert call(root, "plan", "resume", plan).exit_code == 0
    assert state() == "new"
    ended = call(root, "plan", "cancel", plan, "--json")
    assert (ended.exit_code, json.loads(ended.stdout)) == (0, {"id": plan, "done": "cancelled"})
    assert state() == "cancelled"
    refused = call(root, "run", plan)
    assert refused.exit_code == 1
    assert "it is cancelled" in refused.output
