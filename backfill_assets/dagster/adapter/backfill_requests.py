"""Requests of runs: for days that are ready, with attempts, run keys and giving up; and `Work` as
tags of a run.

A run remembers in its tags why it kept days back, and its last steps fail with that once all others
are done. A step that raises keeps the steps after it from running, and no check step can raise in
its place: each check in a run costs an event per day. So a step whose table kept days back ends
well if tables made from it follow; the last ones raise for it. Not here: which days are ready
(`kernel.core.needs`), how many runs a tick may request (`ticks`), and which days are kept back
(`kernel.write.judging`).
"""

import json
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter import runs
from backfill_assets.dagster.adapter.context import (
    PLAIN,
    LakeContext,
    Naming,
    Opened,
    table_of_step,
)
from backfill_assets.dagster.adapter.dagster_private import tag_values
from backfill_assets.dagster.adapter.runs import (
    BY_TAG,
    EXACT_DAYS_TAG,
    NOTE_TAG,
    REASON_TAG,
    TAG_CHARS,
    end_dead_runs,
    range_tags,
)
from backfill_assets.dagster.run_requests import request_identities, run_requests
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import InputKind
from backfill_assets.kernel.core.days import DayRange, SomeDays, days_text, ranges_text
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import ALSO, DaysKeptBack
from backfill_assets.kernel.core.needs import rebuild_needs
from backfill_assets.kernel.core.ownership import BY, whoami
from backfill_assets.kernel.core.plans import (
    CHUNK_TAG,
    CODE_TAG,
    MANUAL,
    PLAN_TAG,
    Work,
)
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.write_mode import MODE_TAG, ON_BAD_DAYS_TAG, OnBadDays
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.reading.claims import days_of_active_plans

DaySets = Mapping[str, Set[date]]
GivenUp = Mapping[str, str]  # per table a text about days that no sensor requests any more


@dataclass(frozen=True)
class TickState:
    """The lake and Dagster's runs at one moment, read once per tick."""

    instance: dg.DagsterInstance
    lake: Lake
    states: States
    busy: DaySets  # per table the days of queued and running runs
    now: datetime
    # Days of active plans, for which no sensor requests a run.
    planned: DaySets = field(default_factory=dict)
    naming: Naming = PLAIN

    @property
    def until(self) -> date:
        """Today by the clock (UTC), the first day that is no partition yet."""
        return self.now.astimezone(UTC).date()

    @property
    def taken_days(self) -> dict[str, set[date]]:
        """Per table the days that are busy or planned."""
        names = {*self.busy, *self.planned}
        return {name: {*self.busy.get(name, ()), *self.planned.get(name, ())} for name in names}

    def free(self, name: str, days: Set[date]) -> Set[date]:
        """`days` of a table without days of active plans."""
        return days - self.planned.get(name, frozenset())

    def as_request(self, work: Work, sensor: str) -> dg.RunRequest:
        """The work as a request of the job that rebuilds its tables."""
        job = runs.rebuild_name(self.states.contracts[work.table])
        return dagster_request(work, sensor, self.lake, self.naming, job)

    def requests(self, ready: DaySets) -> tuple[list[Work], GivenUp]:
        """Requests for `ready` days per table, upstream first, first attempts before repeated ones;
        and per table a text about days given up.

        So a day that fails keeps no other from its turn. A day is given up once it was tried as
        often as the settings allow; runs that never began do not count.
        """
        limit, taken_days = self.lake.settings.lateness.attempts, self.taken_days
        wanted: list[Work] = []
        texts: dict[str, str] = {}
        for name, days in ready.items():
            known = dict[date, str]()
            if days:
                known = request_identities(self.states, name, days, self.gates_digest(name))
            tried = runs.attempts_of_days(self.instance, name, known, self.naming)
            numbers = {day: found.number for day, found in tried.items()}
            given_up = [day for day, found in tried.items() if found.counted >= limit]
            if given_up:
                texts[name] = _given_up_text(given_up, limit)
            left = {day: identity for day, identity in known.items() if day not in given_up}
            taken = taken_days.get(name, set())
            # Enough that no day is left out by its number, which counts runs that never began, too:
            # those that were tried too often are left out above.
            most = limit + runs.MOST_UNBEGUN
            requests, _ = run_requests(self.states, name, left, numbers, most, taken)
            wanted += requests
        return sorted(wanted, key=lambda request: request.attempt > 0), texts

    def gates_digest(self, table: str) -> str:
        """Digest of what else decides how a run ends: lake, gates and rules of `table`."""
        gates, rules = self.lake.settings.gates, self.states.contracts[table].rules
        bounds = [str(gates.tables[table])] if table in gates.tables else []
        parts: list[object] = [self.lake.address, gates.incomplete, bounds]
        if rules:  # without any, the digest is as it was before tables had rules
            parts.append([str((rule.expression, rule.per, rule.only_warns)) for rule in rules])
        return digest_of(parts)


