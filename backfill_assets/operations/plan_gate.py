"""The gate after a chunk: every gate of a write (`lake.gates`) again on the files, and those that compare with before.

Elsewhere: the account of landed rows (`account`), acting on findings (`plan_run`). Figures of two origins are compared,
so that a mistake of either shows. A gate about the rows of a day is an entry of `lake.gates.GATES`: it judges a
chunk's files again, with the plan's tolerances and `max_key_share` as bounds; the lake's other bounds
(`[gates.tables]`) were judged before each commit. One about a day before and after is an entry of `PLAN_GATES`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.core.contracts import Contract, versions_of
from backfill_assets.core.days import ranges
from backfill_assets.core.errors import GateRefused
from backfill_assets.core.profiles import (
    TRAILING_DAYS,
    DayProfile,
    counted_histograms,
    counted_nulls,
    usual_histograms,
    usual_null_shares,
)
from backfill_assets.core.receipts import KEPT, Built, DayEntry
from backfill_assets.core.states import State, States
from backfill_assets.lake import gates
from backfill_assets.lake.audit import audit_table
from backfill_assets.lake.embedded import connection, selection
from backfill_assets.lake.gates import ColumnGate, Judged, Surroundings, TableGate
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table
from backfill_assets.lake.view import writes_of
from backfill_assets.operations.account import accounts
from backfill_assets.operations.controls import ControlOutcome, controls_over, judge_controls
from backfill_assets.operations.plan_files import CHUNKS, CONTROLS, accepted_by_person, fact, keep_accepted
from backfill_assets.operations.plan_model import Plan, PlanChunk, Tolerances
from backfill_assets.operations.plan_progress import Progress, held_against

SHOWN = 5
FEWEST_ROWS = 20  # below it a relative change is chance
BY_TOLERANCES = (gates.ROW_COUNT, gates.PROFILE)  # shown by the tolerances that bound them
OF_SOME = (gates.READS,)  # shown by the preflight of a lake that has them
SMALLEST_DRIFT = 1e-9  # in place of the bound 0: the gates of a write take that for none


@dataclass(frozen=True)
class GateFinding:
    """A day of a table (None: all of the chunk) that a gate refuses: the gate's name, and the figures in words."""

    table: str
    day: date | None
    rule: str
    message: str


@dataclass(frozen=True)
class TableEvidence:
    """Evidence about one table's days of a chunk. `before` (all days of the table, by `held_against`: the plan's own
    unfinished rows are no measure) and `after` are partition records of receipts; `read` and `read_before` are
    profiles of the files by an independent reader, `own_bounds` those of `[gates.tables]`."""

    contract: Contract
    before: Mapping[date, DayEntry]
    after: Mapping[date, DayEntry]
    read: Mapping[date, DayProfile]
    read_before: Mapping[date, DayProfile] = field(default_factory=dict)
    own_bounds: TableGate = field(default_factory=TableGate)

    def as_judged(self, day: date, bounds: Tolerances) -> Judged:
        """The day's files as the gates of a write judge them, by the plan's tolerances and `max_key_share`.

        Usual are the days with rows before it, by receipts from before the plan began, and the day itself before.
        """
        days = sorted(d for d, e in self.before.items() if d < day and e.rows)
        trailing, own = [self.before[d] for d in days[-TRAILING_DAYS:]], self.before.get(day)
        nulls, drift = _null_shares(own) if own else {}, counted_histograms(own.counts) if own else {}
        for column, share in usual_null_shares([_null_shares(e) for e in trailing]).items():
            nulls[column] = max(share, nulls.get(column, 0.0))
        drift |= usual_histograms([counted_histograms(e.counts) for e in trailing])
        nulls = nulls if bounds.nulls is not None else {}
        drift = drift if bounds.drift is not None else {}
        gate = ColumnGate.model_construct(max_null_jump=bounds.nulls, max_drift=bounds.drift or SMALLEST_DRIFT)
        by_lake, columns = self.own_bounds, dict.fromkeys([*nulls, *drift], gate)
        table = TableGate.model_construct(columns=columns, max_key_share=by_lake.max_key_share, skew=by_lake.skew)
        usual = Surroundings(may_be_empty=True, usual_null_shares=nulls, usual_histograms=drift)
        return Judged(self.contract, day, self.read.get(day, DayProfile()), table, usual)


