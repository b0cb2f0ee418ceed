"""Running plans: from wherever they stand, a gate after each chunk, and nothing beyond a gate that
refuses.

Tested here: `plans.run` with a worker that writes without an engine. Not tested here: the runs
of Dagster behind it (`end_to_end/test_plan_at_once.py`).
"""

from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.kernel.core.errors import BackfillError, GateRefused
from backfill_assets.kernel.core.plans import PLAN_TAG
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.core.write_mode import MERGE_KEEPING, WriteMode
from backfill_assets.kernel.tables.data_files import files_of_version
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.plans.files import mark_text, set_mark
from backfill_assets.plans.model import Plan
from backfill_assets.plans.policy import Tolerances
from backfill_assets.plans.progress import Progress
from backfill_assets.plans.run import activate_plan, run_plan
from backfill_assets_tests.logs import versions
from backfill_assets_tests.planning import (
    DAYS,
    HandWorker,
    Killed,
    bare_staging,
    good_rows,
    planned,
    versions_of,
    write_by_hand,
)
from backfill_assets_tests.synthetic import Made

pytestmark = pytest.mark.usefixtures("storages")
ALL = [
    "made 2024-02-26",
    "gate 1",
    "made 2024-02-27..2024-02-29",
    "gate 2",
    "made 2024-03-01..2024-03-03",
    "gate 3",
    "made 2024-03-04..2024-03-06",
    "gate 4",
    "gate 5",
]


def run(
    lake: Lake, pipeline: Pipeline, plan: Plan, accepted: int = 0, **worker: Any
) -> tuple[Progress, list[str]]:
    """Run it by hand; what it came to, and what was done."""
    by = HandWorker(lake, pipeline, **worker)
    return run_plan(lambda: (lake, pipeline), plan, by, accepted), by.told


def fingerprints(lake: Lake, pipeline: Pipeline) -> dict[date | None, str]:
    """What staging holds, by a reader that did not write it."""
    return {
        d: p.fingerprint for d, p in audit_table(lake, pipeline.table("staging").contract).items()
    }


