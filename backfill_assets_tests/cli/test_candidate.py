"""`candidate` and `--target` as a person meets them.

Tested here: `cli.candidate`. Not tested here: publishing (`operations.test_candidates`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import read, run

pytestmark = pytest.mark.usefixtures("storages")


def test_one_is_made_listed_and_thrown_away(lake: Path) -> None:
    made = run("candidate", "create", "v2", "--tables", "features", "--lake", lake)
    assert made.exit_code == 0, made.stderr
    assert "candidate publish v2" in made.stdout
    assert read(run("candidate", "list", "--lake", lake, "--json")) == [
        {
            "name": "v2",
            "folder": str(lake / ".candidates" / "v2"),
            "tables": ["features"],
            "days": {"features": ""},
            "behind": {},
            "error": "",
        }
    ]
    assert "candidate v2: features no day; up to date" in run("status", "--lake", lake).stdout
    assert "would be deleted" in run("candidate", "discard", "v2", "--lake", lake).stdout
    assert read(run("candidate", "discard", "v2", "--json", "--lake", lake))["done"] is False
    assert "deleted" in run("candidate", "discard", "v2", "--yes", "--lake", lake).stdout
    assert "no candidates" in run("candidate", "list", "--lake", lake).stdout


def test_commands_work_on_it_by_its_name_and_an_unknown_one_is_refused(lake: Path) -> None:
    run("candidate", "create", "v2", "--tables", "features", "--lake", lake)
    there = read(run("status", "--target", "v2", "--lake", lake, "--json"))
    assert there["lake"] == str(lake / ".candidates" / "v2")
    refused = run("status", "--target", "v3", "--lake", lake)
    assert refused.exit_code == 1
    assert "candidate create v3" in " ".join(refused.stderr.split())


def test_a_plan_makes_the_candidate_that_it_is_for(lake: Path) -> None:
    asked = ("--partitions", "2024-03-01..2024-03-02", "--max-parallel", "3", "--write-mode", "overwrite")
    run("plan", "--target", "features_v2", "--tables", "features", *asked, "--lake", lake)
    [made] = read(run("candidate", "list", "--lake", lake, "--json"))
    assert (made["name"], made["tables"]) == ("features_v2", ["features"])
