"""A candidate's days made current: at once, refused where they do not fit, taken back as a plan is.
Not here: a publication that is killed (`end_to_end.test_publish_killed`)."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.candidates.candidates import candidate_names, discard_candidate
from backfill_assets.candidates.publications import publish_candidate_days
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.closures import closure_receipt
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError, DaysHeld
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.data_files import column_type_names
from backfill_assets.kernel.tables.staging import Staged, stage_links
from backfill_assets.kernel.tables.versions import unfinished_switches
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.kernel.write.replace import replace_days_locked
from backfill_assets.plans.files import find_plan, keep_plan, set_mark
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets.upkeep.housekeeping import remove_unneeded
from backfill_assets.upkeep.maintain import maintain_tables
from backfill_assets.upkeep.removals import data_file_tokens
from backfill_assets_tests.builders import day
from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.faults import doing_before
from backfill_assets_tests.lakes import LONG_AGO
from backfill_assets_tests.planned import BUILT, DAYS, Planned, with_narrow_staging

pytestmark = pytest.mark.usefixtures("storages")


def test_publishing_makes_all_days_current_by_one_commit_per_table_and_they_are_fresh(
    beside: CandidateWorld,
) -> None:
    beside.build_all(5)
    before = {t: beside.made.view(t).version for t in BUILT}
    request = beside.request()
    shown = publish_candidate_days(request, act=False)
    assert beside.made.values("staging") == [1] * DAYS
    assert [(t.table, len(t.days), t.same) for t in shown.tables] == [
        ("staging", DAYS, 0),
        ("features", DAYS, 0),
    ]
    done = publish_candidate_days(request, act=True)
    assert [(t.table, t.version) for t in done.tables] == [(t, before[t] + 1) for t in BUILT]
    assert {t: beside.made.values(t) for t in BUILT} == dict.fromkeys(BUILT, [5] * DAYS)
    states = request.states()
    assert {states.of(t, day(n)) for t in BUILT for n in range(DAYS)} == {State.FRESH}
    again = publish_candidate_days(request, act=True)
    assert (again.tables[0].same, again.has_written) == (DAYS, False), "once more, nothing moves"
    assert done.has_written
    assert beside.made.view("staging").version == before["staging"] + 1


def test_days_that_no_gate_of_a_plan_passed_are_compared_first_and_the_receipt_says_so(
    beside: CandidateWorld,
) -> None:
    beside.there.write("staging", {0: 1, 1: 5})
    looked = publish_candidate_days(beside.request(), act=False).tables[0]
    assert (looked.same, looked.grounds) == (1, "compared: 0 row(s) added, 0 removed, 1 changed")
    assert (
        publish_candidate_days(beside.request(compares=False), act=False).tables[0].grounds
        == "not compared"
    )
    there, days = beside.there, DayRange(day(0), day(DAYS))
    plan = make_plan(there.lake, there.pipeline, PlanRequest(days, ("staging",), Policy()))
    keep_plan(there.lake, plan)
    there.write("staging", {0: 7, 1: 7}, plan=plan.id, chunk="1")
    assert "compared" in publish_candidate_days(beside.request(), act=False).tables[0].grounds, (
        "the plan is not finished"
    )
    set_mark(there.lake, plan.id, "started")
    set_mark(there.lake, plan.id, "ended", "finished")
    done = beside.publish()
    assert done.tables[0].grounds == f"the gates of plan {plan.id} passed"
    receipt = [c.receipt for c in beside.made.lake.store.commits("staging")][-1]
    assert receipt is not None
    assert receipt.tags["grounds"] == done.tables[0].grounds


def test_days_that_are_held_in_any_table_are_refused_before_the_first_commit(
    beside: CandidateWorld,
) -> None:
    made = beside.made
    made.chunk(1, (3,), 2)
    roll_back(made.lake, made.pipeline, RollbackRequest(plan="p1"), Provenance(""))
    release_days(
        made.lake,
        made.pipeline,
        RollbackRequest(table="staging", days=DayRange(day(3), day(4))),
        Provenance(""),
    )
    beside.build_all(5)
    before = [made.view(t).version for t in BUILT]
    for act in (False, True):
        with pytest.raises(DaysHeld, match=r"features: .* held\. Nothing was written"):
            publish_candidate_days(beside.request(), act=act)
    assert ([made.view(t).version for t in BUILT], unfinished_switches(made.lake)) == (before, ())


def test_an_error_between_two_tables_says_what_is_published_and_how_to_go_on(
    beside: CandidateWorld,
) -> None:
    beside.build_all(5)
    links = beside.there.lake.table_place("features").local()

    def lose() -> None:
        for file in links.rglob("*.parquet"):
            file.unlink()

    published = (
        r"features: .*staging .* published, and readers see all tables as before\. Finish it with "
        r".* publish v2"
    )
    with doing_before(replace_days_locked, lose), pytest.raises(BackfillError, match=published):
        beside.publish(compares=False)
    assert beside.made.values("staging") == [5] * DAYS
    assert len(unfinished_switches(beside.made.lake)) == 1


def test_it_is_refused_where_a_read_of_consumers_would_fail_afterwards(
    beside: CandidateWorld,
) -> None:
    beside.build_all(5)
    lake, told = beside.made.lake, []
    for most in (1, 5):
        read = (
            "SELECT error('too much') FROM staging JOIN features USING (entity) WHERE "
            f"staging.value > {most}"
        )
        gates = lake.settings.gates.model_copy(update={"reads": (read,)})
        reading = replace(lake, settings=lake.settings.model_copy(update={"gates": gates}))
        try:
            publish_candidate_days(beside.request(lake=reading), act=True)
        except BackfillError as error:
            told.append((most, "too much" in str(error), beside.made.values("staging")))
    assert told == [(1, True, [1] * DAYS)]
    assert beside.made.values("staging") == [5] * DAYS


def test_it_is_refused_while_the_lake_has_other_code(beside: CandidateWorld) -> None:
    beside.build_all(5)
    with pytest.raises(BackfillError, match="code or settings of staging are others in the lake"):
        publish_candidate_days(beside.request(deployed=False), act=False)


def test_a_column_that_is_wider_in_the_candidate_gets_its_type_with_the_days_that_are_published(
    tmp_path: Path,
) -> None:
    made = with_narrow_staging(tmp_path)
    beside = CandidateWorld.of(made, "staging")
    beside.there.write("staging", {2: 1 << 40, 3: 5})
    done = beside.publish()
    assert column_type_names(made.lake, "staging")["value"] == "BIGINT"
    made.pipeline = beside.request().pipeline
    assert {made.states().of("staging", day(n)) for n in (2, 3)} == {State.FRESH}
    assert made.values("staging") == [1, 1, 1 << 40, 5, *[1] * (DAYS - 4)]
    roll_back(made.lake, made.pipeline, RollbackRequest(plan=done.id), Provenance("rollback"))
    assert made.values("staging") == [1] * DAYS


def test_it_is_refused_once_an_input_moved_and_goes_on_after_the_day_was_built_again(
    tmp_path: Path,
) -> None:
    beside = CandidateWorld.of(Planned(tmp_path / "lake"), "features")
    beside.there.write("features", dict.fromkeys(range(DAYS), 5))
    beside.made.write("staging", {DAYS - 1: 7})
    with pytest.raises(BackfillError, match=f"{day(DAYS - 1)} of features are stale there"):
        beside.publish()
    assert beside.made.values("features") == [1] * DAYS
    beside.there.write("features", {DAYS - 1: 6})
    beside.publish()
    assert beside.made.values("features") == [5] * (DAYS - 1) + [6]


def test_it_is_refused_while_a_plan_of_the_candidate_waits_for_a_person(
    beside: CandidateWorld,
) -> None:
    beside.build_all(5)
    there = beside.there
    days = DayRange(day(0), day(DAYS))
    plan = make_plan(there.lake, there.pipeline, PlanRequest(days, ("features",), Policy()))
    keep_plan(there.lake, plan)
    set_mark(there.lake, plan.id, "started")
    set_mark(there.lake, plan.id, "stopped", "too many rows", gate="1")
    for act in (False, True):
        with pytest.raises(
            BackfillError,
            match=rf"run {plan.id} --accept 1`.* Nothing was published. Say --target v2",
        ):
            publish_candidate_days(beside.request(), act=act)
    with pytest.raises(BackfillError, match=r"no such plan\. .* Say --target v2"):
        find_plan(beside.made.lake, plan.id)
    assert beside.made.values("staging") == [1] * DAYS
    set_mark(there.lake, plan.id, "ended", "cancelled")
    assert publish_candidate_days(beside.request(), act=True).done


def test_chosen_days_alone_are_published_and_days_that_it_lacks_are_refused(
    beside: CandidateWorld,
) -> None:
    beside.there.write("staging", {1: 5, 2: 5})
    assert beside.publish(days=DayRange(day(1), day(2))).tables[0].days == (day(1),)
    assert beside.made.values("staging")[:3] == [1, 5, 1]
    with pytest.raises(BackfillError, match="it holds no such day"):
        beside.publish(days=DayRange(day(5), day(6)))


def test_published_rows_outlive_the_candidate_and_the_upkeep(beside: CandidateWorld) -> None:
    beside.build_all(5)
    beside.publish()
    discard_candidate(beside.made.lake, "v2")
    assert candidate_names(beside.made.lake) == []
    maintain_tables(beside.made.lake, beside.made.pipeline)
    path = beside.made.lake.table_place("staging").local()
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == DAYS


def test_days_that_the_candidate_builds_again_meanwhile_are_published_as_they_were_looked_at(
    beside: CandidateWorld,
) -> None:
    beside.build_all(5)
    with doing_before(stage_links, lambda: beside.there.write("staging", {0: 9})):
        beside.publish(candidate=replace(beside.there.lake, own=frozenset({"staging"})))
    assert beside.made.values("staging") == [5] * DAYS
    held = audit_table(beside.made.lake, beside.made.contract("staging"))
    latest = beside.made.view("staging").latest
    assert {d: p.fingerprint for d, p in held.items()} == {
        d: r.entry.fingerprint for d, r in latest.items()
    }


def test_the_upkeep_leaves_files_alone_that_a_publication_links_meanwhile_however_old_they_are(
    beside: CandidateWorld,
) -> None:
    beside.build_all(5)
    made, contract = beside.made, beside.made.contract("staging")
    for file in beside.there.lake.table_place("staging").local().rglob("*.parquet"):
        os.utime(file, (LONG_AGO, LONG_AGO))
    linked: list[Staged] = []
    days = made.view("staging").latest

    def link() -> None:
        linked.append(
            stage_links(
                made.lake, contract, beside.there.lake, days, beside.there.view("staging").version
            )
        )

    with doing_before(data_file_tokens, link):
        remove_unneeded(made.lake, contract, utc_now() - timedelta(days=14))
    assert all(Path(f.path).exists() for f in linked[0].files)
    linked[0].drop()


def test_a_table_that_was_closed_since_keeps_all_tables_from_being_published(
    beside: CandidateWorld,
) -> None:
    beside.build_all(5)
    closure = closure_receipt("features", day(1), "booked", {}, opens=False)
    beside.made.lake.store.commit_alone(closure)
    with pytest.raises(DaysHeld, match=f"features: {day(0)}.* closed, with all days up to"):
        publish_candidate_days(beside.request(), act=True)
    assert {t: beside.made.values(t) for t in BUILT} == dict.fromkeys(BUILT, [1] * DAYS)
