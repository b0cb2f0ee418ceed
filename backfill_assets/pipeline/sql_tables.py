"""Tables written as SQL: a `.sql` file whose header, TOML in a comment, gives columns, key, day,
inputs and windows.

`guides/own-tables.md` shows one. Not here: where the files are named (`[pipeline] sql`, read by
`chosen`).
"""

import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from backfill_assets.kernel.core.addresses import address_of
from backfill_assets.kernel.core.contracts import Column, Contract, Input, InputKind, Rule
from backfill_assets.kernel.core.errors import NOT_RUN, BackfillError, ContractBroken, SettingsError
from backfill_assets.kernel.core.texts import refusal_reason
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.code import SourceFile
from backfill_assets.kernel.write.model import Chunk, Source, Table
from backfill_assets.kernel.write.rules import check_rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADER = re.compile(r"\s*/\*(.*?)\*/", re.DOTALL)
COLUMN = re.compile(
    r"(?P<type>[A-Za-z][\w(), <>]*?)(?P<null>\s+(?:NOT\s+)?NULL)?\s*(?:--\s*(?P<told>.*))?",
    re.IGNORECASE,
)
AS_KNOWN_CODE = "backfill_assets.pipeline.transforms.staging"
SPREAD_CODE = "backfill_assets.pipeline.transforms.spread"
RESERVED = ("first_day", "last_day", "frontier")


class _Window(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    before: int = Field(default=0, ge=0, le=3650)
    after: int = Field(default=0, ge=0, le=3650)
    as_known: bool = False
    columns: list[str] | None = Field(default=None, min_length=1)
    by: list[str] = Field(default_factory=list)
    isolate_nulls: bool = False
    salt: int = Field(default=1, ge=1, le=1000)
    joined: dict[str, dict[str, str]] = Field(default_factory=dict)


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    expression: str = Field(min_length=1)
    description: str = ""
    per: list[str] = Field(default_factory=list)
    only_warns: bool = False


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    description: str = Field(min_length=1)
    day: str
    key: list[str] = Field(min_length=1)
    columns: dict[str, str] = Field(min_length=1)
    inputs: dict[str, _Window] = Field(min_length=1)
    parameters: dict[str, bool | int | float | date | str] = Field(default_factory=dict)
    rules: dict[str, str | _Rule] = Field(default_factory=dict)

    @property
    def has_input_as_known(self) -> bool:
        """Whether an input is read as known at the cuts of days."""
        return any(window.as_known for window in self.inputs.values())


def sql_table(path: Path, settings: LakeSettings) -> Table:
    """The table that a `.sql` file describes. Raises SettingsError naming the file, and the line if
    known."""
    file, header, query = _parsed_file(path)
    taken = sorted({*RESERVED} & {*header.parameters})
    if taken:
        raise _file_error(
            path,
            f"parameters: {', '.join(taken)} says the days or the frontier already",
            "Rename it",
        )
    try:
        contract = _sql_contract(path, header)
        check_rules(contract)
    except ValueError as error:
        raise _file_error(path, str(error), "Correct the header") from None
    except BackfillError as error:
        raise _file_error(path, f"{error.object}: {error.culprit}", error.fix) from None
    grace = settings.features.cutoff_grace_hours
    transform = _transform_of(contract, header, query, grace)
    sources: tuple[Source, ...] = (file, __name__, SPREAD_CODE)
    if not header.has_input_as_known:
        return Table(contract, transform, header.parameters, sources, code_version="sql 1")
    reaching = {**header.parameters, "cutoff_grace_hours": grace}
    sources = (*sources, AS_KNOWN_CODE)
    return Table(contract, transform, reaching, sources, code_version="sql as known 1")


def _parsed_file(path: Path) -> tuple[SourceFile, _Header, str]:
    """The file as read, its header, and its query. Raises SettingsError naming the file."""
    try:
        file = SourceFile.read(path)
        text = file.text
        found = HEADER.match(text)
        if found is None:
            raise _file_error(
                path,
                "it has no header",
                "Begin it with /* … */ that holds description, day, key, columns",
            )
        # Lines are counted as in the file.
        above = "\n" * text.count("\n", 0, found.start(1))
        header = _Header.model_validate(tomllib.loads(above + found[1]))
    except tomllib.TOMLDecodeError as error:
        raise _file_error(path, f"its header is not TOML: {error}", "Correct the header") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _file_error(
            path, f"it cannot be read: {error}", "Give this user the right to read it, as UTF-8"
        ) from None
    except ValidationError as error:
        reasons = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {refusal_reason(e)}" for e in error.errors()
        )
        raise _file_error(path, f"its header: {reasons}", "Correct the header") from None
    query = text[found.end() :].strip().removesuffix(";")
    if not query:
        raise _file_error(path, "it has no query", "Write a SELECT below the header")
    return file, header, query


