"""Good days of a range count: the others stay exactly as if the range had been run without them,
and they alone after. Not here: how Dagster shows such runs
(`dagster.adapter.test_work_tags_kept_back`), and the options of commands (`cli.test_backfill`)."""

import shutil
import tempfile
from collections.abc import Collection
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange, some_days
from backfill_assets.kernel.core.errors import (
    BackfillError,
    ContractBroken,
    InputMissing,
    SettingsError,
)
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.core.write_mode import OnBadDays, WriteMode
from backfill_assets.kernel.place.port import load_lock
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.judging import KeptBack
from backfill_assets.kernel.write.model import make_pipeline
from backfill_assets.pipeline.chosen import TablesOf
from backfill_assets_tests.lakes import (
    backfill,
    configure,
    content,
    death_before_the_ledger,
    delivery,
    land,
    make_lake,
    prepared,
    request,
    snapshot,
    toy,
)
from backfill_assets_tests.strategies import examples

START, DAYS = date(2024, 3, 1), 6
SPAN = DayRange(START, START + ONE_DAY * DAYS)
ALL = frozenset(SPAN)
some = st.sets(st.sampled_from(sorted(ALL)))


def twice(days: Collection[date]) -> list[dict[str, Any]]:
    """A second delivery of the event of each of these days, which a transform that does not group
    makes a row of."""
    return [
        delivery(100 + d.day, f"{d} 11:00:00", f"{d} 09:00:00", f"k{d.day}", value=7)
        for d in sorted(days)
    ]


