"""Ticks of the sensors on a lake without an engine, for tests: making days stale, dropping files,
runs as they ended. Here: the verbs of such tests and the fixtures' lakes. Not here: any
assertion."""

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.ticks import Tick, landing_tick, late_data_tick
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline, make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.daemon import RUN_KEY
from backfill_assets_tests.synthetic import START, TOML, build
from backfill_assets_tests.synthetic import Made as Made

DAYS = 12
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def day(number: int) -> date:
    return START + ONE_DAY * number


def stale(lake: Made, *numbers: int) -> None:
    """Days of staging whose recorded inputs are not today's."""
    build(
        *lake,
        "staging",
        dict.fromkeys(map(day, numbers), 3),
        digests=dict.fromkeys(map(day, numbers), "older"),
    )


def late(lake: Made, instance: dg.DagsterInstance, now: datetime = NOW) -> Tick:
    return late_data_tick(instance, LakeContext(lake[0].root, tables), now)


def landing(lake: Made, instance: dg.DagsterInstance, now: datetime = NOW) -> Tick:
    return landing_tick(instance, LakeContext(lake[0].root, tables), now)


def settings(lake: Made, *lines: str) -> None:
    path = lake[0].root / "lake.toml"
    path.write_text(path.read_text() + "\n[lateness]\n" + "\n".join(lines) + "\n")


def ran(
    instance: dg.DagsterInstance,
    request: dg.RunRequest,
    status: dg.DagsterRunStatus,
    began: bool = True,
    **more: Any,
) -> None:
    """A run of this request, in this status, as Dagster's storage would hold it; one that failed
    had begun before."""
    tags = dict(request.tags) | (
        {runs.PARTITION: request.partition_key} if request.partition_key else {}
    )
    tags |= {RUN_KEY: request.run_key} if request.run_key else {}
    chosen = frozenset(request.asset_selection or ())
    run = instance.add_run(
        dg.DagsterRun(
            str(request.job_name),
            run_config=dict(request.run_config),
            tags=tags,
            status=status,
            asset_selection=chosen or None,
            **more,
        )
    )
    if began and status is dg.DagsterRunStatus.FAILURE:
        for kind in ("PIPELINE_START", "PIPELINE_FAILURE"):
            instance.report_dagster_event(dg.DagsterEvent(kind, run.job_name), run.run_id)


def asked(tick: Tick) -> list[str]:
    return [str(r.run_key).rsplit(" ", 3)[0] for r in tick.requests]


def gates(lake: Made, *lines: str) -> None:
    path = lake[0].root / "lake.toml"
    path.write_text(path.read_text() + "\n[gates.tables.staging]\n" + "\n".join(lines) + "\n")


def all_fail(lake: Made, instance: dg.DagsterInstance, ticks: int = 3) -> None:
    """Ticks whose every run fails."""
    for _ in range(ticks):
        for request in late(lake, instance).requests:
            ran(instance, request, dg.DagsterRunStatus.FAILURE)


def pile_up(instance: dg.DagsterInstance, sensor: str, many: int = 220) -> None:
    """Later runs of a sensor, as of ordinary life."""
    for n in range(many):
        tags = {runs.SENSOR_TAG: sensor, runs.REQUEST_TAG: f"another {n}"}
        instance.add_run(dg.DagsterRun("other", tags=tags, status=dg.DagsterRunStatus.SUCCESS))


def drop(lake: Made, name: str, age_seconds: float) -> Path:
    path = lake[0].root / "landing" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"seq": 1}\n')
    moment = NOW.timestamp() - age_seconds
    os.utime(path, (moment, moment))
    return path


def empty_lake(root: Path) -> Made:
    """A lake into which nothing landed."""
    root.mkdir()
    (root / "lake.toml").write_text(TOML.format(start=START, windows=[2, 3]))
    lake = open_lake(root)
    return lake, make_pipeline(tables(lake.settings))


def seen(lake: Lake, pipeline: Pipeline) -> tuple[Lake, States]:
    """The lake and its states as they are now, as a run or tick reads them."""
    return lake, pipeline.states(read_view(lake, pipeline.contracts))