def _sql_contract(path: Path, header: _Header) -> Contract:
    """The contract that a header declares; the table is called as its file. Raises ValueError."""
    for name, window in header.inputs.items():
        names_other_tables = {*window.joined} - {*header.inputs}
        if names_other_tables or (window.joined and not window.by):
            raise ValueError(
                f"inputs.{name}: `joined` names other inputs, and `by` the columns of both to "
                "join by"
            )
    columns = (_declared_column(name, told, header) for name, told in header.columns.items())
    return Contract(
        name=path.stem,
        description=header.description,
        columns=tuple(columns),
        day_column=header.day,
        key=tuple(header.key),
        inputs=tuple(_declared_input(name, window) for name, window in header.inputs.items()),
        waits_for_cut=header.has_input_as_known,
        rules=tuple(_declared_rule(name, declared) for name, declared in header.rules.items()),
    )


def _declared_input(table: str, window: _Window) -> Input:
    """The input `table`, read as its entry below `inputs` says."""
    return Input(
        table,
        before=window.before,
        after=window.after,
        kind=InputKind.KNOWN_AT_CUT if window.as_known else InputKind.CONTENT,
        columns=tuple(window.columns) if window.columns else None,
        by=tuple(window.by),
        isolate_nulls=window.isolate_nulls,
        salt=window.salt,
    )


def _declared_column(name: str, declared: str, header: _Header) -> Column:
    """Parse `TYPE [NULL | NOT NULL] [-- description]`; the default is NOT NULL."""
    found = COLUMN.fullmatch(declared.strip())
    if found is None:
        raise ValueError(f"columns.{name}: {declared!r} is not `TYPE [NULL] [-- what it means]`")
    nullable = bool(found["null"]) and "not" not in found["null"].lower()
    kind: Any = found["type"].strip().upper()
    return Column(name, kind, found["told"] or name, nullable=nullable)


def _declared_rule(name: str, declared: str | _Rule) -> Rule:
    """Parse `EXPRESSION [-- description]`, or take its parts; the name stands for a missing
    description."""
    if isinstance(declared, _Rule):
        return Rule(
            name,
            declared.expression,
            declared.description or name,
            per=tuple(declared.per),
            only_warns=declared.only_warns,
        )
    expression, _, description = declared.partition("--")
    return Rule(name, expression.strip(), description.strip() or name)


def _transform_of(
    contract: Contract, header: _Header, query: str, grace: int
) -> Callable[[Mapping[str, "DataFrame"], Chunk], "DataFrame"]:
    """The transform of a table: `query` over its inputs, with parameters and days filled in, of
    which only the rows of a chunk's days, or without a day, are kept. `grace`: of the cuts, in
    hours."""
    named = ", ".join(f"`{name}` AS (SELECT * FROM {{{name}}})" for name in header.inputs)

    def run(frames: Mapping[str, "DataFrame"], chunk: Chunk) -> "DataFrame":
        """The query over the inputs, each as known at the cuts, and joined to another, where the
        header says so."""
        seen = _joined_inputs(contract, header, _inputs_as_known(frames, header, chunk, grace))
        of_chunk = {
            "first_day": chunk.days.start,
            "last_day": chunk.days.last,
            "frontier": chunk.frontier,
        }
        filled = _filled_query(query, {**header.parameters, **of_chunk})
        filled = _session_free_query(contract.name, filled, seen)
        # `sql` below takes braces for names of frames.
        filled = filled.replace("{", "{{").replace("}", "}}")
        first, last = _sql_literal(chunk.days.start), _sql_literal(chunk.days.last)
        day = f"`{header.day}`"
        text = (
            f"WITH {named} SELECT * FROM (\n{filled}\n) AS made WHERE {day} IS NULL OR {day} "
            f"BETWEEN {first} AND {last}"
        )
        return next(iter(seen.values())).sparkSession.sql(text, None, **seen)

    return run


