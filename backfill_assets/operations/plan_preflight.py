"""Whether a plan may run: the preflight's checks, and pins of code, settings and packages that must not have moved.

Elsewhere: requests refused before there is a plan (`plan`), the gate after each chunk (`plan_gate`). Table versions are
pinned for the record only: late data that lands while a plan runs belongs in it.
"""

import ast
import platform
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from backfill_assets.core.contracts import Basis
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.states import States
from backfill_assets.lake.code import LIBRARIES, installed_versions
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table, source_files
from backfill_assets.lake.restore import can_restore, files_held
from backfill_assets.operations.plan_model import Pins, Plan, PreflightTick
from backfill_assets.operations.why import ranges

PACKAGES = ("backfill-assets", "dagster", *LIBRARIES)
# Names whose value differs from call to call, and with it a day made with them.
UNSTEADY_NAMES = frozenset({
    "now", "today", "utcnow", "time", "time_ns", "random", "rand", "randn", "uuid", "uuid1", "uuid4", "current_date",
    "current_timestamp", "localtimestamp", "unix_timestamp", "monotonically_increasing_id", "shuffle",
})  # fmt: skip
UNSTEADY_SQL = re.compile(
    r"\b(now|rand|randn|uuid|random|unix_timestamp|monotonically_increasing_id|shuffle)\s*\(|"
    r"\bcurrent_(date|timestamp)\b",
    re.IGNORECASE,
)


def preflight(lake: Lake, pipeline: Pipeline, states: States, plan: Plan) -> tuple[PreflightTick, ...]:
    """All checks, in a fixed order."""
    tables = [pipeline.table(name) for name in plan.tables]
    return (_deterministic(tables), _inputs(states, plan), _held(plan), _rollback(lake, states, plan))


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
    """Line and name of each call whose value differs from call to call, in Python or in a text that Spark parses."""
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


def _inputs(states: States, plan: Plan) -> PreflightTick:
    """Check that the day itself exists in every input table, or that the plan makes it before."""
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
    """Check that the files of the days to write are there as the log names them: a rollback needs these. Raw is never
    rolled back."""
    gone, held, never = [], [], []
    for impact in plan.impacts:
        contract, days = states.contracts[impact.table], impact.days()
        if not days or states.view.table(impact.table).version < 0:
            continue
        if not can_restore(contract):
            never.append(f"; {impact.table} is never put back")
            continue
        files, lost = files_held(lake, contract, days)
        gone += [f"{impact.table} {f.path}" for f in lost]
        held += [f"{len(files)} of {impact.table}"] if files else []
    if gone:
        told = f"{len(gone)} file(s) that these days hold are gone or altered, first {gone[0]}"
        fix = "make these days first, by `backfill-assets backfill --force`"
        return PreflightTick("rollback possible", False, f"{told}; {fix}")
    until = plan.created.date() + timedelta(days=plan.retention_days or 0)
    told = f"the files that these days hold now ({', '.join(held) or 'none'}) are there, and are kept until {until}"
    return PreflightTick("rollback possible", True, told + "".join(never))


def take_pins(lake: Lake, pipeline: Pipeline, states: States) -> Pins:
    """Pin today's code, settings, packages, engine, table versions and `as_of`."""
    return Pins(
        {name: c.code_digest for name, c in pipeline.codes.items()},
        {name: c.settings_digest for name, c in pipeline.codes.items()},
        {"engine": lake.settings.spark.engine, "python": platform.python_version(), **installed_versions(PACKAGES)},
        {name: table.version for name, table in states.view.tables.items()},
        states.view.as_of,
    )


def refuse_moved(plan: Plan, lake: Lake, pipeline: Pipeline, states: States) -> None:
    """Raise if code, settings, packages, engine or `as_of` differ from the plan's pins."""
    moved = list(moved_pins(plan.pins, take_pins(lake, pipeline, states), plan.tables))
    if moved:
        more = f"; {len(moved) - 3} more" if len(moved) > 3 else ""
        raise BackfillError(
            f"the plan {plan.id}",
            f"its pins hold no longer: {'; '.join(moved[:3])}{more}",
            "No further chunk was run; what is written stays",
            f"Put back what moved and run it again, or `backfill-assets plan cancel {plan.id}` and plan the rest anew",
        )


def moved_pins(pinned: Pins, now: Pins, tables: Sequence[str]) -> Iterator[str]:
    """A text per pin that moved, with the pinned value and today's."""
    for name in tables:
        yield from _moved(f"the code of {name}", pinned.codes.get(name, "none"), now.codes.get(name, "none"))
        yield from _moved(f"the settings of {name}", pinned.settings.get(name, "none"), now.settings.get(name, "none"))
    for package, known in pinned.packages.items():
        yield from _moved(package, known, now.packages.get(package, "none"))
    yield from _moved("as_of", str(pinned.as_of), str(now.as_of))


def _moved(what: str, pinned: str, now: str) -> Iterator[str]:
    if pinned != now:
        yield f"{what} was {pinned}, is {now}"