@pytest.fixture(scope="module")
def landed(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose raw has one event a day; to be copied, never to be worked on."""
    rows = [delivery(d.day, f"{d} 09:00:00", None, f"k{d.day}", value=d.day) for d in SPAN]
    lake = make_lake(tmp_path_factory.mktemp("six"), {"all.jsonl": rows}, START)
    backfill(lake, START, SPAN.last, ["raw"], toy())
    return lake.root


def request_of_days(
    lake: Lake,
    table: str,
    days: DayRange,
    tables_of: TablesOf,
    on_bad_days: OnBadDays = OnBadDays.REFUSE,
) -> RebuildRequest:
    """As `lakes.request`, for days that need not be a range."""
    asked = request(lake, table, days.start, days.last, tables_of)
    return replace(asked, days=days, mode=WriteMode(on_bad_days=on_bad_days))


def copied(lake: Path, folder: str) -> Lake:
    shutil.copytree(lake, Path(folder) / "lake")
    return open_lake(Path(folder) / "lake")


def run(
    lake: Lake,
    table: str,
    days: DayRange,
    tables_of: TablesOf,
    on_bad_days: OnBadDays = OnBadDays.REFUSE,
) -> KeptBack:
    """One run of a table; raises what it is refused for, and returns the days that it kept back."""
    with (
        load_lock(lake.place),
        prepared(request_of_days(lake, table, days, tables_of, on_bad_days)) as rebuild,
    ):
        rebuild.publish()
        return rebuild.kept_back


def receipts(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    """What every receipt of the table says, but for the ids, seconds and bytes of its write."""
    found: list[Receipt] = [c.receipt for c in lake.store.commits(table) if c.receipt is not None]
    return [
        (r.reason, r.days, r.code_digest, r.settings_digest, r.frontier, r.inputs, r.tags)
        for r in found
    ]


def states_of(lake: Lake, tables_of: TablesOf) -> dict[str, dict[date, str]]:
    pipeline = make_pipeline(tables_of(lake.settings))
    states = pipeline.states(read_view(lake, pipeline.contracts))
    return {c.name: {d: states.of(c.name, d).value for d in SPAN} for c in pipeline.contracts}


@settings(max_examples=examples(6), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bad=some, before=some)
def test_a_run_that_keeps_good_days_is_the_run_without_the_bad_ones_and_then_these_alone_refused(
    landed: Path, bad: set[date], before: set[date]
) -> None:
    """`bad` days repeat a key by the new code; the days `before` were made by the old code, of
    earlier deliveries."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        made, good, new = copied(landed, one), ALL - bad, toy("twice")
        if before:
            for table in ("echo", "sums"):
                run(made, table, some_days(before), toy())
        land(made, "again.jsonl", twice(bad))
        backfill(made, START, SPAN.last, ["raw"], toy())
        apart = copied(made.root, other)
        for table in ("echo", "sums"):
            refused_alone = (
                bad if table == "echo" else bad - before
            )  # sums has no row of echo to be made of
            if refused_alone == ALL:
                with pytest.raises(BackfillError, match="Nothing was written"):
                    run(made, table, SPAN, new, OnBadDays.KEEP_GOOD)
            else:
                kept = run(made, table, SPAN, new, OnBadDays.KEEP_GOOD)
                assert kept.days == refused_alone
                run(apart, table, some_days(ALL - refused_alone), new)
            if refused_alone:
                with pytest.raises(ContractBroken if table == "echo" else InputMissing):
                    run(apart, table, some_days(refused_alone), new)
            assert receipts(made, table) == receipts(apart, table)
            assert content(made, table) == content(apart, table)
        assert states_of(made, new) == states_of(apart, new)
        assert {row[0] for row in content(made, "echo")} == {f"k{d.day}" for d in good | before}
        assert not [*(made.root / ".staging" / "echo").iterdir()], "no staged row is left"


def test_the_days_kept_back_are_named_with_cause_and_keys_once_their_rows_go(
    landed: Path, tmp_path: Path
) -> None:
    lake, (bad, other) = copied(landed, str(tmp_path)), (START + ONE_DAY, START + ONE_DAY * 4)
    land(lake, "again.jsonl", twice([bad, other]))
    backfill(lake, START, SPAN.last, ["raw"], toy())
    asked = request_of_days(lake, "echo", SPAN, toy("twice"), on_bad_days=OnBadDays.KEEP_GOOD)
    with prepared(asked) as rebuild:
        version = rebuild.publish().version
        assert rebuild.kept_back.error is not None
        assert str(rebuild.kept_back.error).startswith(
            f"the table echo: unique_key fails on 2 of 6 day(s), first {bad}: 1 row(s) repeat a "
            "key (event_key); for "
            'example {"event_key":"k2"}'
        )
        assert f"{bad}, {other} stayed as they were, the other 4 day(s) were made" in str(
            rebuild.kept_back.error
        )
        assert f"`backfill-assets backfill --days {bad},{other} --tables echo`" in str(
            rebuild.kept_back.error
        )
        refused = next(f for f in rebuild.kept_back.findings if f.refuses)
        assert any("k2" in key for key in rebuild.sample_keys(refused))
        assert {f.day for f in rebuild.findings} == {*rebuild.days} == ALL - {bad, other}
    assert run(lake, "echo", SPAN, toy("twice"), OnBadDays.KEEP_GOOD).days == {bad, other}, (
        "a rerun computes these alone"
    )
    assert lake.store.view("echo", "event_date").version == version, "and commits nothing"
    assert not run(lake, "echo", SPAN, toy("good"), OnBadDays.KEEP_GOOD)
    assert snapshot(lake, toy())["echo"].keys() == ALL


class TestLandedTables:
    """A day of raw that is refused is not loaded: no table beside raw knows a row or a receipt of
    it."""

    ROWS = (
        *(delivery(d.day, f"{d} 09:00:00", None, f"k{d.day}", value=d.day) for d in SPAN),
        delivery(
            50, f"{START + ONE_DAY} 10:00:00", f"{START} 09:00:00", "k1", value=9
        ),  # corrects it
        delivery(
            51, f"{START + ONE_DAY} 10:30:00", f"{START + ONE_DAY} 09:00:00", "k1", value=9
        ),  # moves it
        delivery(52, f"{START + ONE_DAY} 11:00:00", None, "k9", "nonsense"),  # to quarantine
        delivery(53, f"{START + ONE_DAY * 2} 11:00:00", None, "k9", "nonsense"),
    )
    BAD = START + ONE_DAY
    TIGHT, WIDE = {"tables": {"raw": {"max_rows": 2}}}, {"tables": {"raw": {"max_rows": 9}}}

    @pytest.fixture
    def lakes(self, spark: object, tmp_path: Path) -> tuple[Lake, Lake]:
        """Two equal lakes in which the bad day is beyond the bound."""
        one, two = (
            make_lake(tmp_path / name, {"all.jsonl": self.ROWS}, START, gates=self.TIGHT)
            for name in ("one", "two")
        )
        return one, two

    @pytest.mark.parametrize("killed", [False, True])
    def test_a_bad_day_is_not_loaded_and_later_gives_the_same_tables(
        self, lakes: tuple[Lake, Lake], killed: bool
    ) -> None:
        lake, apart = lakes
        if killed:
            with death_before_the_ledger():
                run(lake, "raw", SPAN, toy(), OnBadDays.KEEP_GOOD)
        assert run(lake, "raw", SPAN, toy(), OnBadDays.KEEP_GOOD).days == {self.BAD}
        run(apart, "raw", some_days(ALL - {self.BAD}), toy())
        with pytest.raises(ContractBroken, match="3 rows, more than max_rows"):
            run(apart, "raw", some_days([self.BAD]), toy())
        self.compare(lake, apart)
        assert self.BAD not in snapshot(lake, toy())["quarantine"]
        for each in lakes:
            configure(each.root, START, gates=self.WIDE)
            backfill(each, START, SPAN.last, tables_of=toy())
        self.compare(lake, apart)
        assert snapshot(lake, toy())["raw"][self.BAD][0] == 3
        whole = make_lake(lake.root.parent / "three", {"all.jsonl": self.ROWS}, START)
        backfill(whole, START, SPAN.last, tables_of=toy())
        assert snapshot(whole, toy()) == snapshot(lake, toy())

    def compare(self, lake: Lake, apart: Lake) -> None:
        assert snapshot(lake, toy()) == snapshot(apart, toy())
        assert states_of(lake, toy()) == states_of(apart, toy())
        for table in ("raw", "quarantine", "arrivals", "echo"):
            assert content(lake, table) == content(apart, table)

    def test_a_day_of_a_file_that_was_altered_keeps_no_other_from_being_loaded(
        self, spark: object, tmp_path: Path
    ) -> None:
        lake = make_lake(
            tmp_path, [delivery(d.day, f"{d} 09:00:00", None, f"k{d.day}") for d in SPAN], START
        )
        run(lake, "raw", SPAN, toy())
        land(lake, f"{START}.jsonl", [delivery(1, f"{START} 09:00:00", None, "other")])
        land(lake, "more.jsonl", [delivery(70, f"{SPAN.last} 10:00:00", None, "k70")])
        kept = run(lake, "raw", SPAN, toy(), OnBadDays.KEEP_GOOD)
        assert kept.days == {START}
        assert "(altered)" in str(kept.error)
        assert snapshot(lake, toy())["raw"][SPAN.last][0] == 2


def test_a_run_says_what_it_does_with_bad_days_else_the_settings_of_the_table_do(
    tmp_path: Path,
) -> None:
    lake = configure(tmp_path, START, gates={"tables": {"echo": {"on_bad_days": "keep_good"}}})
    gates = lake.settings.gates

    def written(table: str, **tags: str) -> bool:
        return WriteMode.of_tags(tags).with_default(gates.bounds(table).on_bad_days).keeps_good_days

    assert (written("echo"), written("sums")) == (True, False)
    assert not written("echo", on_bad_days="refuse")
    assert written("sums", on_bad_days="keep_good")
    with pytest.raises(SettingsError, match="'keep' is neither refuse nor keep_good"):
        written("echo", on_bad_days="keep")
