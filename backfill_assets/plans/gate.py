"""The gate after a chunk: every gate of a write (`kernel.write.gates`) again on the files, and
gates that compare with before.

Elsewhere: the gates themselves (`gates`), the account of landed rows (`reading.account`), acting on
findings (`run`). Figures of two origins are compared, so that a mistake of either shows.
"""

from collections.abc import Iterator, Sequence
from datetime import date

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.contracts import Contract, landed_by_versions
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.errors import GateRefused
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.receipts import KEPT
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import DayReceipt
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import writes_of
from backfill_assets.kernel.write.model import Pipeline, Table
from backfill_assets.plans.files import (
    CHUNKS,
    CONTROLS,
    accept_chunk_writes,
    accepted_by_person,
    mark_value,
)
from backfill_assets.plans.gates import GateFinding, TableEvidence, judge_chunk
from backfill_assets.plans.model import Plan, PlanChunk
from backfill_assets.plans.progress import Progress, table_before_plan
from backfill_assets.reading.account import accounts_by_table
from backfill_assets.reading.outcomes import ControlOutcome, judge_controls_of

SHOWN = 5


def gate_findings(
    lake: Lake, pipeline: Pipeline, chunk: PlanChunk, current: Progress
) -> list[GateFinding]:
    """Find everything that the gate refuses about what the chunk wrote; empty: the next chunk may
    run.

    `current` is the plan's progress after the chunk was written. Reads the written files.
    """
    findings = list[GateFinding]()
    for name in current.plan.tables:
        evidence = _table_evidence(lake, pipeline.table(name).contract, chunk, current)
        if evidence is not None:
            findings += judge_chunk(evidence, current.plan.policy.tolerances)
    return [
        *findings,
        *layer_findings(lake, pipeline, chunk, current),
        *_control_findings(lake, pipeline, chunk, current.plan),
    ]


def _control_findings(
    lake: Lake, pipeline: Pipeline, chunk: PlanChunk, plan: Plan
) -> list[GateFinding]:
    """A finding per control that the chunk left worse than it was (`_worse_controls`), with the
    number of values that broke it before the plan."""
    before = mark_value(lake, plan.id, "started", CONTROLS) or {}
    found = []
    for outcome in _worse_controls(lake, pipeline, chunk, plan):
        earlier = before.get(outcome.name, 0)
        message = outcome.message
        if outcome.broken:
            message += f" ({earlier} before the plan)"
        is_less = 0 < outcome.broken < earlier
        found.append(
            GateFinding(
                table=CONTROLS, day=None, rule=outcome.name, message=message, is_less=is_less
            )
        )
    return found


def _worse_controls(
    lake: Lake, pipeline: Pipeline, chunk: PlanChunk, plan: Plan
) -> list[ControlOutcome]:
    """Findings about controls over the plan's tables: a control that cannot be judged, or that more
    values break than before the plan (after the last chunk: any value). Broken controls that a
    person accepted are left out."""
    accepted = accepted_by_person(lake, plan)[CONTROLS]
    allowed = accepted
    if chunk != plan.chunks[-1]:
        allowed = (mark_value(lake, plan.id, "started", CONTROLS) or {}) | accepted
    found = []
    for outcome in judge_controls_of(lake, pipeline, plan.tables):
        is_unjudged = bool(outcome.error) and not outcome.broken
        # A person accepts a control that cannot be judged with the count 0.
        is_refused = is_unjudged and accepted.get(outcome.name) != 0
        if is_refused or outcome.broken > allowed.get(outcome.name, 0):
            found.append(outcome)
    return found


def accept_chunk(lake: Lake, pipeline: Pipeline, chunk: PlanChunk, current: Progress) -> None:
    """Accept the chunk's current content: its gate counts as passed and its broken controls are
    tolerated at today's counts, also once its days are made again."""
    worse = {o.name: o.broken for o in _worse_controls(lake, pipeline, chunk, current.plan)}
    accept_chunk_writes(lake, current.plan, chunk, current.write_ids(chunk), worse)


def is_accepted(lake: Lake, chunk: PlanChunk, current: Progress) -> bool:
    """Whether a person accepted the chunk, and it wrote nothing since."""
    return bool(
        accepted_by_person(lake, current.plan)[CHUNKS].get(str(chunk.number))
        == current.write_ids(chunk)
    )


