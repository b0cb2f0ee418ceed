"""Asset checks of a table: one per gate over its days, and `no_stale_days`.

Here: their specs, their buttons, and recording results that changed without a run. Not here: what
an evaluation of a table's days says (`verdicts`), the rules (`kernel.write.gates`) and requests for
stale days (`ticks`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.backfill_requests import GivenUp, days_given_up
from backfill_assets.dagster.adapter.context import PLAIN, Naming, Opened
from backfill_assets.dagster.adapter.dagster_private import newest_target
from backfill_assets.dagster.adapter.io_manager import as_failures
from backfill_assets.dagster.adapter.runs import CATCH_UP, LAKE_TAG, days_of_run
from backfill_assets.dagster.adapter.verdicts import Verdicts
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.gates import gates_of
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.reading.stale_since import stale_since

NO_STALE_DAYS, STALE_DAYS = "no_stale_days", "stale days"
SAMPLE_RANGES = 10
WHICH, GIVEN_UP, SINCE = "which", "given up", "stale since"
WHEN = (
    "Fails while any day of the table stands refused or warned of; `days` in an evaluation names "
    "them."
)


def day_checks(opened: Opened, contract: Contract) -> dg.AssetChecksDefinition:
    """The checks of a table's days, one per gate. A run judges its days itself, before it commits,
    and logs the evaluations; the button of a check judges all written days again by their
    receipts."""
    key = opened.naming.key(contract.name)
    specs = [
        dg.AssetCheckSpec(gate.name, asset=key, description=f"{gate.description(contract)} {WHEN}")
        for gate in gates_of(contract)
    ]

    @dg.multi_asset_check(
        name=opened.naming.name(f"check_{contract.name}"), specs=specs, can_subset=True
    )
    def judge(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        """Judge now."""
        with as_failures():
            lake = _lake_of_run(context, opened)
            is_button = days_of_run(context.run) is None
            verdicts = Verdicts(
                context.instance, lake, opened.known(context.run.run_id).states, opened.naming
            )
            asked = context.selected_asset_check_keys
            yield from verdicts.results(contract, asked, afresh=is_button)

    return judge


def report_day_checks(
    instance: dg.DagsterInstance, lake: Lake, states: States, naming: Naming = PLAIN
) -> None:
    """Record evaluations of the checks of tables that were written without them: by a run that
    died, by a rollback, or through another instance of Dagster."""
    verdicts = Verdicts(instance, lake, states, naming)
    for contract in (c for c in states.contracts.values() if not c.is_given):
        if verdicts.are_behind(contract):
            for verdict in verdicts.of(contract):
                instance.report_runless_asset_event(verdict)


def _lake_of_run(context: dg.AssetCheckExecutionContext, opened: Opened) -> Lake:
    """The lake of a check's run, which gets a tag that names it."""
    lake, _ = opened.require()
    context.instance.add_run_tags(context.run.run_id, {LAKE_TAG: lake.address})
    return lake


def standing_check(
    opened: Opened,
    table: str,
    name: str,
    description: str,
    judge: Callable[[dg.DagsterInstance], dg.AssetCheckResult],
) -> dg.AssetChecksDefinition:
    """A check of a table as it stands, without days: its button calls `judge`."""

    @dg.asset_check(asset=opened.naming.key(table), name=name, description=description)
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        """Judge now."""
        with as_failures():
            _lake_of_run(context, opened)
            return judge(context.instance)

    return check


def no_stale_days(opened: Opened, contract: Contract) -> dg.AssetChecksDefinition:
    """The check `no_stale_days` of one table."""
    description = (
        f"No written day of {contract.name} is stale: made from inputs that have changed since. "
        "The sensor `late_data` "
        f"rebuilds such days; until then `{WHICH}` names them, with the command that does it at "
        "once."
    )

    def judge(instance: dg.DagsterInstance) -> dg.AssetCheckResult:
        """Judge by the states of now."""
        states = KnownStates(opened.lake, opened.pipeline).states
        given_up = days_given_up(instance, opened.lake, states, opened.naming).get(
            contract.name, ""
        )
        passed, facts = judge_stale_days(states, contract.name, given_up)
        facts |= _since_when(opened.lake, states, contract.name, passed)
        return dg.AssetCheckResult(
            passed=passed,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=facts,
            description=_stale_sentence(facts, opened.naming, contract),
        )

    return standing_check(opened, contract.name, NO_STALE_DAYS, description, judge)


