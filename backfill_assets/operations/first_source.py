"""The `[source]` that one landed file suggests: times, key, entity and payload by names and values (DuckDB, no JVM).

Not here: asking a person (`cli.init`), and the load itself, whose rules alone decide (`landing.mapping`,
`load.deliveries`). A guess reads one file; the next one may differ.
"""

import json
import re
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.core.errors import SettingsError
from backfill_assets.core.payload import DEFAULT_PAYLOAD, MACHINERY, TAKEN
from backfill_assets.lake.embedded import literal
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.settings import LakeSettings, lake_toml
from backfill_assets.landing.batches import BAD_REASON
from backfill_assets.landing.files import LandedFile
from backfill_assets.landing.ingest import OWN_FIELDS, ingest
from backfill_assets.landing.paths import BY_NUMBER, are_numbered, day_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ENOUGH = 0.9  # of the values of a text column must read as a type
SHOWN = 10  # deliveries
KEYS = re.compile(r"(?:^|_)(?:id|key|uuid|guid|no|number|code)$")
ROLES = {  # the names that senders give these columns, the likeliest first
    "event_ts": ("event_ts", "event_time", "event_at", "occurred_at", "ordered_at", "ts", "timestamp", "time"),
    "arrival_ts": ("arrival_ts", "arrived_at", "received_at", "ingested_at", "ingestion_ts", "loaded_at"),
    "version_ts": ("version_ts", "version_at", "updated_at", "modified_at", "changed_at", "last_modified"),
    "seq": ("seq", "sequence", "offset", "delivery"),
    "op": ("op", "operation"),
}  # fmt: skip
TIMES = ("TIMESTAMP", "DATE")
WHOLE, DECIMAL, TIME = r"-?(0|[1-9]\d{0,17})", r"-?\d{1,%d}(\.\d{1,%d})?", r"\d{4}-\d\d-\d\d([T ]\d\d:.*)?"
SPARKS = {  # DuckDB's types of Parquet columns, as a payload declares them
    "VARCHAR": "STRING", "BOOLEAN": "BOOLEAN", "TINYINT": "INT", "SMALLINT": "INT", "INTEGER": "INT",
    "BIGINT": "BIGINT", "FLOAT": "DOUBLE", "DOUBLE": "DOUBLE", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP", "TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "BLOB": "BINARY",
}  # fmt: skip


@dataclass(frozen=True)
class FileColumn:
    """A column of the file: `type` as Spark writes it, `is_text` if its values are text that reads as that type, its
    number of `distinct` values; `is_nested`: they are JSON."""

    name: str
    type: str
    is_text: bool
    distinct: int
    is_nested: bool = False


@dataclass(frozen=True)
class FirstSource:
    """What a file suggests. `roles`: delivery column -> column of the file; `payload`: name in the lake -> column.

    `path_names_day`: its path holds a day, arrival_ts where no column is. `numbered`: numbers in names order files.
    """

    file: LandedFile
    form: str
    columns: tuple[FileColumn, ...]
    roles: Mapping[str, str]
    payload: Mapping[str, FileColumn]
    entity: str
    start_date: date
    path_names_day: bool
    numbered: bool

    @property
    def is_plain(self) -> bool:
        """Whether the payload is the one that needs no declaration: entity, value and flag."""
        return set(self.payload) == {c.name for c in DEFAULT_PAYLOAD}

    @property
    def is_ordered(self) -> bool:
        """Whether a column says which of several rows of one key and day is the newest."""
        return not {"seq", "version_ts", "arrival_ts"}.isdisjoint(self.roles)

    @property
    def select(self) -> str:
        """Spark SQL for `[source] select`; a value that is no time goes to quarantine when it is loaded."""
        types = {c.name: c for c in self.columns}
        parts = [_named(role, _spark(self.roles[role], types, role)) for role in MACHINERY if role in self.roles]
        if self.numbered and not self.is_ordered:
            parts.insert(0, BY_NUMBER)
        if "arrival_ts" not in self.roles and not self.path_names_day:
            parts.append(f"{_spark(self.roles['event_ts'], types, 'event_ts')} AS arrival_ts")
        return ", ".join([*parts, *(_named(name, _tick(c.name)) for name, c in self.payload.items())])


