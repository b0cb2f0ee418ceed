"""What may be asked of `backfill`, and what is refused before anything starts. No JVM.
Not here: the run (`test_runner`, `end_to_end`)."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.cli.backfill import chosen_tables, foresee_run, is_computed
from backfill_assets.cli.common import Overrides
from backfill_assets.cli.landing_command import BYTES_A_ROW
from backfill_assets.cli.progress import RunOutcome
from backfill_assets.intake.ledger import FILES
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, some_days
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Table
from backfill_assets.pipeline.lake_pipeline import pipeline_of
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import receipt, write_rows
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.intake.test_landed_changes import DAYS, count
from backfill_assets_tests.synthetic import START, Made, build, landed, synthetic_lake


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--from", "2024-01-01", "--to", "2024-03-01"), "before the lake's first day, 2024-02-26"),
        (("--from", "2024-02-26", "--to", "9999-01-01"), "is not over yet (UTC)"),
        (
            ("--from", "2024-02-26", "--to", "2024-02-27", "--tables", "raw,nix"),
            "no table nix. Choose one of raw, ",
        ),
        (("--from", "2024-02-26", "--tables", " , "), "is named"),
        (("--days", "2024-03-01", "--days-from", "DAYS"), "--days-from says the days already"),
        (("--days-from", "nowhere"), "nowhere cannot be read"),
        (("--days-from", "EMPTY"), "it names no day"),
        ((), "which days? Say --from DAY --to DAY, or --days"),
        (("--days", "2024-03-01,x"), "not a date of the form"),
    ],
)
def test_what_cannot_be_backfilled_is_refused_before_anything_starts(
    tmp_path: Path, args: tuple[str, ...], told: str
) -> None:
    synthetic_lake(tmp_path / "lake", 1)
    (tmp_path / "DAYS").write_text(str(START))
    (tmp_path / "EMPTY").write_text("# none")
    here = [tmp_path / a if a in ("DAYS", "EMPTY") else a for a in args]
    result = run("backfill", "--lake", tmp_path / "lake", *here)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_tables_are_chosen_by_name_and_made_upstream_first() -> None:
    known = ["raw", "staging", "features"]
    assert chosen_tables("features, raw", known) == ("raw", "features")
    assert chosen_tables(None, known) == tuple(known)


def test_rows_that_no_table_gets_are_told_in_one_line_also_where_no_run_was_needed(
    tmp_path: Path,
) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 2)
    row = landed(START, datetime.now(UTC)) | {
        "path": "bad.csv",
        "sha256": "x",
        "rows": 1,
        "bad_rows": 1,
    }
    bad = row | {"usable_rows": 0, "note": "not a whole file"}
    write_rows(lake.table_place("files").local(), FILES, [bad], receipt("files", {}))
    told = run(
        "backfill", "--lake", lake.root, "--from", START, "--to", START, "--tables", "staging"
    )
    assert told.exit_code == 0, told.output
    (line,) = [each for each in told.stderr.splitlines() if "unusable" in each]
    assert line.startswith(
        "quarantine: 1 landed row(s) are unusable, 1 of them a whole file each: 1 x bad.csv"
    )


def test_days_that_are_as_their_inputs_say_make_no_run_unless_forced(tmp_path: Path) -> None:
    synthetic_lake(tmp_path / "lake", 3)
    asked = (
        "backfill",
        "--lake",
        tmp_path / "lake",
        "--from",
        START,
        "--to",
        START,
        "--tables",
        "staging,features",
    )
    told = run(*asked)
    assert told.exit_code == 0, told.output
    assert "Nothing changed: every day is as its inputs say, so that no run was made" in " ".join(
        told.stdout.split()
    )
    document = read(run(*asked, "--json"))
    assert document["run_id"] is None
    assert [(t["table"], t["changed"], t["rows"]) for t in document["tables"]] == [
        ("staging", 0, 3),
        ("features", 0, 3),
    ]

    def work(_known: KnownStates, request: Work) -> RunOutcome:
        return RunOutcome("a-run", bool(request.force), (), "", 0.0)

    forced = read(run(*asked, "--force", "--json", overrides=Overrides(work=work)))
    assert (forced["run_id"], forced["success"]) == ("a-run", True)


SPAN = DayRange(START, START + ONE_DAY * DAYS)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Every day is fresh, every file is counted."""
    lake, pipeline = synthetic_lake(tmp_path, DAYS)
    count(lake)
    return lake, pipeline


def test_a_day_that_was_never_made_or_is_stale_needs_a_run(made: Made) -> None:
    lake, pipeline = made
    longer = DayRange(SPAN.start, SPAN.end + ONE_DAY)
    assert foresee_run(KnownStates(lake, pipeline), ["staging"], longer).rows is None
    build(lake, pipeline, "staging", {START: 4})
    assert foresee_run(KnownStates(lake, pipeline), ["staging"], SPAN).rows is not None
    assert foresee_run(KnownStates(lake, pipeline), ["staging", "features"], SPAN).rows is None


