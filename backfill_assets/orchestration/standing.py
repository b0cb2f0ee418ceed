"""The standing fact of every table, the check `no_stale_days`: exact count, capped sample, no JVM.

Lives here: judging it, the check behind the button, and telling Dagster by itself when the verdict is another one. Does
not live here: the checks per day (`checks`), and asking for what is stale (`ticks`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from backfill_assets.core.contracts import Contract
from backfill_assets.core.states import State, States
from backfill_assets.lake.view import read_view
from backfill_assets.operations.why import ranges
from backfill_assets.orchestration.asking import given_up_now
from backfill_assets.orchestration.dagster_private import newest_evaluations
from backfill_assets.orchestration.runs import LAKE_TAG
from backfill_assets.orchestration.work import Shop

STANDING = "no_stale_days"
SAMPLE_RANGES = 10
WHICH, GIVEN_UP = "which", "given up"


def no_stale_days(shop: Shop, contract: Contract) -> dg.AssetChecksDefinition:
    """The check of one table. No written day is stale."""

    @dg.asset_check(asset=contract.name, name=STANDING, description=f"No written day of {contract.name} is stale.")
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        """Judge the table now."""
        lake, pipeline = shop.open()
        context.instance.add_run_tags(context.run.run_id, {LAKE_TAG: str(lake.root)})
        states = pipeline.states(read_view(lake, pipeline.contracts, shop.logs))
        passed, told = judged(
            states, contract.name, given_up_now(context.instance, lake, states).get(contract.name, "")
        )
        return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.WARN, metadata=told)

    return check


def judged(states: States, table: str, given_up: str = "") -> tuple[bool, dict[str, Any]]:
    """Whether no written day of the table is stale and none was `given_up` (in words), and what is told: days per
    state, which are stale, what to do."""
    counted = {d: states.of(table, d) for d in states.view.table(table).stamps}
    stale = sorted(d for d, s in counted.items() if s is State.STALE)
    told: dict[str, Any] = {f"days {s.value}": n for s, n in sorted(Counter(counted.values()).items())}
    told["stale days"] = len(stale)
    if stale:
        rebuild = f"backfill-assets backfill --from {stale[0]} --to {stale[-1]}"
        told[WHICH] = f"{ranges(stale, SAMPLE_RANGES)}. Rebuild: {rebuild}"
    if given_up:
        told[GIVEN_UP] = given_up
    return not stale and not given_up, told


def changed_verdicts(
    instance: dg.DagsterInstance, states: States, tables: list[str], given_up: Mapping[str, str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """The verdicts that differ from what Dagster was told last, so that pages are right without anybody's button.

    Tables without a written or given up day are left out: there is nothing to judge yet.
    """
    keys = {t: dg.AssetCheckKey(dg.AssetKey(t), STANDING) for t in tables}
    known = newest_evaluations(instance, keys.values())
    for table, key in keys.items():
        passed, told = judged(states, table, given_up.get(table, ""))
        before = known.get(key)
        same = (
            before is not None and before.passed == passed and _words(before) == (told.get(WHICH), told.get(GIVEN_UP))
        )
        if (states.view.table(table).stamps or given_up.get(table)) and not same:
            yield dg.AssetCheckEvaluation(
                asset_key=key.asset_key, check_name=STANDING, passed=passed, metadata=told,
                severity=dg.AssetCheckSeverity.WARN,
            )  # fmt: skip


def _words(evaluation: dg.AssetCheckEvaluation) -> tuple[Any, Any]:
    said = {name: value.value for name, value in evaluation.metadata.items()}
    return said.get(WHICH), said.get(GIVEN_UP)