@dataclass(frozen=True)
class PlanGate:
    """A gate that compares a day with its receipt or with the day before the plan: its description under some
    tolerances (empty: they do not bound it), and what it refuses, in words."""

    name: str
    description: Callable[[Tolerances], str]
    evaluate: Callable[[TableEvidence, date, Tolerances], Iterator[str]]


def judge(lake: Lake, pipeline: Pipeline, chunk: PlanChunk, current: Progress) -> list[GateFinding]:
    """Find everything that the gate refuses about what the chunk wrote; empty: the next chunk may run.

    `current` is the plan's progress after the chunk was written. Reads the written files.
    """
    findings: list[GateFinding] = []
    for name in current.plan.tables:
        evidence = _evidence(lake, pipeline.table(name).contract, chunk, current)
        if evidence is not None:
            findings += judge_chunk(evidence, current.plan.policy.tolerances)
    return [*findings, *layers(lake, pipeline, chunk, current), *_controls(lake, pipeline, chunk, current.plan)]


def _controls(lake: Lake, pipeline: Pipeline, chunk: PlanChunk, plan: Plan) -> list[GateFinding]:
    before = fact(lake, plan.id, "started", CONTROLS) or {}
    worse = _worse(lake, pipeline, chunk, plan)
    earlier = {o.name: f" ({before.get(o.name, 0)} before the plan)" if o.broken else "" for o in worse}
    return [GateFinding(CONTROLS, None, o.name, f"{o.message}{earlier[o.name]}") for o in worse]


def _worse(lake: Lake, pipeline: Pipeline, chunk: PlanChunk, plan: Plan) -> list[ControlOutcome]:
    """Findings of controls over the plan's tables that cannot be judged, or that more values break than before the plan
    (after the last chunk: any value). Broken controls that a person accepted are left out."""
    accepted = accepted_by_person(lake, plan)[CONTROLS]
    allowed = accepted if chunk == plan.chunks[-1] else (fact(lake, plan.id, "started", CONTROLS) or {}) | accepted
    names = controls_over(lake, pipeline, plan.tables)
    outcomes = judge_controls(lake, pipeline, names) if names else []
    unjudged = {o.name for o in outcomes if o.error and not o.broken and accepted.get(o.name) != 0}
    return [o for o in outcomes if o.name in unjudged or o.broken > allowed.get(o.name, 0)]


def accept(lake: Lake, pipeline: Pipeline, chunk: PlanChunk, current: Progress) -> None:
    """Record that a person looked at the chunk as it is written: its gate is passed, and the controls that its gate
    refuses may stay as broken as they are, also once its days are made again."""
    worse = {o.name: o.broken for o in _worse(lake, pipeline, chunk, current.plan)}
    keep_accepted(lake, current.plan, chunk, current.write_ids(chunk), worse)


def is_accepted(lake: Lake, chunk: PlanChunk, current: Progress) -> bool:
    """Whether a person accepted the chunk, and it wrote nothing since."""
    return accepted_by_person(lake, current.plan)[CHUNKS].get(str(chunk.number)) == current.write_ids(chunk)


def judge_chunk(evidence: TableEvidence, bounds: Tolerances) -> Iterator[GateFinding]:
    """What the gates of a write and those of plans refuse about one table's days, ascending; nothing: all passed."""
    for day in sorted(evidence.after):
        refused = [(gate.name, text) for gate in PLAN_GATES for text in gate.evaluate(evidence, day, bounds)]
        refused += [(f.check, f.message) for f in gates.judge(evidence.as_judged(day, bounds)) if f.refuses]
        yield from (GateFinding(evidence.contract.name, day, name, text) for name, text in refused)


def described(bounds: Tolerances) -> list[str]:
    """The gates of a plan with these tolerances, a few words each."""
    texts = [gate.description(bounds) for gate in PLAN_GATES]
    texts += [gate.name.replace("_", " ") for gate in gates.GATES if gate.name not in BY_TOLERANCES + OF_SOME]
    texts += [_unless_none(bounds.nulls, "NULL shares within {:.0%} of usual")]
    texts += [_unless_none(bounds.drift, "drift within {:g} (population stability index)")]
    return [text for text in texts if text]


