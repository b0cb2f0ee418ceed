"""DuckDB in tasks on other machines: the figures of this process's, of what engines may count
otherwise, and files that are written again there.

Lives here: tasks run by this process in place of an engine's Python, on moto. Does not live here:
how tasks are run (`test_machines`), and an engine that runs them
(`end_to_end.test_bucket_elsewhere`).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.engines.auditor import EngineAuditor
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.machine_audit import MachinesAuditor, file_groups
from backfill_assets.engines.settings import AuditSettings
from backfill_assets.kernel.core.contracts import Rule
from backfill_assets.kernel.place.choice import MACHINE
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.staging import StagedFile
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.kernel.write.session import DuckDBAuditor
from backfill_assets.upkeep.housekeeping import compact_files
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.end_to_end.test_bucket_lake import bare_bucket, machine
from backfill_assets_tests.files import stage_by_hand
from backfill_assets_tests.intake.test_taking import Engine
from backfill_assets_tests.upkeep.test_housekeeping import (
    WHOLE,
    files_by_day,
    publish_in_parts,
    split,
)

pytestmark = pytest.mark.slow  # it needs a server of moto's
ODD = replace(STAGING, rules=(Rule("short", "length(entity) < 3", "r"),))


@pytest.fixture
def lake(bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """In a bucket, with an engine elsewhere whose tasks this process runs."""
    monkeypatch.setenv("BACKFILL_ASSETS__SPARK__ENGINE", "sc://127.0.0.1:1")
    monkeypatch.setenv("BACKFILL_ASSETS__AUDIT__ENGINE_FROM_MIB", "0")
    return bare_bucket(bucket_address, tmp_path)


class ThereSession(LakeSession):
    """A session of an engine elsewhere, whose tasks this process runs."""

    engine_there = Engine()

    def spark(self) -> Any:
        return self.engine_there


def copies(lake: Lake) -> Iterator[Path]:
    return (lake.root / MACHINE).glob("copies/**/*.parquet")


def test_a_table_that_only_duckdb_judges_is_counted_there_with_the_same_figures(
    lake: Lake,
) -> None:
    staged = split(lake, 0)
    sent = stage_by_hand(lake, STAGING, [{"entity": "long", "value": 1, "event_date": day(1)}])
    files = (*staged.files, *sent.files)
    staged.files, parts = files, {"some": ("entity", "event_date")}
    expected = DuckDBAuditor(lake).profiles(ODD, staged, parts)
    expected_facts = list(DuckDBAuditor(lake).answers(ODD, facts, files, where="value < 10"))
    staged.table.sync_new([f.name for f in files])
    auditor = ThereSession(lake).auditor(ODD, files)
    assert isinstance(auditor, MachinesAuditor)
    auditor = replace(auditor, task_bytes=1)
    assert auditor.profiles(ODD, staged, parts) == expected
    assert {f.engine_digest for f in staged.files} == {f.digest() for f in files}
    found = auditor.answers(ODD, facts, files, where="value < 10")
    assert sorted(row for _, rows in found for row in rows) == sorted(
        row for _, rows in expected_facts for row in rows
    )


def facts(rows: str) -> str:
    """A query of one's own."""
    return f"SELECT event_date, sum(length(entity)) AS letters FROM ({rows}) GROUP BY 1"


def test_the_engine_counts_what_it_counts_alike_and_this_process_small_files(lake: Lake) -> None:
    staged, session = split(lake, 0), LakeSession(lake)
    assert isinstance(session.auditor(STAGING, staged.files), EngineAuditor)
    assert isinstance(session.auditor(STAGING, staged.files, is_duckdbs=True), MachinesAuditor)
    settings = lake.settings.model_copy(update={"audit": AuditSettings()})
    small = LakeSession(replace(lake, settings=settings))
    assert isinstance(small.auditor(ODD, staged.files), DuckDBAuditor)
    ledger = session.auditor(replace(STAGING, partition_by="entity"), staged.files)
    assert isinstance(ledger, MachinesAuditor)
    assert isinstance(ledger.rows, DuckDBAuditor), "Spark would read other folders"
    staged.drop()


def test_files_are_grouped_by_day_and_all_together_where_any_may_hold_a_day(
    lake: Lake,
) -> None:
    def file(name: str, number: int) -> StagedFile:
        return StagedFile(lake.place, name, str(day(number)), listed=10)

    stands, comes = [file("a", 0), file("b", 1)], [file("c", 2), file("d", 0)]
    found = [
        [[f.name for f in side] for side in group]
        for group in file_groups(STAGING, stands, comes, task_bytes=25)
    ]
    assert found == [[["a", "b"], ["d"]], [[], ["c"]]]
    ledger = replace(STAGING, partition_by="entity")
    assert len(file_groups(ledger, stands, comes)) == 1
    assert file_groups(ledger, [], []) == []


def test_days_of_a_version_are_counted_and_asked_about_there_and_no_row_comes_here(
    lake: Lake,
) -> None:
    """As the gates of a plan ask after a chunk; of a query over several days, once for all."""
    for number in (0, 1):
        publish_in_parts(lake, number)
    days, version, session = [day(0), day(1)], lake.store.head("staging"), ThereSession(lake)
    expected = audit_table(lake, STAGING, version, days)

    def pairs(rows: str) -> str:
        return f"SELECT count(*), sum(a.value + b.value) FROM ({rows}) AS a, ({rows}) AS b"

    for copy in copies(lake):
        copy.unlink()
    assert session.profiles_of_version(STAGING, version, days) == expected
    assert session.profiles_of_version(STAGING, None, [day(0)]) == {day(0): expected[day(0)]}
    asked = session.whole_answer(STAGING, version, days, pairs)
    assert not [*copies(lake)]
    settings = lake.settings.model_copy(update={"audit": AuditSettings()})
    small = LakeSession(replace(lake, settings=settings))
    assert small.whole_answer(STAGING, version, days, pairs) == asked
    assert small.profiles_of_version(STAGING, version, days) == expected


def test_days_in_many_files_are_written_again_there_and_no_row_comes_here(
    lake: Lake, bucket_address: str, tmp_path: Path
) -> None:
    for number, parts in enumerate((3, 3, 1)):
        publish_in_parts(lake, number, parts)
    there = open_lake(machine(bucket_address, tmp_path / "another"))
    held = audit_table(lake, STAGING)
    assert [*compact_files(ThereSession(there), STAGING, WHOLE)] == [str(day(0)), str(day(1))]
    assert files_by_day(lake) == [1, 1, 1]
    assert audit_table(lake, STAGING) == held
    assert list(copies(there)) == []