def _table_evidence(
    lake: Lake, contract: Contract, chunk: PlanChunk, current: Progress
) -> TableEvidence | None:
    """What the gates judge of a table that the chunk wrote: its days before the plan and now, by
    receipts and by reading the files. None where no day is the chunk's any more."""
    writes, latest = current.writes[contract.name], current.states.view.table(contract.name).latest
    own = writes.of(chunk.number)
    # A plan that goes on after a kill may have rebuilt days of this chunk with another one since:
    # that one answers.
    after = {d: e for d, e in own.after.items() if d in latest and latest[d].write_id in own.ids}
    if not after:
        return None
    before = table_before_plan(lake, contract, writes)
    moved = set[date]()
    for day, entry in after.items():
        if day in before.entries and entry.content != before.entries[day].content:
            moved.add(day)
    # Only the bound of means needs the files from before; a day with equal content has equal means.
    needs_means = current.plan.policy.tolerances.means is not None and bool(moved)
    read_before = dict[date, DayProfile]()
    if needs_means:
        earlier = LakeSession(before.lake)
        read_before = earlier.profiles_of_version(contract, before.version, moved)
    read = LakeSession(lake).profiles_of_version(contract, None, after, altered=True)
    own_bounds = lake.settings.gates.bounds(contract.name)
    accepted = [name for acceptance in current.accepted for name in acceptance.what]
    return TableEvidence(
        contract=contract,
        before=before.entries,
        after=after,
        read=read,
        read_before=read_before,
        own_bounds=own_bounds,
        accepted=accepted,
    )


def gate_refusal(
    plan: Plan, chunk: PlanChunk, findings: list[GateFinding], put_back: bool, failed: str = ""
) -> GateRefused:
    """The error of a failed gate: days, columns, figures, what is written, and what to do next.
    `failed`: why the rollback of the chunk failed (empty: it did not, or none was wanted)."""
    verb = "release" if put_back else "rollback"
    command = f"backfill-assets {verb} --plan {plan.id} --chunk {chunk.number} --yes"
    if put_back:
        consequence = "The chunk was put back and is held, no later one was run"
        fix = (
            f"Correct the cause; `{command}` and `backfill-assets plan cancel {plan.id}` let all "
            "days go, then plan again"
        )
    else:
        consequence = "The chunk is written, no later one was run"
        fix = _written_advice(plan, chunk, findings, command) + _lifting_advice(plan, findings)
    if failed:
        consequence += f"; putting it back failed: {failed.rstrip('.')}"
    return GateRefused(
        f"the gate of chunk {chunk.number} ({chunk.days}) of the plan {plan.id}",
        _findings_text(chunk, findings),
        consequence,
        fix,
    ).with_facts(plan=plan.id, chunk=str(chunk.number), **{verb: command})


def _findings_text(chunk: PlanChunk, findings: Sequence[GateFinding]) -> str:
    """How many findings there are on which days of which tables, and the first ones."""
    days: dict[str, set[date]] = {}
    for finding in findings:
        days.setdefault(finding.table, set()).update([finding.day] if finding.day else chunk.days)
    named = {table: f"{table} {ranges_text(dates)}" for table, dates in days.items()}
    if CONTROLS in named:
        named[CONTROLS] = CONTROLS
    shown = [f"{f.table} {_finding_days(f, chunk)}{f.rule}: {f.message}" for f in findings[:SHOWN]]
    if len(findings) > SHOWN:
        shown.append(f"{len(findings) - SHOWN} more")
    return f"{len(findings)} finding(s) on {', '.join(named.values())}: {'; '.join(shown)}"


def _lifting_advice(plan: Plan, findings: Sequence[GateFinding]) -> str:
    """How to lift the bounds of the findings, where each has some, and they are few; else ""."""
    bounds = dict.fromkeys(bound for finding in findings for bound in finding.bounds)
    if len(bounds) > SHOWN or not all(finding.bounds for finding in findings):
        return ""
    options = " ".join(f"--accept {bound}" for bound in bounds)
    command = f"backfill-assets run {plan.id} {options} --reason WHY"
    return f", or lift these bounds for all chunks with `{command}`"


def _written_advice(
    plan: Plan, chunk: PlanChunk, findings: Sequence[GateFinding], command: str
) -> str:
    """What to do about a chunk that is written; `command` puts it back, which would undo a fix that
    is right so far."""
    go_on = f"`backfill-assets run {plan.id} --accept {chunk.number}`"
    if not all(finding.is_less for finding in findings):
        return (
            f"Look at these days; put it back with `{command}`, or go on with {go_on} if it is as "
            "it should be"
        )
    better = f"Fewer values differ than before the plan, so keep it: finish it with {go_on}"
    follows = [
        f"{impact.table} {', '.join(map(str, impact.follows[:SHOWN]))}"
        for impact in plan.impacts
        if impact.follows
    ]
    if not follows:
        return better
    return f"{better}, then make what follows ({'; '.join(follows)}) with `{widened_command(plan)}`"


