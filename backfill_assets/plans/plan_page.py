"""Output of a plan: one report of sections, drawn on the screen or written as a runbook in
Markdown; and JSON.

Elsewhere: the figures (`plans.model`, `plans.progress`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NotRequired, TypedDict

import click

from backfill_assets.cli.drawing import PageSection, TextTable, number_text, say, size_text
from backfill_assets.cli.output import write_answer
from backfill_assets.kernel.core.answers import InstantText
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges
from backfill_assets.plans.files import Acceptance, Resumption
from backfill_assets.plans.gate import widened_command
from backfill_assets.plans.gates import gate_descriptions
from backfill_assets.plans.model import (
    DayMove,
    Pins,
    Plan,
    PlanChunk,
    PlanCode,
    PlanLook,
    PreflightTick,
    Price,
    TableImpact,
    moves_rows,
    plan_dict,
)
from backfill_assets.plans.policy import Days, Policy
from backfill_assets.plans.progress import (
    ChunkProgress,
    ChunkProgressForm,
    Progress,
    Took,
    TookForm,
)
from backfill_assets.plans.skew import KeyShare

SHOWN = 3
TABLE_COLUMNS = ("table", "key", "write", "why", "reads", "follows", "price", "took")
CHUNK_COLUMNS = ("chunk", "days", "kind", "state", "expected", "took")
LOOK_COLUMNS = ("table", "day", "gains", "loses", "other content", "in the range")
LISTED_DAYS = 31


class PlanForm(TypedDict):
    """A plan and how far it is, as JSON values; days are the first and the last one."""

    id: str
    created: InstantText
    user: str
    days: Days
    tables: Sequence[str]
    chunks: Sequence[PlanChunk]
    policy: Policy
    pins: Pins
    impacts: Sequence[TableImpact]
    preflight: Sequence[PreflightTick]
    prices: Mapping[str, Price]  # by chunk
    reason: str
    note: str
    retention_days: int | None
    look: PlanLook | None
    code: PlanCode | None
    parallel: str  # why so many chunks run at once
    shares: NotRequired[Sequence[KeyShare]]
    periods: NotRequired[Mapping[str, Sequence[Days]]]  # by table, what each month covers
    state: str
    stopped: str  # why
    progress: Sequence[ChunkProgressForm]
    resumed: Sequence[Resumption]
    hours: str  # of earlier versions
    accepted: Sequence[Acceptance]
    took: Mapping[str, TookForm]  # by table


def show_progress(current: "Progress", outcome: bool = False) -> None:
    """Answer with the plan and how far it is; as its `outcome` people get only its chunks and what
    they cost, once it is finished also its tables."""
    write_answer(partial(_plan_document, current), [partial(_draw_plan, current, outcome)])


def _plan_document(current: "Progress") -> dict[str, Any]:
    """The plan and how far it is as JSON values."""
    took = {table: current.took(table) for table in current.plan.tables}
    return plan_dict(current.plan) | {
        "state": current.state,
        "stopped": current.why,
        "progress": [c.to_dict() for c in current.chunks],
        "resumed": [asdict(r) for r in current.resumed],
        "hours": current.hours,
        "accepted": [asdict(a) for a in current.accepted],
        "took": {table: found.to_dict() for table, found in took.items() if found is not None},
    }


def _draw_plan(current: "Progress", outcome: bool) -> None:
    """Draw the plan on the screen; of its `outcome` only chunks and costs."""
    for line in _head_lines(current):
        say(line)
    for section in _outcome_sections(current) if outcome else plan_sections(current):
        click.echo()
        section.draw()
    say(f"next: {_next_command(current)}")


def _outcome_sections(current: "Progress") -> Iterator[PageSection]:
    """The chunks and what they cost; of a finished plan also its tables."""
    if current.state == "finished":
        yield _window_section(current)
    yield _steps_section(current)


def _head_lines(current: "Progress") -> Iterator[str]:
    """What the plan is, why, and what it waits for."""
    plan = current.plan
    size = f"{len(plan.days)} days, {len(plan.chunks)} chunks"
    yield f"plan {plan.id} ({current.state}): {plan.days}, {size}, by {plan.user}"
    if plan.code is not None:
        yield f"code: {plan.code}: its days will show as outdated under today's"
    if words := [text for text in (plan.reason, plan.note) if text]:
        yield f"why: {'; '.join(words)}"
    if current.why:
        yield f"{current.state}: {current.why}"
    yield from map(str, (*current.resumed, *current.accepted))
    if current.hours:
        yield current.hours


def plan_sections(current: "Progress") -> Iterator[PageSection]:
    """The whole plan: what is made and follows, days that move, steps, gates, preflight."""
    plan = current.plan
    yield _window_section(current)
    if plan.look is not None:
        yield _look_section(plan.look, plan.days)
    yield _steps_section(current)
    yield _gate_section(plan)
    yield PageSection("Preflight", lines=[_tick_line(tick) for tick in plan.preflight])


def _look_section(look: PlanLook, days: DayRange) -> PageSection:
    """Days with moved rows, within the plan's `days` and beyond."""
    rows = look_rows(look, days)
    tables = [TextTable(LOOK_COLUMNS, rows)] if rows else []
    return PageSection("What moves with today's settings", tables, [*look_lines(look, days)])