def test_what_landed_needs_a_run_of_the_table_that_loads_it_and_of_no_other(made: Made) -> None:
    lake, pipeline = made
    (lake.root / "landing" / "new.jsonl").write_text("{}\n")
    assert foresee_run(KnownStates(lake, pipeline), ["raw"], SPAN).rows is None
    assert foresee_run(KnownStates(lake, pipeline), ["staging"], SPAN).rows == {"staging": 3 * DAYS}


def test_new_files_by_their_sizes_and_receipts_tell_how_many_rows_a_run_reads_first(
    made: Made,
) -> None:
    lake, pipeline = made
    forced = foresee_run(KnownStates(lake, pipeline), ["features"], SPAN, force=True)
    assert forced.rows_to_read == 3 * DAYS, "those of staging on the same days"
    last = DayRange(SPAN.last, SPAN.end)
    forced = foresee_run(KnownStates(lake, pipeline), ["features"], last, force=True)
    assert forced.rows_to_read == 3 * DAYS, "those of the whole window of one day"
    (lake.root / "landing" / "new.jsonl").write_text("{}\n" * 160)
    landed_one = foresee_run(KnownStates(lake, pipeline), ["raw"], SPAN)
    assert landed_one.rows_to_read == 160 * len("{}\n") // BYTES_A_ROW


def test_the_engine_is_started_for_days_to_make_and_not_for_what_will_be_refused(
    made: Made,
) -> None:
    lake, pipeline = made
    longer = DayRange(SPAN.start, SPAN.end + ONE_DAY)
    assert foresee_run(KnownStates(lake, pipeline), ["staging"], longer).needs_engine
    assert not foresee_run(KnownStates(lake, pipeline), ["staging"], SPAN).needs_engine
    assert foresee_run(KnownStates(lake, pipeline), ["staging"], SPAN, force=True).needs_engine
    assert not foresee_run(KnownStates(lake, pipeline), ["features"], longer).needs_engine, (
        "its inputs were never made"
    )
    assert not foresee_run(KnownStates(lake, pipeline), ["raw"], SPAN).needs_engine
    (lake.root / "landing" / "new.jsonl").write_text("{}\n")
    assert foresee_run(KnownStates(lake, pipeline), ["raw"], SPAN).needs_engine
    (lake.root / "landing" / f"{START}.jsonl").unlink()
    assert not foresee_run(KnownStates(lake, pipeline), ["raw"], SPAN).needs_engine, (
        "a file that a day was made from is gone"
    )


def asked_for(lake: Path, *args: object) -> Work:
    """What a command asks a run for."""
    asked: list[Work] = []

    def work(_known: KnownStates, request: Work) -> RunOutcome:
        asked.append(request)
        return RunOutcome("run", True, (), "", 0.0)

    result = run(
        "backfill", "--lake", lake, "--tables", "staging", *args, overrides=Overrides(work=work)
    )
    assert result.exit_code == 0, result.output
    return asked[0]


@pytest.mark.slow
def test_days_that_are_no_range_are_named_in_a_list_or_a_file_and_are_one_run(
    tmp_path: Path,
) -> None:
    synthetic_lake(tmp_path, 5)
    listed, days = (
        tmp_path / "days.txt",
        some_days([START, START + ONE_DAY * 2, START + ONE_DAY * 3]),
    )
    listed.write_text(
        f"# bad ones\n{START}\n\n{START + ONE_DAY * 2}..{START + ONE_DAY * 3}  # two\n"
    )
    text = f"{START},{START + ONE_DAY * 2}..{START + ONE_DAY * 3}"
    assert (
        asked_for(tmp_path, "--days", text).days
        == asked_for(tmp_path, "--days-from", listed).days
        == days
    )
    assert asked_for(tmp_path, "--days", f"{START}..{START + ONE_DAY}").days == DayRange(
        START, START + ONE_DAY * 2
    )
    found = read(
        run("backfill", "--lake", tmp_path, "--tables", "staging", "--days", text, "--json")
    )
    assert (found["from"], found["to"], found["success"]) == (
        str(START),
        str(START + ONE_DAY * 3),
        True,
    )
    assert found["days"] == f"{START},{START + ONE_DAY * 2}..{START + ONE_DAY * 3}"


def test_only_tables_that_assets_return_need_no_engine(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 1)
    own = tables(lake.settings)
    sales = replace(own[1].contract, name="sales", inputs=(), made_by="sales")
    pipeline = pipeline_of(lake, [*own, Table(sales)])
    asked = Work(DayRange(START, START + ONE_DAY), ("sales",))
    assert not is_computed(pipeline, asked)
    assert is_computed(pipeline, replace(asked, tables=("staging", "sales")))
