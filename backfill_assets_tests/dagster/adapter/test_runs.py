"""Runs of one lake as Dagster records them: metadata and verdicts per day, data versions, buttons
without a partition.

Tested here: what a person sees of good runs. Not tested here: refusals
(`end_to_end.test_fault_refusals`), deaths, and what the tables must hold.
"""

import logging
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.alerts import WEBHOOK
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import find_version
from backfill_assets_tests.homes import opened_home
from backfill_assets_tests.lakes import content, delivery, land, make_lake, run_rebuild, toy

pytestmark = pytest.mark.usefixtures("spark")
FIRST, LAST = "2024-03-01", "2024-03-04"
TABLES = ("raw", "echo", "sums")
DAYS = [f"2024-03-0{n}" for n in range(1, 5)]


class Ran:
    """A lake, its Dagster instance, and the run that made its days."""

    def __init__(self, lake: Lake, instance: dg.DagsterInstance) -> None:
        self.lake, self.instance = lake, instance
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(WEBHOOK, "nowhere")  # who tries to alert says so
            self.result = run_rebuild(lake, FIRST, LAST, instance, None, toy())
        self.latest = {t: LOGS.state(lake.table_place(t), "event_date").latest for t in TABLES}
        self.recorded = {(t, d): metadata(instance, t, d) for t in TABLES for d in DAYS}

    def checked(self, table: str) -> dict[str, tuple[bool, dict[str, Any]]]:
        """Run the checks of a table without a partition, as its button does; passed and metadata
        per check."""
        definitions = assemble(self.lake.root, toy())
        job = dg.define_asset_job("checks", dg.AssetSelection.checks_for_assets(table))
        whole = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job]))
        done = whole.resolve_job_def("checks").execute_in_process(
            instance=self.instance, raise_on_error=False
        )
        told = done.get_asset_check_evaluations()
        return {e.check_name: (e.passed, {k: v.value for k, v in e.metadata.items()}) for e in told}