def first_source(files: Sequence[LandedFile], form: str, chosen: Mapping[str, str]) -> tuple[FirstSource, "Preview"]:
    """Return what the first file and all names suggest, and its deliveries. `chosen`: roles that a person named
    (event_key, event_ts, arrival_ts, entity). Raises SettingsError where a role has no column or the file no rows."""
    import duckdb

    file = files[0]
    with tempfile.TemporaryDirectory() as store, duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        copy = ingest(file, form, Path(store))
        if copy.refused is not None:
            raise _unfit(file, f"it cannot be read: {copy.refused}", "Correct the file, or name its --format")
        engine.execute(f"CREATE VIEW landed AS SELECT * FROM read_parquet({literal(str(copy.parquet))})")
        own = {f.name for f in OWN_FIELDS} if form != "parquet" else set()
        described = ((str(name), str(kind)) for name, kind, *_ in engine.execute("DESCRIBE landed").fetchall())
        columns = tuple(_column(engine, name, kind) for name, kind in described if name not in own)
        guess = replace(_guess(engine, file, form, columns, chosen), numbered=are_numbered(f.name for f in files))
        return guess, _preview(engine, guess)


def first_toml(guess: FirstSource, glob: str, values: Mapping[str, Any]) -> str:
    """The commented `lake.toml` with this source and, over a payload of its own, a first feature and label. `values`
    as in `lake_toml`; what they name wins. Raises SettingsError for values that a lake would not accept."""
    source = {"start_date": guess.start_date, "files": glob, "format": guess.form, "select": guess.select}
    text = lake_toml({**source, **values})
    if guess.is_plain:
        return text
    numbers = [
        n for n, c in guess.payload.items() if c.type.startswith(("BIGINT", "INT", "DECIMAL")) and n != guess.entity
    ][:2]
    wanted = [("events_7d", "count", "", 7), *((f"{n}_28d", "sum", f'of = "{n}"\n', 28) for n in numbers)]
    payload = "".join(f"{name} = {json.dumps(column.type)}\n" for name, column in guess.payload.items())
    features = "".join(
        f'[[features.columns]]\nname = "{name}"\nagg = "{agg}"\n{of}days = {days}\n' for name, agg, of, days in wanted
    )
    text = _exchanged(text, "# [source.payload]", f"[source.payload]\n{payload}", 3)
    text = _exchanged(text, "windows_days", f"entity = {json.dumps([guess.entity])}\n", 1)
    text = _exchanged(text, "# [[features.columns]]", features, 7)
    text = _exchanged(text, "measure", 'label = "count_ahead() > 0"           # is there an event in the horizon?\n', 2)
    LakeSettings.model_validate(tomllib.loads(text))
    return text


@dataclass(frozen=True)
class Preview:
    """The first deliveries that the file would give, by column, and the rows that would be refused, by reason."""

    rows: int
    header: tuple[str, ...]
    deliveries: list[tuple[Any, ...]]
    refused: dict[str, int]


