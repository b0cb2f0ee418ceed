"""A lake whose table `staging` is written by hand, without an engine, in the name of a plan. Here:
the lake, and a worker for `run_plan` that publishes rows by the product's own writer and can be
told to fail, to die and to write nonsense. Not here: runs of Dagster (`end_to_end`)."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.profiles import receipt_counts
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.write_mode import WriteMode
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.query_files import add_standing_rows
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.derived import merged_entry
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets.plans.files import keep_plan
from backfill_assets.plans.model import PLAN_REASON, Plan, TableImpact
from backfill_assets.plans.plan import PlanRequest, make_plan
from backfill_assets.plans.policy import Policy
from backfill_assets.plans.work import ChunkWork
from backfill_assets_tests.files import Cells, stage_by_hand
from backfill_assets_tests.synthetic import START, synthetic_lake

DAYS = DayRange(START, START + ONE_DAY * 10)
ROWS = 30  # of a day: more than the gates' smallest number


class Killed(BaseException):
    """The process died here."""


def good_rows(day: date) -> list[dict[str, Any]]:
    """What a day of staging should hold."""
    at = datetime.combine(day, time(10), UTC)
    return [
        {
            "seq": n,
            "event_key": f"{day}-{n:02}",
            "event_date": day,
            "event_ts": at,
            "version_ts": at,
            "known_from": at,
            "known_until": None,
            "entity": f"E{n % 3}",
            "value": n,
            "flag": 0,
        }
        for n in range(ROWS)
    ]


NO_TAGS: Mapping[str, str] = {}
Transform = Callable[[date], list[dict[str, Any]]]


@dataclass
class HandWorker:
    """Makes days of staging as `rows` says; dies before or after the write of chunk `dies_at`.
    `told`: its deeds."""

    lake: Lake
    pipeline: Pipeline
    rows: Transform = good_rows
    fails_at: int = 0
    dies_at: int = 0
    dies_after: bool = False
    told: list[str] = field(default_factory=list)
    most_at_once: int = 0
    lines: list[str] = field(default_factory=list)

    def make(self, works: Sequence[ChunkWork]) -> list[str]:
        """Write the days in the chunks' names."""
        self.most_at_once = max(self.most_at_once, len(works))
        return [self._make(work) for work in works]

    def _make(self, work: ChunkWork) -> str:
        if work.chunk.number == self.fails_at:
            self.told.append(f"failed {work.chunk.number}")
            return "the server is gone"
        if work.chunk.number == self.dies_at and not self.dies_after:
            raise Killed
        assert work.tables == ("staging",)
        write_by_hand(self.lake, self.pipeline, work.days, self.rows, PLAN_REASON, work.tags)
        self.told.append(f"made {work.days}")
        if work.chunk.number == self.dies_at:
            raise Killed
        return ""

    def report(self, line: str) -> None:
        """Passed gates are kept."""
        self.lines.append(line)
        if line.endswith(": gate passed"):
            self.told.append(
                line.removesuffix(" passed").replace("chunk ", "gate ").removesuffix(": gate")
            )


def write_by_hand(
    lake: Lake,
    pipeline: Pipeline,
    days: DayRange,
    rows: Transform,
    reason: str = "manual",
    tags: Mapping[str, str] = NO_TAGS,
) -> None:
    """Publish days of staging as the load path would: digests, code and settings of today."""
    contract, codes = pipeline.table("staging").contract, pipeline.codes["staging"]
    states = pipeline.states(read_view(lake, pipeline.contracts))
    cells: list[Cells] = [row for day in days for row in rows(day)]
    staged = stage_by_hand(lake, contract, cells)
    version = states.view.table("staging").version
    kept = (
        add_standing_rows(lake, contract, staged, version, days)
        if WriteMode.of_tags(tags).keeps_standing_rows
        else {}
    )
    found = audit_files(lake, staged.paths, contract)
    entries = {
        d: merged_entry(
            DayEntry(
                found[d].rows,
                found[d].fingerprint,
                states.digests.of("staging", d),
                states.built_as("staging", d),
                receipt_counts(found[d], contract.nullable_columns),
            ),
            kept.get(d, 0),
        )
        for d in days
    }
    said = Provenance(
        reason,
        "run-1",
        "",
        codes.code_digest,
        codes.settings_digest,
        states.frontiers.least,
        {"raw": 1},
        dict(tags),
        cpu_seconds=1.5,
    )
    replace_days(
        lake,
        Write(contract, staged, entries, -1, said, force=reason == PLAN_REASON),
        lambda asked: {d: entries[d].input_digest for d in asked},
    )


def bare_staging(root: Path) -> tuple[Lake, Pipeline]:
    """A lake of ten loaded days, in which no table but raw was built yet. Of raw there is a log and
    no file: the gate counts no deliveries."""
    lake, pipeline = synthetic_lake(root, len(DAYS))
    pipeline = replace(pipeline, tables=tuple(replace(t, account=None) for t in pipeline.tables))
    for table in pipeline.tables:
        if not table.is_landed:
            shutil.rmtree(lake.table_place(table.name).local())
    return lake, pipeline


def planned(lake: Lake, pipeline: Pipeline, days: DayRange = DAYS, **policy: Any) -> Plan:
    """A kept plan of staging in chunks of three days, forced unless said otherwise."""
    asked = Policy(**{"chunk": "3d", "force": True, **policy})
    plan = make_plan(lake, pipeline, PlanRequest(days, ("staging",), asked, "tests"))
    keep_plan(lake, plan)
    return plan


def impact_on(plan: Plan, table: str) -> TableImpact:
    """What the plan does to a table."""
    return {i.table: i for i in plan.impacts}[table]


def versions_of(lake: Lake) -> list[str]:
    """The names of everything in the lake but the locks, to see that nothing changed."""
    return sorted(
        str(p.relative_to(lake.root)) for p in lake.root.rglob("*") if ".locks" not in p.parts
    )
