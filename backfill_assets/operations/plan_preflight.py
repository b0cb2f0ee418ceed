"""The preflight of a plan: questions that a careful engineer asks first, each answered by computing, never by ticking.

Lives here: the questions and their answers. Does not live here: refusing (`plan_run` refuses a plan whose preflight
failed) and the gate after each chunk (`plan_gate`).
"""

import ast
import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path

from backfill_assets.core.contracts import Basis
from backfill_assets.core.plans import MOST_CHUNK_DAYS, ChunkKind, Plan, PreflightTick
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table, source_files
from backfill_assets.operations.why import ranges

# Names whose value differs from call to call: a day made with them comes out otherwise each time.
UNSTEADY_NAMES = frozenset({
    "now", "today", "utcnow", "time", "time_ns", "random", "rand", "randn", "uuid", "uuid1", "uuid4", "current_date",
    "current_timestamp", "localtimestamp", "unix_timestamp", "monotonically_increasing_id", "shuffle",
})  # fmt: skip
UNSTEADY_SQL = re.compile(
    r"\b(now|rand|randn|uuid|random|unix_timestamp|monotonically_increasing_id|shuffle)\s*\(|"
    r"\bcurrent_(date|timestamp)\b",
    re.IGNORECASE,
)


def preflight(lake: Lake, pipeline: Pipeline, states: States, plan: Plan, most_days: int) -> tuple[PreflightTick, ...]:
    """All answers, in a fixed order."""
    tables = [pipeline.table(name) for name in plan.tables]
    return (
        _keys(tables),
        _deterministic(tables),
        _write_mode(states, plan),
        _sizes(plan, most_days),
        _inputs(states, plan),
        _held(plan),
        _rollback(lake, states, plan),
    )


def _keys(tables: Sequence[Table]) -> PreflightTick:
    lacking = [t.name for t in tables if not t.contract.key]
    nullable = [f"{t.name}.{c}" for t in tables for c in t.contract.key if c not in t.contract.required_columns]
    # A key column that may be NULL is fine: NULL is a value of it, and the check counts its repetitions.
    told = "; ".join(f"{t.name} ({', '.join(t.contract.key)})" for t in tables)
    more = f"; may be NULL, and is compared as a value: {', '.join(nullable)}" if nullable else ""
    if lacking:
        return PreflightTick("keys unique and not NULL", False, f"no key is declared for {', '.join(lacking)}")
    return PreflightTick(
        "keys unique and not NULL", True, f"rows that break it are refused before anybody reads them: {told}{more}"
    )


def _deterministic(tables: Sequence[Table]) -> PreflightTick:
    files = {path for t in tables if not t.is_landed for path in source_files(t)}
    found = [f"{path.name}:{line} {word}" for path in sorted(files) for line, word in _unsteady_in(path)]
    told = (
        f"{'; '.join(found[:5])}" if found else f"no clock and no chance in the {len(files)} file(s) of the transforms"
    )
    return PreflightTick("transforms deterministic", not found, told)


def _unsteady_in(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text("utf-8")
    if path.suffix != ".sql":
        return unsteady(text)
    return ((text.count("\n", 0, match.start()) + 1, match[0]) for match in UNSTEADY_SQL.finditer(text))


def unsteady(source: str) -> Iterator[tuple[int, str]]:
    """Lines that call what differs from call to call: by a name of Python, or in a text that Spark parses."""
    nodes = tuple(ast.walk(ast.parse(source)))
    prose = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in UNSTEADY_NAMES:
                yield node.lineno, name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield from ((node.lineno, match[0]) for match in UNSTEADY_SQL.finditer(node.value))


def _write_mode(states: States, plan: Plan) -> PreflightTick:
    """Of a merge also how many rows stand on the days to write: which of them the new rows lack, only making them
    tells; a day that is right as it is lacks none and is not made."""
    safe = "each day is replaced as a whole, by one commit per table and chunk"
    if not plan.policy.merges:
        return PreflightTick("write mode safe", True, safe)
    told = []
    for impact in plan.impacts:
        stamps = states.view.table(impact.table).stamps
        rows = {d: stamps[d].entry.rows for d in impact.days() if d in stamps and stamps[d].entry.rows}
        told += [f"{impact.table} {sum(rows.values())} row(s) on {ranges(rows)}"] if rows else []
    stand = f"of what stands there ({'; '.join(told) or 'nothing'}), rows that are not made anew"
    acts = "are kept, and their days outdated" if plan.policy.keep_removed else "are named, and the run refuses"
    return PreflightTick("write mode safe", True, f"rows are upserted by key, then {safe}; {stand} {acts}")


def _sizes(plan: Plan, most_days: int) -> PreflightTick:
    largest = max(len(c.days) for c in plan.chunks if c.kind is not ChunkKind.SEAMS)
    told = f"the largest chunk has {largest} day(s), at most {most_days} are allowed"
    if largest > most_days:
        told += f": say --max-chunk-days {largest} if you mean it (the default is {MOST_CHUNK_DAYS})"
    return PreflightTick("chunk size capped", largest <= most_days, told)


def _inputs(states: States, plan: Plan) -> PreflightTick:
    """The day itself must exist in every input table, or be made by the plan before it."""
    lacking = []
    for impact in plan.impacts:
        for wanted in states.contracts[impact.table].inputs:
            if wanted.basis in (Basis.ARRIVALS, Basis.FILES) or wanted.table in plan.tables:
                continue
            stamps = states.view.table(wanted.table).stamps
            absent = [d for d in impact.days() if d not in stamps]
            lacking += [f"{wanted.table} {ranges(absent)}"] if absent else []
    if lacking:
        fix = "name these tables too, or build them first"
        return PreflightTick("inputs present", False, f"never made: {'; '.join(dict.fromkeys(lacking))}; {fix}")
    return PreflightTick("inputs present", True, "every input has the days to be written, or gets them by the plan")


def _held(plan: Plan) -> PreflightTick:
    held = [f"{i.table} {', '.join(map(str, i.held[:3]))}" for i in plan.impacts if i.held]
    if held:
        told = f"put back by a rollback and held: {'; '.join(held)}; `backfill-assets release` them first"
        return PreflightTick("no day is held", False, told)
    return PreflightTick("no day is held", True, "none was put back by a rollback")


def _rollback(lake: Lake, states: States, plan: Plan) -> PreflightTick:
    """What putting back needs: the files that stand now, which are kept so long; raw and its ledger are never put back.

    Fails where retention is shorter than a day. That the files are there is looked at again when it is done.
    """
    days = lake.settings.retention.rollback_days
    kept = [
        f"{i.table} v{states.view.table(i.table).version}" for i in plan.impacts if i.table in _put_back(states, plan)
    ]
    until: date = plan.created.date() + timedelta(days=days)
    told = f"{', '.join(kept) or 'nothing that could be put back'}: what the days hold now is kept until {until}"
    landed = [t for t in plan.tables if states.contracts[t].is_landed]
    return PreflightTick(
        "rollback possible", days > 0, told + (f"; {', '.join(landed)} is never put back" if landed else "")
    )


def _put_back(states: States, plan: Plan) -> set[str]:
    return {t for t in plan.tables if not states.contracts[t].is_landed and states.view.table(t).version >= 0}