def _evidence(lake: Lake, contract: Contract, chunk: PlanChunk, current: Progress) -> TableEvidence | None:
    writes, stamps = current.writes[contract.name], current.states.view.table(contract.name).stamps
    own = writes.of(chunk.number)
    # A plan that goes on after a kill may have rebuilt days of this chunk with another one since: that one answers.
    after = {d: e for d, e in own.after.items() if d in stamps and stamps[d].write_id in own.ids}
    if not after:
        return None
    of, base, before = held_against(lake, contract, writes)
    moved = {d for d, e in after.items() if d in before and e.content != before[d].content}
    with_means = current.plan.policy.tolerances.means is not None and moved
    read_before = audit_table(of, contract, base, moved) if with_means else {}
    read = audit_table(lake, contract, days=after, altered=True)
    own_bounds = lake.settings.gates.tables.get(contract.name, TableGate())
    return TableEvidence(contract, before, after, _by_day(read), _by_day(read_before), own_bounds)


def _by_day(profiles: Mapping[date | None, DayProfile]) -> dict[date, DayProfile]:
    return {day: profile for day, profile in profiles.items() if day is not None}


def refusal(plan: Plan, chunk: PlanChunk, findings: list[GateFinding], put_back: bool, failed: str = "") -> GateRefused:
    """The error of a failed gate: days, columns, figures, what is written, and what to do next. `failed`: why the
    rollback of the chunk failed (empty: it did not, or none was wanted)."""
    shown = "; ".join(f"{f.table} {_when(f, chunk)}{f.rule}: {f.message}" for f in findings[:SHOWN])
    more = f"; {len(findings) - SHOWN} more" if len(findings) > SHOWN else ""
    days: dict[str, set[date]] = {}
    for finding in findings:
        days.setdefault(finding.table, set()).update([finding.day] if finding.day else chunk.days)
    tables = [table if table == CONTROLS else f"{table} {ranges(dates)}" for table, dates in days.items()]
    verb = "release" if put_back else "rollback"
    command = f"backfill-assets {verb} --plan {plan.id} --chunk {chunk.number} --yes"
    return GateRefused(
        f"the gate of chunk {chunk.number} ({chunk.days}) of the plan {plan.id}",
        f"{len(findings)} finding(s) on {', '.join(tables)}: {shown}{more}",
        f"The chunk {'was put back and is held' if put_back else 'is written'}, no later one was run"
        + (f"; putting it back failed: {failed.rstrip('.')}" if failed else ""),
        f"Correct the cause; `{command}` and `backfill-assets plan cancel {plan.id}` let all days go, then plan again"
        if put_back
        else f"Look at these days; put it back with `{command}`, or go on with "
        f"`backfill-assets run {plan.id} --accept {chunk.number}` if it is as it should be",
    ).with_facts(plan=plan.id, chunk=str(chunk.number), **{verb: command})


def _when(finding: GateFinding, chunk: PlanChunk) -> str:
    """The days of the finding, with a blank; a control judges others, too."""
    return "" if finding.table == CONTROLS else f"{finding.day or chunk.days} "


def layers(lake: Lake, pipeline: Pipeline, chunk: PlanChunk, current: Progress) -> list[GateFinding]:
    """Find the days of the chunk on which two layers do not add up, upstream first, ascending: rows that landed against
    raw and rejected rows, deliveries in raw against staging and superseded ones."""
    findings = []
    for landed, counted in accounts(lake, current.states.view).items():
        for day, rows in counted.wrong.items():
            more = "more landed" if rows > 0 else "fewer landed"
            figures = f"{abs(rows)} row(s) {more} than raw, quarantine, duplicates and too late rows account for"
            findings += [GateFinding(landed, day, "account", figures)] if day in chunk.days else []
    for table in pipeline.tables:
        if table.account is not None and table.name in current.writes:
            written = sorted(current.writes[table.name].of(chunk.number).after)
            findings += _versions(lake, current.states, table, written)
    return findings


