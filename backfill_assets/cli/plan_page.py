"""Output of a plan: on the screen, as JSON, and as a runbook in Markdown.

Elsewhere: the figures (`operations.plan_model`, `operations.plan_progress`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import print_json
from backfill_assets.cli.drawing import draw_table, number, say, size
from backfill_assets.core.days import DayRange, contiguous
from backfill_assets.core.plan_gates import described
from backfill_assets.operations.plan_model import Plan, PlanLook, Price, TableImpact

if TYPE_CHECKING:
    from backfill_assets.operations.plan_progress import ChunkProgress, Progress, Took

SHOWN = 3
CHUNK_COLUMNS = ("chunk", "days", "kind", "state", "expected", "took", "rows", "bytes")
LOOK_COLUMNS = ("table", "day", "gains", "loses", "other content", "in the range")
LISTED_DAYS = 31


def draw_list(found: Sequence[tuple[Plan, str]]) -> None:
    """One line per plan."""
    if not found:
        say("No plans yet. Make one with: backfill-assets plan --from DAY --to DAY")
        return
    rows = [[p.id, s, str(p.days), str(len(p.chunks)), p.user, p.reason or p.note or "-"] for p, s in found]
    draw_table(["plan", "state", "days", "chunks", "by", "why"], rows)


def show_progress(now: "Progress", form: str = "") -> None:
    """The plan and how far it is, as `json`, as a runbook in `markdown`, only what was made and what that cost as
    `outcome`, or else drawn."""
    from backfill_assets.operations.plan_model import plan_dict

    if form == "json":
        print_json(
            plan_dict(now.plan)
            | {"state": now.told, "stopped": now.why, "progress": [c.to_dict() for c in now.chunks]}
            | {"took": {t: found.to_dict() for t in now.plan.tables if (found := now.took(t))}}
        )
    elif form == "markdown":
        click.echo(runbook(now))
    elif form == "outcome":
        draw_outcome(now)
    else:
        draw_plan(now)


def draw_outcome(now: "Progress") -> None:
    """What was made and what it cost, for those who have seen the plan."""
    _draw_head(now)
    rows = [[i.table, str(len(i.days())), priced(i.price), whole_cost(now.took(i.table))] for i in now.plan.impacts]
    draw_table(["table", "write", "price", "took"], rows)
    _draw_chunks(now)
    say(f"next: {_next(now)}")


def draw_plan(now: "Progress") -> None:
    """The whole plan on the screen."""
    plan = now.plan
    _draw_head(now)
    rows = [[*_table_row(i), whole_cost(now.took(i.table))] for i in plan.impacts]
    draw_table(["table", "write", "why", "reads", "follows", "price", "took"], rows)
    if any(i.follows for i in plan.impacts):
        say("follows afterwards, not made by this plan:")
        for impact in plan.impacts:
            if impact.follows:
                say(f"  {impact.table} {_spans(impact.follows)}", 4)
    _draw_look(plan)
    _draw_chunks(now)
    say(f"gates: {_gates(plan)}")
    click.echo()
    for tick in plan.preflight:
        say(f"[{'x' if tick.passed else ' '}] {tick.name}: {tick.told}", 4)
    say(f"next: {_next(now)}")


def _draw_head(now: "Progress") -> None:
    plan = now.plan
    say(f"plan {plan.id} ({now.told}): {plan.days}, {len(plan.days)} days, {len(plan.chunks)} chunks, by {plan.user}")
    if plan.code is not None:
        say(f"code: {plan.code}: its days will show as outdated under today's")
    if plan.reason or plan.note:
        say(f"why: {'; '.join(t for t in (plan.reason, plan.note) if t)}")
    if now.why:
        say(f"{now.told}: {now.why}")
    click.echo()


def _draw_chunks(now: "Progress") -> None:
    click.echo()
    draw_table(CHUNK_COLUMNS, [_chunk_row(c) for c in now.chunks])
    say(f"all chunks: {priced(total(now.plan))}{so_far(now)}")


def _draw_look(plan: Plan) -> None:
    if plan.look is None:
        return
    if moved := look_rows(plan.look, plan.days):
        draw_table(LOOK_COLUMNS, moved)
    for line in look_lines(plan.look, plan.days):
        say(line, 2)


def _table_row(impact: TableImpact) -> list[str]:
    several = len(impact.write) > 1
    why = ", ".join(f"{sum(map(len, spans))} {r}" if several else r for r, spans in sorted(impact.write.items()))
    reads = ", ".join(f"{table} {_spans(spans, 1)}" for table, spans in sorted(impact.reads.items()) if spans)
    days = str(len(impact.days()))
    return [impact.table, days, why or "-", reads or "-", _count(impact.follows), priced(impact.price)]


def _chunk_row(found: "ChunkProgress") -> list[str]:
    chunk, took = found.chunk, found.took
    price = priced(found.price) if found.price else "-"
    kept = f" ({number(took.kept)} kept)" if took and took.kept else ""
    real = [cost(took), number(took.rows) + kept, size(took.bytes)] if took else [cost(None), number(None), size(None)]
    return [str(chunk.number), str(chunk.days), chunk.kind.value, found.state.value, price, *real]


def _count(spans: Sequence[DayRange]) -> str:
    return f"{sum(map(len, spans))}" if spans else "-"


def _spans(spans: Sequence[DayRange], most: int = SHOWN) -> str:
    more = f" and {len(spans) - most} more range{'s' * (len(spans) > most + 1)}" if len(spans) > most else ""
    return ", ".join(map(str, spans[:most])) + more


def _gates(plan: Plan) -> str:
    act = "puts the chunk back and stops" if plan.policy.on_failure == "rollback" else "stops"
    return f"{', '.join(described(plan.policy.tolerances))}; a failed gate {act}"


def _next(now: "Progress") -> str:
    plan = now.plan
    if now.told == "finished" and any(i.follows for i in plan.impacts):
        return "backfill-assets catch-up, for the days that follow; under `dagster dev` they are made without it"
    if now.told in ("finished", "cancelled"):
        return f"nothing: it is {now.told}"
    if not all(t.passed for t in plan.preflight):
        return "correct what the preflight found, then plan again"
    verb = f"plan resume {plan.id}" if now.told == "paused" else f"run {plan.id}"
    return f"backfill-assets {verb}"


def runbook(now: "Progress") -> str:
    """The plan as a runbook: what is wrong, what is done, in which steps, how it is checked, how it is put back."""
    return "\n".join(_runbook(now))


def _runbook(now: "Progress") -> Iterator[str]:
    plan = now.plan
    yield f"# Backfill {plan.days}\n"
    yield f"Plan `{plan.id}`, made {plan.created:%Y-%m-%d %H:%M} UTC by {plan.user}; it is {now.told}.\n"
    yield f"**Why:** {plan.reason or '-'}. {plan.note}\n"
    yield "## Window, tables, keys\n"
    yield from _rows(("table", "key", "days written", "why", "source days", "follows afterwards"))
    for i in plan.impacts:
        row = _table_row(i)
        follows = _spans(i.follows) or "-"
        yield from _rows((i.table, ", ".join(i.key), row[1], row[2], row[3], follows), head=False)
    yield from _looked(plan)
    yield "\n## Method\n"
    by_key = "rows are upserted by key, then " if plan.policy.merges else ""
    yield f"Write mode `{plan.policy.write_mode}`: {by_key}each day is replaced as a whole, "
    yield "one commit per table and chunk. "
    yield f"Order {plan.policy.order}, at most {plan.policy.max_parallel} chunk(s) at once.\n"
    yield "## Preflight\n"
    yield from (f"- [{'x' if t.passed else ' '}] {t.name}: {t.told}" for t in plan.preflight)
    yield "\n## Steps\n"
    yield f"`backfill-assets run {plan.id}` runs them in order and stops where a gate refuses.\n"
    yield from _rows(CHUNK_COLUMNS)
    for chunk in now.chunks:
        yield from _rows(_chunk_row(chunk), head=False)
    yield f"\nAll chunks: {priced(total(plan))}{so_far(now)}."
    yield f"\nAfter each chunk: {_gates(plan)}.\n"
    yield "## Putting a chunk back\n"
    yield f"`backfill-assets rollback --plan {plan.id} --chunk N` (dry; `--yes` acts). Replaced files are kept "
    yield f"{plan.retention_days} days after they were replaced. Never of raw and its ledger.\n"
    yield "## Pins\n"
    yield from [f"- code at {plan.code}"] if plan.code is not None else []
    yield from _pins("package", plan.pins.packages)
    yield from _pins("code of", plan.pins.codes)
    yield from _pins("settings of", plan.pins.settings)
    yield from _pins("version of", {t: str(v) for t, v in plan.pins.versions.items()})
    yield f"- as_of: {plan.pins.as_of or 'not set'}"


def _looked(plan: Plan) -> Iterator[str]:
    if plan.look is None:
        return
    yield "\n## What moves with today's settings\n"
    yield from _rows(LOOK_COLUMNS)
    for row in look_rows(plan.look, plan.days):
        yield from _rows(row, head=False)
    yield ""
    yield from (f"- {line}" for line in look_lines(plan.look, plan.days))


def _pins(what: str, pinned: Mapping[str, str]) -> Iterator[str]:
    return (f"- {what} {name}: `{value}`" for name, value in pinned.items())


def _rows(cells: Sequence[str], head: bool = True) -> Iterator[str]:
    yield "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"
    if head:
        yield "|" + "---|" * len(cells)


def total(plan: Plan) -> Price:
    """The price of all chunks."""
    return reduce(add, plan.prices.values(), Price(0.0, 0.0, 0.0, 0, 0, 10**9, 0.0))


def so_far(now: "Progress") -> str:
    """The real figures of the chunks that wrote something, with the price of these; empty where none did."""
    done = [c for c in now.chunks if c.took is not None]
    took = now.took_in_all()
    if took is None:
        return ""
    expected = sum(c.price.seconds for c in done if c.price)
    real = f"{cost(took)} for {_rows_and_bytes(took)}"
    return f"; {len(done)} of {len(now.chunks)} took {real}, expected {expected:.0f} s"


def whole_cost(took: "Took | None") -> str:
    """All real figures of writes, e.g. `12.3 s (20.1 s CPU), 1,026 rows, 12 kB`."""
    return f"{cost(took)}, {_rows_and_bytes(took)}" if took else "-"


def _rows_and_bytes(took: "Took") -> str:
    return f"{number(took.rows)} rows" + (f", {size(took.bytes)}" if took.bytes is not None else "")


def cost(took: "Took | None") -> str:
    """The real seconds, e.g. `12.3 s (20.1 s CPU)`."""
    if took is None:
        return "-"
    return f"{took.seconds:.1f} s" + (f" ({took.cpu:.1f} s CPU)" if took.cpu is not None else "")


def priced(price: Price | None) -> str:
    """What a price says, e.g. `27 s (10..75), 40 s CPU, 1,026 rows, 12 kB`."""
    if price is None or not price.most:
        return "nothing"
    cpu = f", {price.cpu:.0f} s CPU" if price.cpu is not None else ""
    brings = f", {size(price.bytes)}" if price.bytes else ""
    return f"{_seconds(price)}{cpu}, {number(price.rows)} rows{brings}"


def _seconds(price: Price) -> str:
    """E.g. `27 s (10..75, a guess)`."""
    return f"{price.seconds:.0f} s ({price.least:.0f}..{price.most:.0f}{', a guess' if price.is_guess else ''})"


def look_rows(look: PlanLook, days: DayRange) -> list[list[str]]:
    """The days that gain or lose keys, up to a month of them, first those beyond the range."""
    moved = sorted((m for m in look.moves if m.gains or m.loses), key=lambda m: m.day in days)
    return [
        [m.table, str(m.day), f"+{m.gains}", f"-{m.loses}", str(m.changes), "yes" if m.day in days else "no"]
        for m in moved[:LISTED_DAYS]
    ]


def look_lines(look: PlanLook, days: DayRange) -> Iterator[str]:
    """Sums of moved rows per table, days beyond the range, and days that follow."""
    if not look.moves:
        yield "look: with today's settings what landed gives what stands there"
        return
    for table in dict.fromkeys(m.table for m in look.moves):
        mine = [m for m in look.moves if m.table == table]
        moved = sum(1 for m in mine if m.gains or m.loses)
        told = f"{moved} day(s) gain or lose rows (+{sum(m.gains for m in mine)} -{sum(m.loses for m in mine)})"
        yield f"look: {table}: {told}, {sum(m.changes for m in mine)} row(s) on {len(mine)} day(s) change content"
    if beyond := look.beyond(days):
        first, last = min(beyond[0], days.start), max(beyond[-1], days.last)
        spans = ", ".join(map(str, contiguous(beyond)))
        yield f"beyond the range: {spans} gain or lose rows too; plan --from {first} --to {last} to make them with it"
    for table, follows in look.follows.items():
        yield f"follows from these: {table} {', '.join(map(str, follows))}"
