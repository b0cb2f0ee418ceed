"""The standing fact of every table, the check `no_stale_days`: exact count, capped sample, no JVM.

Lives here: judging it, the check behind the button, and recording it in Dagster when the verdict has changed. Does
not live here: the checks per day (`checks`), and asking for what is stale (`ticks`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.states import State, States
from backfill_assets.operations.why import ranges
from backfill_assets.orchestration.context import Opened
from backfill_assets.orchestration.dagster_private import check_target
from backfill_assets.orchestration.io_manager import as_failure
from backfill_assets.orchestration.requesting import given_up_now
from backfill_assets.orchestration.runs import LAKE_TAG

STANDING = "no_stale_days"
SAMPLE_RANGES = 10
WHICH, GIVEN_UP = "which", "given up"


def no_stale_days(opened: Opened, contract: Contract) -> dg.AssetChecksDefinition:
    """The check of one table. No written day is stale."""

    @dg.asset_check(asset=contract.name, name=STANDING, description=f"No written day of {contract.name} is stale.")
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        """Judge the table now."""
        try:
            lake, _ = opened.require()
        except BackfillError as error:
            raise as_failure(error) from None
        context.instance.add_run_tags(context.run.run_id, {LAKE_TAG: str(lake.root)})
        states = opened.states()
        passed, told = judged(
            states, contract.name, given_up_now(context.instance, lake, states).get(contract.name, "")
        )
        return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.WARN, metadata=told)

    return check


def judged(states: States, table: str, given_up: str = "") -> tuple[bool, dict[str, Any]]:
    """Whether no written day of the table is stale and none was `given_up` (in words), and the facts shown with it:
    days per state, which are stale, what to do."""
    counted = {d: states.of(table, d) for d in states.view.table(table).stamps}
    stale = sorted(d for d, s in counted.items() if s is State.STALE)
    told: dict[str, Any] = {"stale days": len(stale)}
    if stale:
        rebuild = f"backfill-assets backfill --from {stale[0]} --to {stale[-1]}"
        told[WHICH] = f"{ranges(stale, SAMPLE_RANGES)}. Rebuild: {rebuild}"
    if given_up:
        told[GIVEN_UP] = given_up
    others = Counter(s for s in counted.values() if s is not State.STALE)
    told |= {f"{s.value} days": n for s, n in sorted(others.items())}
    return not stale and not given_up, told


def changed_verdicts(
    instance: dg.DagsterInstance, states: States, tables: list[str], given_up: Mapping[str, str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """The verdicts that differ from what Dagster shows, so that pages are right without anybody's button.

    One that belongs to an older materialization differs too: Dagster counts it as not evaluated. Tables without a
    written or given up day are left out: there is nothing to judge yet.
    """
    keys = {
        t: dg.AssetCheckKey(dg.AssetKey(t), STANDING) for t in tables if states.view.table(t).stamps or given_up.get(t)
    }
    for table, key in keys.items():
        passed, told = judged(states, table, given_up.get(table, ""))
        before, target = _known(instance, key), _newest(instance, table)
        if before is None or (before.passed, *_words(before), before.target_materialization_data) != (
            passed, told.get(WHICH), told.get(GIVEN_UP), target,
        ):  # fmt: skip
            yield dg.AssetCheckEvaluation(
                asset_key=key.asset_key, check_name=STANDING, passed=passed, metadata=told,
                severity=dg.AssetCheckSeverity.WARN, target_materialization_data=target,
            )  # fmt: skip


def tell_verdicts(instance: dg.DagsterInstance, opened: Opened, tables: list[str]) -> None:
    """Record in Dagster the verdicts of these tables that have changed."""
    states = opened.states()
    given_up = given_up_now(instance, opened.lake, states)
    for verdict in changed_verdicts(instance, states, tables, given_up):
        instance.report_runless_asset_event(verdict)


def _newest(instance: dg.DagsterInstance, table: str) -> Any:
    """What an evaluation of the table belongs to: its newest materialization, if there is one."""
    records = instance.fetch_materializations(dg.AssetKey(table), limit=1).records
    return next(map(check_target, records), None)


def _known(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> dg.AssetCheckEvaluation | None:
    """The check's newest evaluation in Dagster."""
    record = instance.get_latest_asset_check_evaluation_record(key)
    return record.evaluation if record is not None else None


def _words(evaluation: dg.AssetCheckEvaluation) -> tuple[Any, Any]:
    said = {name: value.value for name, value in evaluation.metadata.items()}
    return said.get(WHICH), said.get(GIVEN_UP)