def _given_up_text(days: Collection[date], attempts: int) -> str:
    return (
        f"{ranges_text(days)} failed {attempts} times from the same inputs, rules and code and "
        "will not "
        "be requested again as they are. Look at the failed runs; then change what they failed "
        "from, or materialize by hand"
    )


def read_tick_state(
    instance: dg.DagsterInstance, lake_context: LakeContext, now: datetime
) -> TickState:
    """Read all that a tick decides by. Fails runs whose process is gone, or never showed itself, so
    that their days do not stay busy."""
    known = lake_context.known()
    lake, contracts = known.lake, [t.contract for t in known.pipeline.tables]
    end_dead_runs(instance, lake)
    if not lake_context.appearance.is_guest:
        runs.end_unbegun_runs(instance, lake, contracts, lake_context.naming)
    busy = runs.busy_days(instance, lake.address, contracts, lake_context.naming)
    return TickState(
        instance=instance,
        lake=lake,
        states=known.read(),
        busy=busy,
        now=now,
        planned=days_of_active_plans(lake),
        naming=lake_context.naming,
    )


def days_given_up(
    instance: dg.DagsterInstance, lake: Lake, states: States, naming: Naming = PLAIN
) -> GivenUp:
    """The days that need a rebuild and that no sensor requests any more.

    Judging every day is slow, so it is done only if some run may have been a last attempt. Runs
    carry `ATTEMPT_TAG` from the second attempt on; without it a run counts as attempt 0.
    """
    tried = tag_values(instance, [runs.ATTEMPT_TAG]).get(runs.ATTEMPT_TAG, set()) | {"0"}
    if not any(int(n) + 1 >= lake.settings.lateness.attempts for n in tried if n.isdigit()):
        return {}
    busy = runs.busy_days(instance, lake.address, states.contracts.values(), naming)
    state = TickState(instance, lake, states, busy, utc_now())
    return state.requests(rebuild_needs(states, busy, state.until).ready)[1]


def dagster_request(
    work: Work, sensor: str, lake: Lake, naming: Naming = PLAIN, job: str = runs.REBUILD
) -> dg.RunRequest:
    """The work as Dagster's RunRequest of that job: one partition, or a range."""
    tags = {**_sensor_tags(sensor, lake), **runs.needed_tags(work)}
    if work.attempt:
        tags[runs.ATTEMPT_TAG] = str(work.attempt)
    partition_key = None
    if len(work.days) == 1:
        partition_key = str(work.days.start)
    else:
        tags |= runs.range_tags(work.days)
    return dg.RunRequest(
        run_key=work.key,
        job_name=naming.name(job),
        asset_selection=[naming.key(name) for name in work.tables],
        partition_key=partition_key,
        run_config={"ops": {naming.step(work.table): {"config": {"asked": dict(work.needed)}}}},
        tags=tags,
    )


def whole_request(
    lake: Lake,
    sensor: str,
    job: str,
    base: str,
    tried: int,
    tags: Mapping[str, str] | None = None,
    **more: Any,
) -> dg.RunRequest:
    """A request of a run without single days: a scan, a range of all tables, a plan. Dagster begins
    one for each `base` (what is asked) and number of runs that `tried` it before; `more`: further
    arguments of `dg.RunRequest`."""
    again = {runs.ATTEMPT_TAG: str(tried)} if tried else {}
    return dg.RunRequest(
        run_key=f"{base} attempt {tried}",
        job_name=job,
        tags={**(tags or {}), **again, **_sensor_tags(sensor, lake), runs.REQUEST_TAG: base},
        **more,
    )


def _sensor_tags(sensor: str, lake: Lake) -> dict[str, str]:
    """The tags of every run that a sensor requests."""
    return {runs.REASON_TAG: sensor, runs.SENSOR_TAG: sensor, runs.LAKE_TAG: lake.address}


# Tables, comma-separated, whose days are made although they are right.
FORCE_TAG = "backfill_assets/force"
# What Dagster's console log would say is in the lake; it would bury the progress.
SILENCE = {"console": {"config": {"log_level": "CRITICAL"}}}
RECEIPT_TAGS = (
    "dagster/backfill",
    "dagster/sensor_name",
    "dagster/schedule_name",
    PLAN_TAG,
    CHUNK_TAG,
    MODE_TAG,
    CODE_TAG,
)


def run_rebuild(
    job: dg.JobDefinition, instance: dg.DagsterInstance, run_id: str, work: Work
) -> dg.ExecuteInProcessResult:
    """Run a job that makes tables in this process, for the user of now."""
    return job.execute_in_process(
        instance=instance,
        run_id=run_id,
        tags={BY_TAG: whoami(), **tags_of(work)},
        run_config={"loggers": SILENCE},
        raise_on_error=False,
    )