def test_a_plan_runs_canary_and_chunks_in_order_and_ends(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    now, told = run(lake, pipeline, plan)
    assert told == ALL
    assert (now.state, now.is_done) == ("finished", True)
    chunks = [c.took for c in now.chunks if c.took is not None]
    assert [c.cpu for c in chunks] == [1.5] * 4, "what receipts tell stands beside the price"
    took = now.took("staging")
    assert took is not None
    assert (took.seconds > 0, took.cpu, took.rows) == (True, 6.0, sum(c.rows for c in chunks))
    assert took.bytes == sum(c.bytes or 0 for c in chunks) > 0
    assert took.bytes == sum(
        f.size for f in files_of_version(lake, pipeline.table("staging").contract)
    )


def _opened(lake: Lake, pipeline: Pipeline) -> Made:
    return lake, pipeline


def test_a_finished_plan_that_is_run_again_is_finished_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    run(lake, pipeline, plan)
    before = versions_of(lake)
    known = pipeline.codes["staging"]
    moved = replace(
        pipeline, codes={**pipeline.codes, "staging": replace(known, code_digest="other")}
    )
    for today in (pipeline, moved):  # what moved since is of no concern to it
        worker = HandWorker(lake, today)
        now = run_plan(partial(_opened, lake, today), plan, worker)
        assert (now.state, worker.told, activate_plan(lake, today, plan)) == ("finished", [], False)
        assert worker.lines == [f"plan {plan.id} is finished: nothing was left to run"]
    assert versions_of(lake) == before


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose plan ran through; to be looked at only."""
    lake, pipeline = bare_staging(tmp_path_factory.mktemp("undisturbed"))
    run(lake, pipeline, planned(lake, pipeline))
    return lake


@pytest.mark.parametrize("dies_after", [False, True])
@pytest.mark.parametrize("dies_at", [1, 3])
def test_killed_at_any_chunk_a_rerun_ends_as_if_undisturbed(
    tmp_path: Path, undisturbed: Lake, dies_at: int, dies_after: bool
) -> None:
    lake, pipeline = bare_staging(tmp_path / "killed")
    plan = planned(lake, pipeline)
    with pytest.raises(Killed):
        run(lake, pipeline, plan, dies_at=dies_at, dies_after=dies_after)
    now, told = run(lake, pipeline, plan)
    # Nothing is made twice, no gate is skipped: the newest is taken again until a receipt of a
    # later chunk proves it.
    assert told == ALL[max(2 * dies_at - (1 if dies_after else 3), 0) :]
    assert now.state == "finished"
    assert fingerprints(lake, pipeline) == fingerprints(undisturbed, pipeline)
    assert len(versions(lake.table_place("staging"))) == len(
        versions(undisturbed.table_place("staging"))
    )


def test_a_failing_run_is_tried_as_often_as_the_plan_allows_and_stops_it(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline, retries=2)
    by = HandWorker(lake, pipeline, fails_at=2)
    with pytest.raises(BackfillError, match="the server is gone"):
        run_plan(lambda: (lake, pipeline), plan, by)
    assert by.told == ["made 2024-02-26", "gate 1", "failed 2", "failed 2", "failed 2"]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_at_most_max_parallel_chunks_run_at_once_and_so_many_do(tmp_path: Path, most: int) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline, chunk="1d", max_parallel=most)
    by = HandWorker(lake, pipeline)
    assert run_plan(lambda: (lake, pipeline), plan, by).state == "finished"
    assert by.most_at_once == most
    assert [t for t in by.told if t.startswith("gate")] == [f"gate {n}" for n in range(1, 12)]


def test_killed_among_chunks_that_run_at_once_no_gate_is_skipped(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline, chunk="1d", max_parallel=3)
    with pytest.raises(Killed):
        run(
            lake, pipeline, plan, dies_at=4, dies_after=True
        )  # 2 and 3 of its wave are written, none is judged
    _, told = run(lake, pipeline, plan)
    assert told[:3] == ["gate 2", "gate 3", "gate 4"]


def test_days_of_another_active_plan_are_refused(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    one, other = planned(lake, pipeline), planned(lake, pipeline)
    with pytest.raises(Killed):
        run(lake, pipeline, one, dies_at=2)
    before = versions_of(lake)
    with pytest.raises(
        BackfillError,
        match=f"the plan {one.id} is active and has 2024-02-26..2024-03-06 of staging",
    ):
        run(lake, pipeline, other)
    assert versions_of(lake) == before
    set_mark(lake, one.id, "ended", "cancelled")
    assert run(lake, pipeline, other)[0].state == "finished"


def test_a_pin_that_moved_is_refused_with_both_digests(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    with pytest.raises(Killed):
        run(lake, pipeline, plan, dies_at=3)
    before, known = versions_of(lake), pipeline.codes["staging"]
    changed = replace(
        pipeline, codes={**pipeline.codes, "staging": replace(known, code_digest="other")}
    )
    with pytest.raises(
        BackfillError, match=f"the code of staging was {known.code_digest}, is other"
    ):
        run_plan(lambda: (lake, changed), plan, HandWorker(lake, changed))
    assert versions_of(lake) == before


def test_the_gate_finds_files_that_are_not_what_the_receipt_says(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    with pytest.raises(Killed):
        run(lake, pipeline, plan, dies_at=1, dies_after=True)
    other, _ = bare_staging(tmp_path / "other")
    write_by_hand(other, pipeline, DAYS, lambda d: good_rows(d)[:7])
    (file,) = _first_files(lake)
    (file_of_7_rows,) = _first_files(other)
    file.write_bytes(file_of_7_rows.read_bytes())
    with pytest.raises(BackfillError, match=r"read-back: the receipt says 30 rows .* the files 7"):
        run(lake, pipeline, plan)


def test_a_gates_finding_is_told_where_the_chunk_cannot_be_put_back(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    plan = planned(lake, pipeline, on_failure="rollback")
    for file in _first_files(lake):
        file.rename(file.with_suffix(".gone"))
    with pytest.raises(GateRefused) as refused:
        run(lake, pipeline, plan, rows=lambda d: good_rows(d)[:3])
    told = str(refused.value)
    assert "staging 2024-02-26 rows: 30 rows before, 3 now" in told
    assert (
        "The chunk is written, no later one was run; putting it back failed: the table staging: 1 "
        "of 1 file(s)" in told
    )
    assert (
        refused.value.facts["rollback"]
        == f"backfill-assets rollback --plan {plan.id} --chunk 1 --yes"
    )
    assert told in (mark_text(lake, plan.id, "stopped") or "")


def _first_files(lake: Lake) -> list[Path]:
    return [
        p
        for p in lake.table_place("staging").local().rglob("*.parquet")
        if "event_date=2024-02-26" in p.parts
    ]


def test_a_merge_keeps_what_was_removed_says_so_and_is_done_when_it_is_planned_again(
    tmp_path: Path,
) -> None:
    lake, pipeline = bare_staging(tmp_path)
    write_by_hand(lake, pipeline, DAYS, good_rows)
    merging: dict[str, Any] = {
        "write_mode": "merge",
        "keep_removed": True,
        "tolerances": Tolerances(rows=None),
    }
    now, _ = run(
        lake, pipeline, planned(lake, pipeline, **merging), rows=lambda day: good_rows(day)[:20]
    )
    assert now.state == "finished"
    assert {p.rows for p in audit_table(lake, pipeline.table("staging").contract).values()} == {30}
    assert {now.states.of("staging", d) for d in DAYS} == {State.OUTDATED}
    assert [c.took.kept for c in now.chunks if c.took] == [10, 30, 30, 30]
    receipts = [
        c.receipt for c in lake.store.commits("staging") if c.receipt and PLAN_TAG in c.receipt.tags
    ]
    assert {WriteMode.of_tags(r.tags) for r in receipts} == {MERGE_KEEPING}
    again, told = run(lake, pipeline, planned(lake, pipeline, force=False, **merging))
    assert (again.state, [t for t in told if t.startswith("made")]) == ("finished", [])
    over, told = run(lake, pipeline, planned(lake, pipeline, force=False))
    assert len([t for t in told if t.startswith("made")]) == 4, (
        "an overwrite does not take a merged day for right"
    )
    assert {over.states.of("staging", d) for d in DAYS} == {State.FRESH}