def _inputs_as_known(
    frames: Mapping[str, "DataFrame"], header: _Header, chunk: Chunk, grace: int
) -> dict[str, "DataFrame"]:
    """The inputs, those as known at the cuts with a row for each day whose cut they were current
    at. `grace`: of the cuts, in hours."""
    from backfill_assets.pipeline.transforms.staging import as_known

    seen = {name: frames[name] for name in header.inputs}
    for name, window in header.inputs.items():
        if window.as_known:
            seen[name] = as_known(frames[name], chunk.days, window.before, grace)
    return seen


def _joined_inputs(
    contract: Contract, header: _Header, seen: Mapping[str, "DataFrame"]
) -> dict[str, "DataFrame"]:
    """The inputs, each joined to those that its `joined` names; a later one meets earlier ones as
    they are joined."""
    from backfill_assets.pipeline.transforms.spread import spread_join

    joined = {**seen}
    for wanted in contract.inputs:
        for right, alike in header.inputs[wanted.table].joined.items():
            ours = {theirs: own for own, theirs in alike.items()}
            other = joined[right].withColumnsRenamed(ours)
            choice = replace(wanted, by=(*wanted.by, *alike))
            joined[wanted.table] = spread_join(joined[wanted.table], other, choice)
    return joined


def _session_free_query(table: str, query: str, frames: Mapping[str, "DataFrame"]) -> str:
    """The query without what the session decides, by the types of columns that all frames give
    alike."""
    from backfill_assets.intake.session_free import clock_fault, guarded_text, unknown_session_names

    found = set[tuple[str, str]]()
    for frame in frames.values():
        found |= {(name.lower(), kind) for name, kind in frame.dtypes}
    names = Counter(name for name, _ in found)
    types = {name: kind for name, kind in found if names[name] == 1}
    unknown = unknown_session_names(query, names)
    why = clock_fault(query, types)
    if unknown:
        why = f"no column of its inputs is named {unknown[0]}: the engine would give its session's"
    if why:
        advice = "Take days and times from the chunk or columns"
        raise ContractBroken(f"the transform of {table}", why, NOT_RUN, advice)
    return guarded_text(query, types, strict=True)


def _filled_query(query: str, values: Mapping[str, object]) -> str:
    """The query with its parameters as literals: a server of Spark Connect takes either parameters
    or frames."""
    import sqlglot

    parts, done, tokens = [], 0, sqlglot.tokenize(query, read="spark")
    for colon, name in itertools.pairwise(tokens):
        if colon.text != ":" or name.text not in values:
            continue
        stands_alone = colon.start == 0 or not re.match(r"[\w)\]`:]", query[colon.start - 1])
        if stands_alone and name.start == colon.end + 1:
            parts += [query[done : colon.start], _sql_literal(values[name.text])]
            done = name.end + 1
    return "".join([*parts, query[done:]])


def _sql_literal(value: object) -> str:
    """A value as a literal of Spark SQL."""
    if value is None:
        return "CAST(NULL AS TIMESTAMP)"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return f"{value}D" if isinstance(value, float) else str(value)


def _file_error(path: Path, culprit: str, fix: str) -> SettingsError:
    return SettingsError(address_of(path), culprit, "Nothing was done", fix)