def _versions(lake: Lake, states: States, table: Table, written: Sequence[date]) -> Iterator[GateFinding]:
    """Findings for the days written, without days that are stale by newer deliveries, which will be rebuilt."""
    name, complete = table.name, (State.FRESH, State.OUTDATED)
    stamps = {d: s for d in written if (s := states.stamp(name, d)) is not None and states.of(name, d) in complete}
    raw = states.contracts[versions_of([table.contract])[name]]
    for receipt, days in writes_of(lake.store, name, stamps):
        if receipt is None or raw.name not in receipt.inputs:
            continue
        counted = _counted(lake, states, table, raw, receipt.inputs[raw.name], [*days])
        for day in days:
            arrived, superseded = counted.get(day, (0, 0))
            rows = receipt.days[day].rows - receipt.days[day].counts.get(KEPT, 0)
            if arrived != rows + superseded:
                figures = f"{arrived} deliveries in {raw.name} are for it, {rows} are here and {superseded} superseded"
                yield GateFinding(name, day, "account", figures)


def _counted(
    lake: Lake, states: States, table: Table, raw: Contract, version: int, days: Sequence[date]
) -> dict[date, tuple[int, int]]:
    """Per event day the deliveries in raw at a version, and those superseded. Reads the arrival days that the event-day
    index has for these days, which hold every delivery of their keys."""
    if table.account is None:
        return {}
    arrived = {a for d in days for a, _ in states.view.source(raw.name).arrivals.get(d, ())}
    rows = selection(lake.store.data_files(raw, version, arrived) if arrived else [], raw)
    wanted = ", ".join(f"DATE '{d}'" for d in days)
    event_day = "CAST(make_timestamp(epoch_us(event_ts)) AS DATE)"
    keys = f"SELECT event_key FROM ({rows}) WHERE op = 'upsert' AND {event_day} IN ({wanted})"
    with connection(lake) as engine:
        engine.execute(f"CREATE TEMP TABLE deliveries AS SELECT * FROM ({rows}) WHERE event_key IN ({keys})")
        counted = engine.execute(table.account("SELECT * FROM deliveries")).fetchall()
        return {day: (delivered, superseded) for day, delivered, superseded in counted}


def _null_shares(entry: DayEntry) -> dict[str, float]:
    return {c: n / entry.rows for c, n in counted_nulls(entry.counts).items()} if entry.rows else {}


def _read_back(evidence: TableEvidence, day: date, _: Tolerances) -> Iterator[str]:
    entry, read = evidence.after[day], evidence.read.get(day, DayProfile())
    if not entry.agrees_with(read):
        files = f"the files {read.rows} ({read.fingerprint})"
        yield f"the receipt says {entry.rows} rows ({entry.fingerprint}), {files}"


def _rows(evidence: TableEvidence, day: date, bounds: Tolerances) -> Iterator[str]:
    before, after = evidence.before.get(day), evidence.after[day]
    if bounds.rows is None or before is None or Built.PENDING in (before.built, after.built):
        return
    change = abs(after.rows - before.rows) / max(before.rows, 1)
    if change > bounds.rows and max(before.rows, after.rows) >= FEWEST_ROWS:
        yield f"{before.rows} rows before, {after.rows} now ({change:.0%}, allowed {bounds.rows:.0%})"


def _means(evidence: TableEvidence, day: date, bounds: Tolerances) -> Iterator[str]:
    """A day whose mean moved is found also where the total over the chunk is what it was."""
    read, before = evidence.read.get(day), evidence.read_before.get(day)
    if bounds.means is None or read is None or before is None or min(read.rows, before.rows) < FEWEST_ROWS:
        return
    for column, total in before.sums.items():
        was, now = float(total / before.rows), float(read.sums.get(column, 0) / read.rows)
        change = abs(now - was) / abs(was) if was else float(bool(now))
        if change > bounds.means:
            figures = f"was {was:.4g}, is {now:.4g} ({change:.0%}, allowed {bounds.means:.0%})"
            yield f"the mean of {column} {figures}"


def _unless_none(bound: float | None, text: str) -> str:
    return "" if bound is None else text.format(bound)


PLAN_GATES = (
    PlanGate("read-back", lambda _: "files read back equal receipts", _read_back),
    PlanGate("rows", lambda bounds: _unless_none(bounds.rows, "rows within {:.0%}"), _rows),
    PlanGate("means", lambda bounds: _unless_none(bounds.means, "means within {:.0%}"), _means),
)