def _column(engine: "DuckDBPyConnection", name: str, kind: str) -> FileColumn:
    """The column, with the type that nearly all of its values read as; blank ones say nothing."""
    value = f"nullif(trim(CAST({quoted(name)} AS VARCHAR)), '')"
    tests = {
        "BOOLEAN": "v IN ('true', 'false')",
        "BIGINT": f"regexp_full_match(v, '{WHOLE}')",
        "DECIMAL(18,2)": f"regexp_full_match(v, '{DECIMAL % (16, 2)}')",
        "DECIMAL(18,6)": f"regexp_full_match(v, '{DECIMAL % (12, 6)}')",
        "DATE": "regexp_full_match(v, '\\d{4}-\\d\\d-\\d\\d') AND try_cast(v AS DATE) IS NOT NULL",
        "TIMESTAMP": f"regexp_full_match(v, '{TIME}') AND try_cast(v AS TIMESTAMPTZ) IS NOT NULL",
    }
    counts = ", ".join(f"count(*) FILTER ({test})" for test in (*tests.values(), "regexp_matches(v, '^[{[]')"))
    query = f"SELECT count(v), count(DISTINCT v), {counts} FROM (SELECT {value} AS v FROM landed)"
    row = engine.execute(query).fetchone() or ()
    filled, distinct, *read, nested = (int(n) for n in row)
    if kind != "VARCHAR":
        return FileColumn(name, SPARKS.get(kind, kind), False, distinct)
    fitting = (t for t, count in zip(tests, read, strict=True) if filled and count >= ENOUGH * filled)
    return FileColumn(name, next(fitting, "STRING"), True, distinct, nested > ENOUGH * filled)


def _guess(
    engine: "DuckDBPyConnection", file: LandedFile, form: str, columns: Sequence[FileColumn], chosen: Mapping[str, str]
) -> FirstSource:
    known, listed = {c.name.lower(): c for c in columns}, [c.name for c in columns]
    if form == "csv" and len(listed) == 1 and re.search(r"[;\t|]", listed[0]):
        raise _unfit(file, f"its header has no comma: {listed[0]}", "Separate its columns by commas")
    for role, name in chosen.items():
        if name.lower() not in known:
            raise _unfit(file, f"it has no column {name} for {role}", f"Name one of {', '.join(listed)}")
    roles = {role: known[name.lower()].name for role, name in chosen.items() if role != "entity"}
    for role, names in ROLES.items():
        fits = [known[n] for n in names if n in known and known[n].name not in roles.values()]
        fits = [c for c in fits if (c.type in TIMES) == role.endswith("_ts")]
        if role not in roles and fits:
            roles[role] = fits[0].name
    if "event_ts" not in roles:  # the only time may be that of the version, too
        times = sorted((c for c in columns if c.type in TIMES), key=lambda c: c.name in roles.values())
        roles["event_ts"] = _first(file, "event_ts", times, listed)
    if "event_key" not in roles:
        others = _namers(c for c in columns if c.name not in roles.values())
        roles["event_key"] = _first(file, "event_key", sorted(others, key=lambda c: -c.distinct), listed)
    payload, entity = _payload(columns, roles, chosen.get("entity"))
    first = f"quantile_disc(CAST({_moment(roles['event_ts'])} AS DATE), 0.01)"
    if (day := engine.execute(f"SELECT {first} FROM landed").fetchone()) is None or day[0] is None:
        fix = f"Name another with --event-ts, or say --select \"to_timestamp(`{roles['event_ts']}`, 'dd.MM.yyyy') …\""
        raise _unfit(file, f"no value of {roles['event_ts']} is a time of ISO 8601", fix)
    names_day = day_of(file.name) is not None
    return FirstSource(file, form, tuple(columns), roles, payload, entity, day[0].replace(day=1), names_day, False)


def _namers(columns: Iterable[FileColumn]) -> list[FileColumn]:
    """The columns that may name something: those called so, else all texts and whole numbers."""
    fit = [c for c in columns if c.type in ("STRING", "BIGINT", "INT") and c.distinct and not c.is_nested]
    return [c for c in fit if KEYS.search(_name(c.name))] or fit


def _first(file: LandedFile, role: str, columns: Iterable[FileColumn], known: Iterable[str]) -> str:
    for column in columns:
        return column.name
    fix = f"Name it with --{role.replace('_', '-')}: one of {', '.join(known)}"
    raise _unfit(file, f"no column of it looks like {role}", fix)