@pytest.fixture(scope="module")
def ran(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Four days of a toy pipeline, run once; tests add days of their own or only look."""
    rows = [delivery(n, f"{d} 09:00:00", None, f"k{n}", value=n) for n, d in enumerate(DAYS, 1)]
    bad = delivery(9, f"{LAST} 10:00:00", None, "bad", op="no such operation")
    lake = make_lake(
        tmp_path_factory.mktemp("ran"), {"a.jsonl": [*rows, rows[0]], "b.jsonl": [bad]}, FIRST
    )
    with opened_home(tmp_path_factory.mktemp("home")) as instance:
        yield Ran(lake, instance)


def metadata(instance: dg.DagsterInstance, table: str, day: str) -> dict[str, Any]:
    wanted = dg.AssetRecordsFilter(dg.AssetKey(table), asset_partitions=[day])
    (record,) = instance.fetch_materializations(wanted, limit=1).records
    assert record.asset_materialization is not None
    return {k: v.value for k, v in record.asset_materialization.metadata.items()}


def test_every_day_of_a_range_run_has_its_own_metadata_that_agrees_with_its_receipt(
    ran: Ran,
) -> None:
    assert ran.result.success
    for table in TABLES:
        for day in DAYS:
            said, receipt = ran.recorded[table, day], ran.latest[table][date.fromisoformat(day)]
            assert said["dagster/partition_row_count"] == receipt.entry.rows == 1
            assert said["backfill_assets/internals"]["fingerprint"] == receipt.entry.fingerprint
            assert said["backfill_assets/internals"]["input_digest"] == receipt.entry.input_digest
            assert said["backfill_assets/internals"]["write_id"] == receipt.write_id
            assert said["backfill_assets/internals"]["version"] == str(receipt.version)
            assert said["backfill_assets/unchanged"] is False
            assert said["backfill_assets/state"] == "fresh"
            names = [name.removeprefix("backfill_assets/") for name in said]
            first = ["summary"] if "summary" in names else []
            assert names[: len(first) + 2] == [*first, "dagster/partition_row_count", "state"]
            assert names[-1] == "internals"


def test_every_row_of_a_landed_file_is_accounted_for_on_its_day(ran: Ran) -> None:
    first, last = (ran.recorded["raw", d] for d in (FIRST, LAST))
    assert (first["backfill_assets/duplicate_rows"], last["backfill_assets/quarantine_rows"]) == (
        1,
        1,
    )
    assert first["backfill_assets/files"] == {"a.jsonl": {"raw": 1, "duplicate": 1}}
    assert last["backfill_assets/files"] == {"a.jsonl": {"raw": 1}, "b.jsonl": {"quarantine": 1}}


def test_a_run_warns_of_what_went_to_quarantine_on_its_days_and_alerts(ran: Ran) -> None:
    said = [r.event_log_entry for r in ran.instance.get_records_for_run(ran.result.run_id).records]
    warned = [
        e.user_message
        for e in said
        if e.level == logging.WARNING and "quarantine" in e.user_message
    ]
    assert [text.split(";")[0] for text in warned] == [
        "quarantine: 1 landed row(s) are unusable: 1 x op is neither upsert nor delete"
    ]
    alerted = [
        e.user_message
        for e in said
        if e.level == logging.WARNING and "webhook" in e.user_message.lower()
    ]
    assert len(alerted) == 1


def test_the_end_of_a_run_writes_one_lake_version_that_names_all_its_tables_and_the_run(
    ran: Ran,
) -> None:
    made = find_version(ran.lake, 1)
    assert made is not None
    assert made.why.endswith(f"(run {ran.result.run_id[:8]})")
    written = {name: max(r.version for r in latest.values()) for name, latest in ran.latest.items()}
    assert {name: made.tables[name] for name in TABLES} == written
    assert made.tables["arrivals"] >= 0


def test_a_rerun_that_changes_nothing_tells_the_same_facts_so_that_plots_stay_full(
    ran: Ran,
) -> None:
    before = {key: metadata(ran.instance, *key) for key in ran.recorded}
    assert run_rebuild(
        ran.lake, FIRST, FIRST, ran.instance, None, toy()
    ).success  # one day more often than the others
    assert run_rebuild(ran.lake, FIRST, LAST, ran.instance, None, toy()).success
    for (table, day), told in before.items():
        said = metadata(ran.instance, table, day)
        moved = {k for k in told.keys() | said.keys() if told.get(k) != said.get(k)}
        assert moved <= {
            f"backfill_assets/{k}" for k in ("unchanged", "seconds_per_day", "summary", "internals")
        }, (table, day)
        kept, now = (dict(found["backfill_assets/internals"]) for found in (told, said))
        assert {k for k in kept.keys() | now.keys() if kept.get(k) != now.get(k)} <= {
            "version",
            "phases",
        }
        assert said["backfill_assets/unchanged"] is True
    assert metadata(ran.instance, "raw", FIRST)["backfill_assets/duplicate_rows"] == 1


def test_the_standing_fact_tells_stale_days_and_the_command_that_rebuilds_them(
    ran: Ran, tmp_path: Path
) -> None:
    assert ran.checked("echo")["no_stale_days"] == (True, {"stale days": 0, "fresh days": 4})
    land(
        ran.lake, "late.jsonl", [delivery(40, "2024-03-05 09:00:00", "2024-03-02 09:00:00", "late")]
    )
    run_rebuild(ran.lake, "2024-03-05", "2024-03-05", ran.instance, ["raw"], toy())
    passed, said = ran.checked("echo")["no_stale_days"]
    assert not passed
    assert said["stale days"] == 1
    loaded = next(ran.lake.store.newest_commits("raw"))
    assert said["stale since"] == f"{loaded.at:%Y-%m-%d %H:%M} UTC"
    assert (
        said["which"]
        == "2024-03-02. Rebuild: backfill-assets backfill --from 2024-03-02 --to 2024-03-02"
    )
    assert run_rebuild(
        ran.lake, "2024-03-02", "2024-03-02", ran.instance, ["echo", "sums"], toy()
    ).success
    assert ran.checked("echo")["no_stale_days"][0]
    assert ran.checked("sums")["no_stale_days"][0]
    assert "late" in {key for key, *_ in content(ran.lake, "echo")}