def tags_of(work: Work) -> dict[str, str]:
    """The tags of a run. Days with gaps get a range around them, and the run makes only the
    days."""
    exactly = days_text(work.days) if isinstance(work.days, SomeDays) else ""
    values = {
        REASON_TAG: work.reason,
        NOTE_TAG: work.note,
        FORCE_TAG: ",".join(sorted(work.force)),
        EXACT_DAYS_TAG: exactly,
        **work.tags,
    }
    return {**range_tags(work.days), **{name: value for name, value in values.items() if value}}


def work_of(tags: Mapping[str, str], days: DayRange, table: str, by: str = "") -> Work:
    """The work of a run's step, by the run's tags. Its receipts name `by`, the user of the command;
    else Dagster, with its sensor or schedule. No tag is trusted to name a person: everybody who
    reaches Dagster's port can set it."""
    known = {name: tags[name] for name in (*RECEIPT_TAGS, ON_BAD_DAYS_TAG) if name in tags}
    forced = [name for name in tags.get(FORCE_TAG, "").split(",") if name]
    return Work(
        days,
        tables=(table,),
        reason=tags.get(REASON_TAG, MANUAL),
        note=tags.get(NOTE_TAG, ""),
        tags={BY: by or dagster_requester(), **known},
        force=frozenset(forced),
    )


KEPT_BACK = ".dagster/kept_back."  # then the table: hidden, as the text of its error is long
TABLE_CHARS = TAG_CHARS - len("kept_.")


def dagster_requester() -> str:
    """The name recorded for a run that a browser, sensor or schedule requested: Dagster knows no
    users."""
    return f"Dagster, run by {whoami()}"


def with_bad_days(
    context: dg.AssetExecutionContext, opened: Opened, work: Work, asked: str
) -> Work:
    """The work of a step, which does with bad days as `asked`; "": as the tag of its run says.
    After a table that kept days back the next ones make the days that they can, too."""
    wanted = OnBadDays.KEEP_GOOD.value if kept_back_errors(context, opened) else asked
    return replace(work, tags={**work.tags, ON_BAD_DAYS_TAG: wanted}) if wanted else work


def remember_kept_back(context: dg.AssetExecutionContext, opened: Opened, rebuild: Rebuild) -> None:
    """Where days are kept back, the run's tags keep the error, for the steps that follow in
    whichever process."""
    if (error := rebuild.kept_back.error) is not None:
        context.instance.add_run_tags(
            context.run.run_id, {_kept_back_tag(opened, rebuild.table.name): json.dumps(error.args)}
        )


def kept_back_errors(context: dg.AssetExecutionContext, opened: Opened) -> list[DaysKeptBack]:
    """The errors of the lake's tables of which the run kept days back so far."""
    run = context.instance.get_run_by_id(context.run.run_id)
    tags = run.tags if run is not None else {}
    names = [_kept_back_tag(opened, contract.name) for contract in opened.pipeline.contracts]
    return [DaysKeptBack(*json.loads(tags[name])) for name in names if name in tags]


def _kept_back_tag(opened: Opened, table: str) -> str:
    return KEPT_BACK + opened.naming.output(table)[-TABLE_CHARS:]


def raise_kept_back(context: dg.AssetExecutionContext, opened: Opened, table: str) -> None:
    """Raise DaysKeptBack for all tables of the run that kept days back, unless a table made from
    `table` follows."""
    made = _tables_of_run(context, opened)
    for contract in opened.pipeline.contracts:
        read = {i.table for i in contract.inputs if i.kind is not InputKind.FILES}
        if contract.name in made and table in read:
            return
    if errors := kept_back_errors(context, opened):
        first, *others = errors
        more = "".join(f".{ALSO}{error}"[: -len(".")] for error in others)
        raise DaysKeptBack(first.object, first.culprit, first.consequence, first.fix + more)


def _tables_of_run(context: dg.AssetExecutionContext, opened: Opened) -> set[str | None]:
    """The lake's tables that the run makes; a run that is executed again makes the tables of its
    chosen steps."""
    run = context.run
    if run.step_keys_to_execute is not None:
        return {table_of_step(key) for key in run.step_keys_to_execute}
    keys = run.asset_selection or context.job_def.asset_layer.executable_asset_keys
    return {opened.naming.table_of(key) for key in keys}


def is_kept_back_failure(failure: dg.DagsterEvent) -> bool:
    """Whether a step that failed was made, and failed for the days that its run kept back."""
    shown = failure.step_failure_data.user_failure_data
    kind = shown.metadata.get("kind") if shown is not None else None
    return kind is not None and kind.value == DaysKeptBack.__name__