def _gate_section(plan: Plan) -> PageSection:
    """The gates, what a refusal does, and what is expected of each chunk."""
    act = "puts the chunk back and stops" if plan.policy.on_failure == "rollback" else "stops"
    gates = ", ".join(gate_descriptions(plan.policy.tolerances))
    expected = [f"expected: {text}" for text in plan.policy.expect]
    lines = [f"gates: {gates}; a failed gate {act}", *expected]
    return PageSection("Gate after each chunk", lines=lines)


def _tick_line(tick: PreflightTick) -> str:
    box = "[x]" if tick.passed else "[ ]"
    return f"{box} {tick.name}: {tick.told}"


def _window_section(current: "Progress") -> PageSection:
    """The plan's tables with their days, price and cost, the days that follow without being made,
    and the greatest keys."""
    plan = current.plan
    rows, follows = [], []
    for impact in plan.impacts:
        rows.append([*_table_row(impact), took_text(current.took(impact.table))])
        if impact.follows:
            spans = _spans_text(impact.follows)
            follows.append(f"{impact.table} {spans} follows, not made by this plan")
    if follows:
        follows.append(
            f"`catch-up` makes them afterwards; `{widened_command(plan)}` makes them too, so that "
            "its last gate judges "
            "the whole fix: a control that is broken now must hold then"
        )
    shares = [f"greatest key: {share}" for share in plan.shares]
    return PageSection(
        "Window, tables, keys", [TextTable(TABLE_COLUMNS, rows)], [*follows, *shares]
    )


def _steps_section(current: "Progress") -> PageSection:
    """The chunks with state, price and cost, and where the plan waits."""
    plan = current.plan
    lines = [f"all chunks: {price_text(total_price(plan))}{spent_so_far(current)}"]
    if plan.parallel:
        lines.append(f"chunks at once by default {plan.parallel}")
    if plan.policy.stop_after:
        lines.append(f"waits for `backfill-assets plan resume` after: {plan.policy.stop_after}")
    rows = [_chunk_row(chunk) for chunk in current.chunks]
    return PageSection("Steps", [TextTable(CHUNK_COLUMNS, rows)], lines)


def _chunk_row(progress: ChunkProgress) -> list[object]:
    """A row of the table of chunks: `CHUNK_COLUMNS`."""
    chunk = progress.chunk
    expected = price_text(progress.price) if progress.price is not None else "-"
    took = took_text(progress.took)
    return [chunk.number, chunk.days, chunk.kind.shown, progress.state, expected, took]