def _payload(
    columns: Sequence[FileColumn], roles: Mapping[str, str], entity: str | None
) -> tuple[dict[str, FileColumn], str]:
    """All columns that have no role, by the name they get, and the one that names the entity: among those whose values
    repeat most the first with a name like a key; the event's own key where there is none."""
    named = {_name(c.name): c for c in columns if c.name not in roles.values()}
    named = {(f"own_{n}" if n in TAKEN or not n[:1].isalpha() else n): c for n, c in named.items()}
    candidates = _namers(named.values()) or [c for c in columns if c.name == roles["event_key"]]
    chosen = next((c for c in columns if c.name.lower() == (entity or "").lower()), None) or candidates[0]
    own = next((n for n, c in named.items() if c is chosen), _name(chosen.name))
    return {**named, own: chosen}, own


def _preview(engine: "DuckDBPyConnection", guess: FirstSource) -> Preview:
    """Evaluate the guess by DuckDB, as the load would by Spark."""
    bad = BAD_REASON if guess.form != "parquet" else "NULL"
    reasons = [f"WHEN {bad} IS NOT NULL THEN {bad}", *_refusals(guess)]
    judged = f"SELECT *, CASE {' '.join(reasons)} END AS __why FROM landed"
    shown = {"event_key": f"CAST({quoted(guess.roles['event_key'])} AS VARCHAR)"}
    shown |= {role: _moment(guess.roles[role]) for role in ("event_ts", "arrival_ts") if role in guess.roles}
    shown |= {name: f"CAST({quoted(c.name)} AS VARCHAR)" for name, c in guess.payload.items()}
    listed = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in shown.items())
    first = engine.execute(f"SELECT {listed} FROM ({judged}) WHERE __why IS NULL LIMIT {SHOWN}").fetchall()
    counted = engine.execute(f"SELECT __why, count(*) FROM ({judged}) GROUP BY ALL ORDER BY 2 DESC, 1").fetchall()
    refused = {str(why): int(n) for why, n in counted if why is not None}
    return Preview(sum(int(n) for _, n in counted), tuple(shown), first, refused)


def _refusals(guess: FirstSource) -> list[str]:
    moment, key = _moment(guess.roles["event_ts"]), quoted(guess.roles["event_key"])
    conditions = [
        f"WHEN coalesce(trim(CAST({key} AS VARCHAR)), '') = '' THEN 'event_key is NULL or blank'",
        f"WHEN {moment} IS NULL THEN 'event_ts is NULL or no timestamp'",
        f"WHEN CAST({moment} AS DATE) < DATE '{guess.start_date}' THEN 'the event lies before start_date'",
    ]
    for name, column in guess.payload.items():
        if column.is_text and column.type != "STRING":
            kind = "TIMESTAMPTZ" if column.type == "TIMESTAMP" else column.type
            text = f"nullif(trim({quoted(column.name)}), '')"
            lost = f"{text} IS NOT NULL AND try_cast({text} AS {kind}) IS NULL"
            conditions.append(f"WHEN {lost} THEN '{name} is no {column.type}'")
    return conditions


def _moment(column: str) -> str:
    return f"CAST(try_cast(CAST({quoted(column)} AS VARCHAR) AS TIMESTAMPTZ) AS TIMESTAMP)"


def _spark(name: str, types: Mapping[str, FileColumn], role: str) -> str:
    column = types[name]
    kind = "timestamp" if role.endswith("_ts") else {"event_key": "string", "seq": "bigint", "op": "string"}[role]
    same = kind == ("string" if column.is_text else column.type.lower())
    return _tick(name) if same else f"CAST({_tick(name)} AS {kind})"


def _named(name: str, expression: str) -> str:
    return name if name == expression else f"{expression} AS {name}"


def _name(text: str) -> str:
    """A column's name as the lake may have it."""
    return re.sub(r"\W", "_", text.lower())


def _tick(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"


def _exchanged(text: str, start: str, new: str, lines: int) -> str:
    """The text with `new` in place of so many lines from the one that begins with `start`."""
    rows = text.splitlines(keepends=True)
    at = next(i for i, row in enumerate(rows) if row.startswith(start))
    return "".join([*rows[:at], new, *rows[at + lines :]])


def _unfit(file: LandedFile, why: str, fix: str) -> SettingsError:
    return SettingsError(f"the landed file {file.name}", why, "No lake.toml was written", fix)
