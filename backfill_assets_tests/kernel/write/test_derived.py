"""Building: rows without a day are told before anything is filtered away, and receipts name what
was read. Not here: refusals as Dagster tells them (`end_to_end.test_fault_refusals`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.calendars import parse_calendar
from backfill_assets.kernel.core.contracts import Contract, Input
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, midnight
from backfill_assets.kernel.core.errors import Altered, BackfillError, InputMissing, SettingsError
from backfill_assets.kernel.core.receipts import KEPT, Built, DayEntry
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.core.write_mode import MERGE, MERGE_KEEPING
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.derived import (
    _refuse_days,
    build_candidate,
    merged_entry,
    refuse_merge,
    refuse_unbuildable,
)
from backfill_assets.kernel.write.model import Chunk, Table
from backfill_assets.reports.status import altered_text
from backfill_assets_tests import builders
from backfill_assets_tests.builders import CONTRACTS, RAW, STAGING, day, loaded
from backfill_assets_tests.lakes import (
    ECHO,
    backfill,
    content,
    death_before_the_ledger,
    delivery,
    land,
    make_lake,
    prepared,
    request,
    toy,
)
from backfill_assets_tests.pipeline.built_in import contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.users_do
FIRST = date(2024, 3, 1)
NAMES = {"entity": "STRING", "arrival_date": "DATE", "event_date": "DATE"}  # without value


@pytest.mark.parametrize("table", ["raw", "staging", "labels", "training"])
def test_an_as_of_below_what_is_loaded_is_refused_for_every_table_and_one_above_is_not(
    table: str,
) -> None:
    story, of = loaded(3), DayRange(day(0), day(1))
    story.build_all(day(0))
    asked = next(c for c in CONTRACTS if c.name == table)
    for as_of in (midnight(day(1)), midnight(day(2))):
        story.as_of = as_of
        with pytest.raises(
            SettingsError, match=r"lies before what is loaded already.*Nothing was written"
        ):
            refuse_unbuildable(story.states(), asked, of)
    story.as_of = midnight(day(5))
    refuse_unbuildable(story.states(), asked, of)


def test_a_day_is_refused_where_there_is_no_table_yet_of_the_months_that_it_reads() -> None:
    month, of = parse_calendar("month"), DayRange(day(5), day(6))
    monthly = replace(builders.contract("features", "month", Input("staging")), calendar=month)
    daily = builders.contract("labels", "day", Input("features", calendar=month))
    story = loaded(6).build("staging", *map(day, range(6)))
    story.contracts = (RAW, STAGING, monthly, daily)
    lacks = "it is made from features for 2024-03-01, which were never made. Nothing was written"
    with pytest.raises(InputMissing, match=lacks):
        refuse_unbuildable(story.states(), daily, of)
    story.build("features", FIRST)
    refuse_unbuildable(story.states(), daily, of)


def test_a_first_day_after_days_that_tables_hold_is_refused_for_every_table() -> None:
    story, of = loaded(3), DayRange(day(2), day(3))
    story.build_all(*map(day, range(3)))
    wanted = (
        rf"{day(2)} lies after {day(0)}\.\.{day(1)}, .*Nothing was written\. Lower it to {day(0)} "
        r"again"
    )
    for asked in (c for c in CONTRACTS if c.name in ("raw", "staging", "labels")):
        story.start = day(2)
        with pytest.raises(SettingsError, match=wanted):
            refuse_unbuildable(story.states(), asked, of)
        story.start = day(0)
        refuse_unbuildable(story.states(), asked, of)


def test_days_whose_deliveries_lack_a_column_are_refused_unless_they_are_up_to_date() -> None:
    story = loaded(6).build_all(*map(day, range(6)))
    story.rewrite("raw", day(4), columns=NAMES).finish()
    states, staging = story.states(), next(c for c in CONTRACTS if c.name == "staging")
    staging = replace(staging, columns=tuple(replace(c, nullable=False) for c in staging.columns))
    assert states.undelivered_columns("staging", day(4)) == {"value"}
    with pytest.raises(
        InputMissing, match=rf"raw {day(4)} was loaded without value, which is never NULL"
    ):
        _refuse_days(states, staging, (), DayRange(day(3), day(5)))
    _refuse_days(states, staging, [day(4)], DayRange(day(3), day(5)))


def test_a_receipt_names_the_version_of_raw_that_was_read_not_one_without_ledger(
    spark: object, tmp_path: Path
) -> None:
    lake = make_lake(tmp_path, [delivery(1, f"{FIRST} 10:00:00", None, "k")], FIRST)
    backfill(lake, FIRST, FIRST, ["raw"], toy())
    named = LOGS.state(lake.table_place("raw"), "arrival_date").version
    land(
        lake,
        "next.jsonl",
        [delivery(2, f"{FIRST + ONE_DAY} 10:00:00", f"{FIRST} 10:00:00", "late")],
    )
    with death_before_the_ledger():
        backfill(lake, FIRST + ONE_DAY, FIRST + ONE_DAY, ["raw"], toy())
    assert LOGS.state(lake.table_place("raw"), "arrival_date").version > named
    backfill(lake, FIRST, FIRST, ["echo"], toy())
    assert LOGS.state(lake.table_place("echo"), "event_date").inputs == {"raw": named}


@dataclass(frozen=True)
class Noting(LakeSession):
    """A session that notes which days it was asked to read."""

    read_days: list[set[date] | None] = field(default_factory=list)

    def read(
        self, table: str, version: int, day_column: str, days: Iterable[date] | None = None
    ) -> "DataFrame":
        """One reading more."""
        self.read_days.append(None if days is None else set(days))
        return super().read(table, version, day_column, days)


def test_days_far_apart_are_made_from_one_reading_of_their_own_deliveries(
    spark: object, tmp_path: Path
) -> None:
    days = [FIRST + ONE_DAY * n for n in range(6)]
    world = make_lake(
        tmp_path,
        [delivery(n, f"{d} 10:00:00", None, f"k{n}") for n, d in enumerate(days[:5])],
        FIRST,
    )
    backfill(world, FIRST, days[4], ["raw", "staging"])
    late = [
        delivery(9 + n, f"{days[5]} 10:00:00", f"{days[n]} 10:00:00", f"late{n}") for n in (0, 4)
    ]
    land(world, "late.jsonl", late)
    backfill(world, days[5], days[5], ["raw"])
    asked = request(world, "staging", FIRST, days[4])
    noting = Noting(asked.lake_session.lake)
    candidate = build_candidate(replace(asked, lake_session=noting))
    try:
        assert noting.read_days == [{days[0], days[4], days[5]}]
        assert candidate.settled == set(days[1:4])
        assert [candidate.profiles[d].rows for d in days[:5]] == [2, 1, 1, 1, 2]
    finally:
        candidate.release()


TABLES = [("raw", contract("raw"), "echo"), ("echo", ECHO, "sums")]


@pytest.mark.parametrize(("table", "contract", "below"), TABLES)
def test_an_altered_input_is_refused_by_name_and_mended_by_making_its_day_again(
    spark: object, tmp_path: Path, table: str, contract: Contract, below: str
) -> None:
    lake = make_lake(
        tmp_path, [delivery(1, f"{FIRST} 02:00:00", f"{FIRST} 02:00:00", "k", value=7)], FIRST
    )
    backfill(lake, FIRST, FIRST, tables_of=toy())
    before = content(lake, "sums")
    [file] = lake.store.data_files(contract)
    Path(file).write_bytes(Path(file).read_bytes() + b"x")
    assert altered_text(lake, contract)
    with pytest.raises(
        Altered, match=rf"the table {table}: the data file .* was altered: .*It was not read"
    ):
        backfill(lake, FIRST, FIRST, [below], toy(), force=True)
    assert content(lake, "sums") == before
    backfill(lake, FIRST, FIRST, [table], toy(), force=True)
    assert altered_text(lake, contract) == ""
    backfill(lake, FIRST, FIRST, [below], toy(), force=True)
    assert content(lake, "sums") == before


DAY = FIRST


def test_what_landed_and_files_of_several_days_are_never_merged() -> None:
    with pytest.raises(
        BackfillError, match="the table raw: its days cannot be merged: it holds every delivery"
    ):
        refuse_merge(contract("raw"))
    with pytest.raises(BackfillError, match="its files hold several days each"):
        refuse_merge(replace(ECHO, partition_by="event_key"))
    refuse_merge(ECHO)


def test_a_day_that_keeps_nothing_says_what_an_overwrite_says() -> None:
    entry = DayEntry(3, "F", "digest")
    assert merged_entry(entry, 0) is entry
    assert (merged_entry(entry, 2).built, merged_entry(entry, 2).counts) == (
        Built.MERGED,
        {KEPT: 2},
    )


def below(most: int, settings: LakeSettings) -> tuple[Table, ...]:
    """raw, and those of its rows whose value is below."""

    def transform(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
        rows = frames["raw"].selectExpr("event_key", "value", "to_date(event_ts) event_date")
        return rows.where(
            rows.event_date.between(chunk.days.start, chunk.days.last) & (rows.value < most)
        )

    return Table(contract("raw")), Table(ECHO, transform, {"most": most}, (__name__,))


def test_rows_that_a_correction_removed_are_refused_or_kept_or_overwritten(
    spark: object, tmp_path: Path
) -> None:
    rows = [delivery(n, f"{DAY} 10:00:00", None, f"k{n}", value=n) for n in (1, 2, 3)]
    lake = make_lake(tmp_path, rows, DAY)

    loose, strict = partial(below, 9), partial(below, 3)
    backfill(lake, DAY, DAY, None, loose)
    before, asked = content(lake, "echo"), request(lake, "echo", DAY, DAY, strict)
    told = r"1 row\(s\) that stand on 2024-03-01 .*k3.*--keep-removed"
    with pytest.raises(BackfillError, match=told), prepared(replace(asked, mode=MERGE)):
        pass
    assert content(lake, "echo") == before
    with prepared(replace(asked, mode=MERGE_KEEPING)) as rebuild:
        rebuild.publish()
    assert content(lake, "echo") == before
    states = asked.pipeline.states(read_view(lake, asked.pipeline.contracts))
    assert states.of("echo", DAY) is State.OUTDATED
    with prepared(replace(asked, mode=MERGE_KEEPING)) as again:
        assert again.ready.settled == {DAY}
    backfill(lake, DAY, DAY, ["echo"], strict)
    assert len(content(lake, "echo")) == 2
    states = asked.pipeline.states(read_view(lake, asked.pipeline.contracts))
    assert states.of("echo", DAY) is State.FRESH


def test_a_lake_whose_engine_audits_has_the_receipts_of_one_that_duckdb_audits(
    spark: object, tmp_path: Path
) -> None:
    rows = [
        delivery(
            n,
            f"2024-03-0{2 + n % 4} 02:00:00",
            f"2024-03-0{1 + n % 3} 02:00:00",
            f"k{n % 9}",
            "delete" if n == 7 else "upsert",
            None if n == 5 else f"e{n % 4}",
            None if n == 6 else n * n - 90,
        )
        for n in range(24)
    ]
    found = []
    for engine in ("duckdb", "engine"):
        lake = make_lake(tmp_path / engine, rows, FIRST, audit={"engine": engine})
        backfill(lake, FIRST, "2024-03-03", ["raw", "staging", "features_as_known", "labels"])
        backfill(lake, FIRST, FIRST, ["staging"], force=True)
        view = read_view(lake, [*CONTRACTS])
        found.append(
            {c.name: {d: r.entry for d, r in view.table(c.name).latest.items()} for c in CONTRACTS}
        )
    assert found[0] == found[1]
    filled = {name for name, days in found[0].items() if any(e.rows for e in days.values())}
    assert filled >= {"raw", "staging", "features_as_known", "labels"}