def widened_command(plan: Plan) -> str:
    """The command that plans these days, and the days that follow from them and are not in the
    plan; empty without any."""
    follows = [span for impact in plan.impacts for span in impact.follows]
    if not follows:
        return ""
    spans = [plan.days, *follows]
    first, last = min(span.start for span in spans), max(span.last for span in spans)
    return f"backfill-assets plan --from {first} --to {last}"


def _finding_days(finding: GateFinding, chunk: PlanChunk) -> str:
    """The days of the finding in words, with a blank after them."""
    return "" if finding.table == CONTROLS else f"{finding.day or chunk.days} "


def layer_findings(
    lake: Lake, pipeline: Pipeline, chunk: PlanChunk, current: Progress
) -> list[GateFinding]:
    """Find the days on which two layers do not add up, upstream first, ascending: rows that landed
    against raw and rejected rows, deliveries in raw against staging and superseded ones.

    Landed rows are accounted for on all days of the chunk, by receipts. Deliveries are counted on
    the days that the chunk wrote, because that reads raw's files.
    """
    findings = list[GateFinding]()
    for landed, counted in accounts_by_table(lake, current.states.view).items():
        wrong = {day: rows for day, rows in counted.wrong.items() if day in chunk.days}
        for day, rows in wrong.items():
            more = "more landed" if rows > 0 else "fewer landed"
            figures = (
                f"{abs(rows)} row(s) {more} than raw, quarantine, duplicates and too late rows "
                "account for"
            )
            findings.append(GateFinding(table=landed, day=day, rule="account", message=figures))
    for table in pipeline.tables:
        if table.has_account and table.name in current.writes:
            written = current.writes[table.name].of(chunk.number)
            findings += _version_findings(lake, current.states, table, written.days)
    return findings


def _version_findings(
    lake: Lake, states: States, table: Table, written: Sequence[date]
) -> Iterator[GateFinding]:
    """A finding for each of the days `written` of a table of versions whose rows and superseded
    deliveries are not as many as the deliveries in raw. Days that are stale by newer deliveries are
    left out: they will be rebuilt."""
    name, latest = table.name, dict[date, DayReceipt]()
    for day in written:
        newest, is_complete = states.latest(name, day), states.of(name, day).holds_all_known
        if newest is not None and is_complete:
            latest[day] = newest
    raw = states.contracts[landed_by_versions([table.contract])[name]]
    for receipt, days in writes_of(lake.store, name, latest):
        if receipt is None or raw.name not in receipt.inputs:
            continue
        counted = _counted_deliveries(lake, states, table, raw, receipt.inputs[raw.name], [*days])
        for day in days:
            arrived, superseded = counted.get(day, (0, 0))
            entry = receipt.days[day]
            rows = entry.rows - entry.counts.get(KEPT, 0)  # without rows that a merge kept
            if arrived != rows + superseded:
                figures = (
                    f"{arrived} deliveries in {raw.name} are for it, {rows} are here and "
                    f"{superseded} superseded"
                )
                yield GateFinding(table=name, day=day, rule="account", message=figures)


def _counted_deliveries(
    lake: Lake, states: States, table: Table, raw: Contract, version: int, days: Sequence[date]
) -> dict[date, tuple[int, int]]:
    """Per event day the deliveries in `raw` at `version`, and how many of them are superseded; of
    these `days` alone. Reads the arrival days that the event-day index has for these days: they
    hold every delivery of their keys."""
    if table.account is None:
        return {}
    arrivals = states.view.source(raw.name).arrivals
    arrived = {arrival for day in days for arrival, _ in arrivals.get(day, ())}
    if not arrived:
        return {}
    wanted = ", ".join(f"DATE '{d}'" for d in days)
    event_day = "CAST(make_timestamp(epoch_us(event_ts)) AS DATE)"
    counted = table.account("SELECT * FROM deliveries")

    def account(rows: str) -> str:
        """The query over the rows of all keys that have a delivery for one of the days."""
        keys = f"SELECT event_key FROM ({rows}) WHERE op = 'upsert' AND {event_day} IN ({wanted})"
        kept = f"SELECT * FROM ({rows}) WHERE event_key IN ({keys})"
        return f"WITH deliveries AS MATERIALIZED ({kept}) SELECT * FROM ({counted})"

    found = LakeSession(lake).whole_answer(raw, version, arrived, account)
    return {day: (delivered, superseded) for day, delivered, superseded in found}