def judge_stale_days(states: States, table: str, given_up: str = "") -> tuple[bool, dict[str, Any]]:
    """Whether no written day of the table is stale or given up, with the metadata of the check.
    `given_up` is a text about days that no sensor requests any more."""
    counted = {d: states.of(table, d) for d in states.view.table(table).latest}
    stale = sorted(d for d, s in counted.items() if s is State.STALE)
    facts: dict[str, Any] = {STALE_DAYS: len(stale)}
    if stale:
        rebuild = f"backfill-assets backfill --from {stale[0]} --to {stale[-1]}"
        facts[WHICH] = f"{ranges_text(stale, SAMPLE_RANGES)}. Rebuild: {rebuild}"
    if given_up:
        facts[GIVEN_UP] = given_up
    counts = Counter(s for s in counted.values() if s is not State.STALE)
    facts |= {f"{s.value} days": n for s, n in sorted(counts.items())}
    return not stale and not given_up, facts


def _since_when(lake: Lake, states: States, table: str, passed: bool) -> dict[str, str]:
    """The metadata that says since when days of the table are stale, where commits say it."""
    found = None if passed else stale_since(lake, states, table)
    return {} if found is None else {SINCE: f"{found:%Y-%m-%d %H:%M} UTC"}


def _stale_sentence(facts: Mapping[str, Any], naming: Naming, contract: Contract) -> str:
    """How many days of a table are stale, since when, and which job makes them; empty where none
    is."""
    count, since = facts[STALE_DAYS], f" since {facts[SINCE]}" if SINCE in facts else ""
    if not count:
        return ""
    stale = f"{count} stale {contract.calendar.unit}(s)"
    return f"{stale}{since}: the job `{naming.name(CATCH_UP)}` makes them"


def changed_stale_checks(
    instance: dg.DagsterInstance,
    lake: Lake,
    states: States,
    tables: Sequence[str],
    given_up: GivenUp,
    naming: Naming = PLAIN,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluations of `no_stale_days` that differ from Dagster's, so that its pages need no button.

    One for an older materialization differs too: Dagster counts it as not evaluated. Tables without
    a written or given up day are left out.
    """
    for table in tables:
        if not states.view.table(table).latest and not given_up.get(table):
            continue
        passed, facts = judge_stale_days(states, table, given_up.get(table, ""))
        contract = states.contracts[table]
        evaluation = _stale_evaluation(instance, naming, contract, passed, facts)
        record = instance.get_latest_asset_check_evaluation_record(evaluation.asset_check_key)
        # None also where a run has planned the check since and not evaluated it.
        before: object = record.evaluation if record is not None else None
        shown = _shown_result(before) if isinstance(before, dg.AssetCheckEvaluation) else None
        if shown != _shown_result(evaluation):
            facts |= _since_when(lake, states, table, passed)  # reads logs: of changed ones only
            yield _stale_evaluation(instance, naming, contract, passed, facts)


def _stale_evaluation(
    instance: dg.DagsterInstance,
    naming: Naming,
    contract: Contract,
    passed: bool,
    facts: Mapping[str, Any],
) -> dg.AssetCheckEvaluation:
    """An evaluation of `no_stale_days` of a table as of the newest materialization."""
    key = naming.key(contract.name)
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=NO_STALE_DAYS,
        passed=passed,
        metadata=facts,
        severity=dg.AssetCheckSeverity.WARN,
        target_materialization_data=newest_target(instance, key),
        description=_stale_sentence(facts, naming, contract),
    )


def _shown_result(evaluation: dg.AssetCheckEvaluation) -> tuple[object, ...]:
    """What Dagster shows of an evaluation of `no_stale_days`, without the counts of days."""
    facts = {name: value.value for name, value in evaluation.metadata.items()}
    return (
        evaluation.passed,
        facts.get(WHICH),
        facts.get(GIVEN_UP),
        evaluation.target_materialization_data,
    )


def report_stale_checks(
    instance: dg.DagsterInstance, lake: Lake, states: States, naming: Naming = PLAIN
) -> None:
    """Record results of `no_stale_days` in Dagster that have changed."""
    given_up = days_given_up(instance, lake, states, naming)
    tables = [name for name, contract in states.contracts.items() if not contract.is_given]
    for verdict in changed_stale_checks(instance, lake, states, tables, given_up, naming):
        instance.report_runless_asset_event(verdict)