def runbook_text(current: "Progress") -> str:
    """The plan as a runbook: what is wrong, what is done, in which steps, how it is checked, how it
    is put back."""
    plan = current.plan
    lines = [f"# Backfill {plan.days}", *(f"\n{line}" for line in _head_lines(current))]
    lines += [f"\nIt was made {plan.created:%Y-%m-%d %H:%M} UTC."]
    for section in (
        *plan_sections(current),
        _method_section(plan),
        _rollback_section(plan),
        _pins_section(plan),
    ):
        lines.append(f"\n## {section.title}\n")
        for table in section.tables:
            lines += map(_markdown_row, (table.columns, ["---"] * len(table.columns), *table.cells))
            lines += [""] if section.lines else []
        lines += [f"- {line}" for line in section.lines]
    return "\n".join(lines)


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _method_section(plan: Plan) -> PageSection:
    """How days are written, in which order, and which command does it."""
    by_key = "rows are upserted by key, then " if plan.policy.mode.keeps_standing_rows else ""
    lines = [
        f"write mode `{plan.policy.write_mode}`: {by_key}each day is replaced as a whole, by one "
        "commit per table",
        f"order {plan.policy.order}, at most {plan.policy.max_parallel} chunk(s) at once",
        f"`backfill-assets run {plan.id}` runs the steps in order and stops where a gate refuses",
    ]
    return PageSection("Method", lines=lines)


def _rollback_section(plan: Plan) -> PageSection:
    """How a chunk is put back, and how long that is possible."""
    command = f"`backfill-assets rollback --plan {plan.id} --chunk N` (dry; `--yes` acts)"
    retention = f"replaced files are kept {plan.retention_days} days after they were replaced"
    return PageSection(
        "Putting a chunk back", lines=[command, retention, "never of raw and its ledger"]
    )


def _pins_section(plan: Plan) -> PageSection:
    """What must not move while the plan runs."""
    pins, lines = plan.pins, list[str]()
    if plan.code is not None:
        lines.append(f"code at {plan.code}")
    for kind, pinned in (
        ("package", pins.packages),
        ("code of", pins.codes),
        ("settings of", pins.settings),
        ("version of", pins.versions),
    ):
        lines += [f"{kind} {name}: `{value}`" for name, value in pinned.items()]
    return PageSection("Pins", lines=[*lines, f"as_of: {pins.as_of or 'not set'}"])


def _table_row(impact: TableImpact) -> list[str]:
    """A row of the table of tables: `TABLE_COLUMNS` without the last."""
    reads = sorted((table, spans) for table, spans in impact.reads.items() if spans)
    return [
        impact.table,
        ", ".join(impact.key),
        str(len(impact.days())),
        ", ".join(_reasons(impact)) or "-",
        ", ".join(f"{table} {_spans_text(spans, 1)}" for table, spans in reads) or "-",
        str(sum(map(len, impact.follows)) or "-"),
        price_text(impact.price),
    ]


def _reasons(impact: TableImpact) -> list[str]:
    """Why days are written; of several reasons each with the number of its days."""
    if len(impact.write) <= 1:
        return [*impact.write]
    return [f"{sum(map(len, spans))} {why}" for why, spans in sorted(impact.write.items())]


def _spans_text(spans: Sequence[DayRange], most: int = SHOWN) -> str:
    """The first `most` ranges and the number of the others."""
    shown, more = ", ".join(map(str, spans[:most])), len(spans) - most
    if more <= 0:
        return shown
    ranges = "range" if more == 1 else "ranges"
    return f"{shown} and {more} more {ranges}"


def _next_command(current: "Progress") -> str:
    """What a person does next about the plan in its state."""
    plan = current.plan
    if current.state == "finished" and any(i.follows for i in plan.impacts):
        return (
            "backfill-assets catch-up, for the days that follow; Dagster's daemon makes them "
            "without it"
        )
    if current.state in ("finished", "cancelled"):
        return f"nothing: it is {current.state}"
    if plan.failed_ticks:
        return "correct what the preflight found, then plan again"
    return f"backfill-assets {current.going_on}"


