"""`candidate`, `--target` and `snapshot` as a person meets them. No JVM.
Not here: publishing (`candidates.test_candidates`)."""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.end_to_end.month_world import MONTHLY
from backfill_assets_tests.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """`staging` has two versions: of its second day, an event changed and one came."""
    readable_lake(tmp_path)
    return tmp_path


def test_one_is_made_listed_and_thrown_away(lake: Path) -> None:
    made = run("candidate", "create", "v2", "--tables", "features", "--lake", lake)
    assert made.exit_code == 0, made.stderr
    assert "candidate publish v2" in made.stdout
    [listed] = read(run("candidate", "list", "--lake", lake, "--json"))
    assert (listed["name"], listed["folder"], listed["tables"]) == (
        "v2",
        f"{lake}/.candidates/v2",
        ["features"],
    )
    assert (listed["days"], listed["behind"], listed["error"]) == ({"features": ""}, {}, "")
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
    asked = (
        "--partitions",
        "2024-03-01..2024-03-02",
        "--max-parallel",
        "3",
        "--write-mode",
        "overwrite",
    )
    run("plan", "--target", "features_v2", "--tables", "features", *asked, "--lake", lake)
    [made] = read(run("candidate", "list", "--lake", lake, "--json"))
    assert (made["name"], made["tables"]) == ("features_v2", ["features"])


def test_a_snapshot_is_made_listed_shown_queried_and_dropped(lake: Path) -> None:
    more = ("--note", "for the model", "--unfit", "take", "--lake", lake)
    made = run("snapshot", "create", "spring", "--tables", "staging", *more)
    assert made.exit_code == 0, made.output
    [listed] = read(run("snapshot", "list", "--json", "--lake", lake))
    kept = sum(f.stat().st_size for f in (lake / ".snapshots" / "spring").rglob("*.parquet"))
    assert (listed["name"], listed["note"], listed["held_bytes"]) == (
        "spring",
        "for the model",
        kept,
    )
    assert kept, "copies, which share no bytes with the tables"
    assert made.stdout.splitlines()[-1] == f"digest {listed['digest']}"
    shown = run("snapshot", "show", "spring", "--lake", lake).stdout
    assert "2024-03-01..2024-03-02" in shown
    assert read(
        run(
            "sql",
            "SELECT count(*) n FROM staging",
            "--snapshot",
            "spring",
            "--json",
            "--lake",
            lake,
        )
    ) == [{"n": 4}]
    assert "with --yes" in run("snapshot", "drop", "spring", "--lake", lake).stdout
    assert (
        read(run("snapshot", "drop", "spring", "--yes", "--json", "--lake", lake))["dropped"]
        is True
    )
    assert run("snapshot", "list", "--lake", lake).stdout == "This lake has no snapshot.\n"


def test_days_that_are_not_fit_are_refused_with_their_names(lake: Path) -> None:
    days = ("--from", "2024-03-02", "--to", "2024-03-03")
    done = run("snapshot", "create", "x", "--tables", "staging", *days, "--lake", lake)
    assert (done.exit_code, "missing 2024-03-03" in done.stderr) == (1, True)
    assert (
        run(
            "snapshot",
            "create",
            "x",
            "--tables",
            "staging",
            *days,
            "--unfit",
            "take",
            "--lake",
            lake,
        ).exit_code
        == 0
    )
    assert run("snapshot", "create", "y", "--to", "2024-03-02", "--lake", lake).exit_code == 2
    assert run("snapshot", "create", "y", "--tables", "nothing", "--lake", lake).exit_code == 2


def test_a_snapshot_names_the_months_that_its_days_cut_before_it_keeps_any(lake: Path) -> None:
    (lake / "monthly.sql").write_text(MONTHLY)
    with (lake / "lake.toml").open("a") as settings:
        settings.write('\n[pipeline]\nsql = "*.sql"\n[tables.monthly]\nevery = "month"\n')
    days = ("--from", "2024-03-02", "--to", "2024-03-02")
    refused = run("snapshot", "create", "march", "--tables", "monthly", *days, "--lake", lake)
    note, error = refused.stderr.split("Error: ")
    assert "each is taken as a whole: 2024-03-01..2024-03-31" in " ".join(note.split())
    assert "the table monthly was never made" in " ".join(error.split())
