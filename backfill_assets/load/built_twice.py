"""A user's transform is built twice from the same inputs, and its source is searched for the clock and the environment.

Not here: expressions of a plan that may give other rows (`steadiness`). The clock and the environment may be the same
both times, so their names are refused in the source; what a library reads by itself is not found.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.texts import shortened
from backfill_assets.lake.code import SourceFile
from backfill_assets.lake.model import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN_CHARS = 80
NUMBERED = re.compile(r"\bplan_id: \d+|_pyspark_connect_temp_view_\w+")
CLOCK = frozenset({
    "datetime.date.today", "datetime.datetime.now", "datetime.datetime.today", "datetime.datetime.utcnow",
    "time.time", "time.time_ns",
})  # fmt: skip
CLOCK_UNLESS_GIVEN = {"time.strftime": 2, "time.localtime": 1, "time.gmtime": 1, "time.ctime": 1, "time.asctime": 1}
ENVIRONMENT = frozenset({"os.environ", "os.environ.get", "os.getenv"})
# Transforms that have passed, with the code inputs that they declared: once per loaded code is enough.
_PASSED: "WeakKeyDictionary[Callable[..., Any], tuple[str, ...]]" = WeakKeyDictionary()


def refuse_literals(table: Table, frame: "DataFrame", build: Callable[[], "DataFrame"]) -> None:
    """Raise ContractBroken if the table's files read the clock or undeclared variables, or if `build()`, which gave
    `frame`, gives another plan now. Computes nothing, and nothing at all for code that has passed in this process."""
    transform = table.transform
    if transform is None or not table.brings_code or _PASSED.get(transform) == tuple(table.code_inputs):
        return
    if found := next((f for s in table.sources if isinstance(s, SourceFile) for f in _reads_in(s, table)), None):
        raise _refused(table, found)
    first, again = plan_text(frame), plan_text(build())
    if again != first:
        one, two = next(pair for pair in zip([*first, ""], [*again, ""], strict=False) if pair[0] != pair[1])
        raise _refused(
            table,
            "built twice from the same inputs it is another plan: "
            f"{shortened(one, SHOWN_CHARS)}, then {shortened(two, SHOWN_CHARS)}",
        )
    _PASSED[transform] = tuple(table.code_inputs)


def _refused(table: Table, why: str) -> ContractBroken:
    return ContractBroken(
        f"the transform of {table.name}", why, "It was not run, and nothing was written",
        "Take days and times from the chunk or from columns, chance from a hash of the key and a seed; name a variable "
        'of the environment that it needs in `code_inputs=("env:NAME",)`',
    )  # fmt: skip


def plan_text(frame: "DataFrame") -> list[str]:
    """The lines of a frame's plan as the client sends it, with its own numbers and names counted from one."""
    plan: Any = frame
    names: dict[str, str] = {}
    text = str(plan._plan.to_proto(plan._session.client).root)
    numbered = NUMBERED.sub(lambda found: names.setdefault(found[0], f"part {len(names)}"), text)
    return [line.strip() for line in numbered.splitlines()]


def _reads_in(source: SourceFile, table: Table) -> Iterator[str]:
    """Yield file, line and name of each call in a Python file that reads the clock or an undeclared variable."""
    if source.named_input or source.path.suffix != ".py":
        return
    tree = ast.parse(source.content)
    imported = dict(_imported(tree))
    for node in ast.walk(tree):
        read, given = "", list[ast.expr]()
        if isinstance(node, ast.Call):
            read, given = _dotted(node.func, imported), node.args
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            read, given = _dotted(node.value, imported), [node.slice]
        if read in CLOCK or len(given) < CLOCK_UNLESS_GIVEN.get(read, 0):
            yield f"{source.path.name}, line {node.lineno}: {read} reads the clock"  # type: ignore[attr-defined]
        elif read in ENVIRONMENT and given:
            name = str(given[0].value) if isinstance(given[0], ast.Constant) else ast.unparse(given[0])
            if f"env:{name}" not in table.code_inputs:
                yield f"{source.path.name}, line {given[0].lineno}: {read} reads {name}, which is no code input"


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that imports give, with what they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from ((n.asname or n.name, module + n.name) for n in node.names)


def _dotted(node: ast.expr, imported: dict[str, str]) -> str:
    """The full name of a function, e.g. `datetime.date.today`; "" for what no import names."""
    if isinstance(node, ast.Attribute):
        return f"{base}.{node.attr}" if (base := _dotted(node.value, imported)) else ""
    return imported.get(node.id, "") if isinstance(node, ast.Name) else ""