def total_price(plan: Plan) -> Price:
    """The price of all chunks."""
    return Price.total(plan.prices.values())


def spent_so_far(current: "Progress") -> str:
    """The real figures of the chunks that wrote something, with the price of these; empty where
    none did."""
    done = [c for c in current.chunks if c.took is not None]
    expected = sum(c.price.seconds for c in done if c.price)
    real = f"took {took_text(current.took())}, expected {expected:.0f} s"
    return f"; {len(done)} of {len(current.chunks)} {real}" if done else ""


def took_text(took: "Took | None") -> str:
    """All real figures of writes, e.g. `12.3 s (20.1 s CPU), 1,026 rows (10 kept), 12 kB`."""
    if took is None:
        return "-"
    cpu = f" ({took.cpu:.1f} s CPU)" if took.cpu is not None else ""
    kept = f" ({number_text(took.kept)} kept)" if took.kept else ""
    written = f", {size_text(took.bytes)}" if took.bytes is not None else ""
    return f"{took.seconds:.1f} s{cpu}, {number_text(took.rows)} rows{kept}{written}"


def price_text(price: Price | None) -> str:
    """What a price says, e.g. `27 s (10..75), 40 s CPU, 1,026 rows, 12 kB`, or `2 s (0..8, a
    guess), 0 rows`."""
    if price is None or not price.most:
        return "nothing"
    cpu = f", {price.cpu:.0f} s CPU" if price.cpu is not None else ""
    brings = f", {size_text(price.bytes)}" if price.bytes else ""
    guess = "" if price.writes else ", a guess"
    seconds = f"{price.seconds:.0f} s ({price.least:.0f}..{price.most:.0f}{guess})"
    return f"{seconds}{cpu}, {number_text(price.rows)} rows{brings}"


def look_rows(look: PlanLook, days: DayRange) -> list[list[str]]:
    """The days that gain or lose keys, at most a month, days beyond the range first."""
    moved = [move for move in look.moves if moves_rows(move)]
    beyond = [_look_row(move, within="no") for move in moved if move.day not in days]
    inside = [_look_row(move, within="yes") for move in moved if move.day in days]
    return [*beyond, *inside][:LISTED_DAYS]


def _look_row(move: DayMove, within: str) -> list[str]:
    """A row of `LOOK_COLUMNS`; `within`: the word for whether the plan's range has the day."""
    figures = f"+{move.gains}", f"-{move.loses}", str(move.changes)
    return [move.table, str(move.day), *figures, within]


def look_lines(look: PlanLook, days: DayRange) -> Iterator[str]:
    """Sums of moved rows per table, days beyond the range, and days that follow."""
    if not look.moves:
        yield "look: with today's settings what landed gives what stands there"
        return
    for table in dict.fromkeys(m.table for m in look.moves):
        sums = _move_sums([m for m in look.moves if m.table == table])
        yield f"look: {table}: {sums}"
    if beyond := look.beyond(days):
        first, last = min(beyond[0], days.start), max(beyond[-1], days.last)
        spans = ", ".join(map(str, contiguous_ranges(beyond)))
        yield (
            f"beyond the range: {spans} gain or lose rows too; plan --from {first} --to {last} to "
            "make them with it"
        )
    for table, follows in look.follows.items():
        yield f"follows from these: {table} {', '.join(map(str, follows))}"


def _move_sums(moves: Sequence[DayMove]) -> str:
    """The sums of the moved rows of one table."""
    gains, loses = sum(m.gains for m in moves), sum(m.loses for m in moves)
    changes, changed = sum(m.changes for m in moves), [m.day for m in moves if m.changes]
    moved = sum(map(moves_rows, moves))
    where = f": {_spans_text(contiguous_ranges(changed))}" if changed else ""
    return (
        f"{moved} day(s) gain or lose rows (+{gains} -{loses}), {changes} row(s) on "
        f"{len(changed)} day(s) change content{where}"
    )
