"""The `[source]` that landed files suggest: times, key, entity and payload by names and values
(DuckDB, no JVM).

Not here: the text of lake.toml and its trial load (`first_lake`), asking a person
(`learn.init_command`), and the load itself, whose rules alone decide (`intake.mapping`,
`intake.deliveries`). A guess reads SEEN files at most; others may differ.
"""

import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import duckdb
import pyarrow.parquet as pq
from duckdb import DuckDBPyConnection

from backfill_assets.intake.batches import BAD_REASON, BAD_TEXT
from backfill_assets.intake.content_store import StoredFile
from backfill_assets.intake.dialect import PLAIN_TEXT, Dialect
from backfill_assets.intake.files import LandedFile
from backfill_assets.intake.ingest import OWN_FIELDS, ingest
from backfill_assets.intake.paths import BY_NUMBER, are_paths_numbered, day_of_path
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.payload import DEFAULT_PAYLOAD, MACHINERY
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.embedded import sql_literal
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.learn.first_columns import (
    KEYS,
    TIMES,
    WHOLES,
    FileColumn,
    guessed_dialect,
    plain_name,
    quoted_for_spark,
    read_column,
    role_expression,
    unused_name,
)
from backfill_assets.learn.first_times import other_times

# Files that a guess reads, and their bytes: the first and the last, others between.
SEEN, MOST_BYTES = 20, 1 << 28
EARLY_DAYS = 31  # before the first percent of events: earlier ones are outliers, such as 1970
WHO = re.compile(
    r"customer|client|user|account|member|patient|device|sensor|player|subscriber|merchant|store|entity"
)
AS_LINES = "jq -c 'if type == \"array\" then .[] else . end' FILE"
ROLES = {  # the names that senders give these columns, the likeliest first
    "event_ts": (
        "event_ts",
        "event_time",
        "event_at",
        "occurred_at",
        "ordered_at",
        "ts",
        "timestamp",
        "time",
    ),
    "arrival_ts": (
        "arrival_ts",
        "arrived_at",
        "received_at",
        "ingested_at",
        "ingestion_ts",
        "loaded_at",
    ),
    "version_ts": (
        "version_ts",
        "version_at",
        "updated_at",
        "modified_at",
        "changed_at",
        "last_modified",
    ),
    "seq": ("seq", "sequence", "offset", "delivery"),
    "op": ("op", "operation", "_op", "__op", "action", "change", "change_type", "change_operation"),
}


@dataclass(frozen=True)
class FirstSource:
    """What some files suggest."""

    files: tuple[LandedFile, ...]  # that were read
    others: int  # files that were not
    unreadable: Mapping[str, str]  # why one of `files` gave no row, by its path
    form: str
    columns: tuple[FileColumn, ...]
    roles: Mapping[str, str]  # delivery column -> column of the files
    payload: Mapping[str, FileColumn]  # name in the lake -> column
    entity: str
    start_date: date
    path_names_day: bool  # each path names a day: arrival_ts where no column is
    numbered: bool  # numbers in names order files
    dialect: Dialect = PLAIN_TEXT
    # of other forms than ISO 8601: what reads them
    other_times: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether the payload needs no declaration: entity, value and flag, the latter two whole
        numbers."""
        if {*self.payload} != {c.name for c in DEFAULT_PAYLOAD}:
            return False
        return all(self.payload[name].type in WHOLES for name in ("value", "flag"))

    @property
    def is_ordered(self) -> bool:
        """Whether a column says which of several rows of one key and day is the newest."""
        return not {"seq", "version_ts", "arrival_ts"}.isdisjoint(self.roles)

    @property
    def key_is_guessed(self) -> bool:
        """Whether no name says that the column taken for the key is one."""
        return not _is_named(self.roles["event_key"])

    @property
    def select(self) -> str:
        """Spark SQL for `[source] select`; a value that is no time goes to quarantine when it is
        loaded."""
        types = {c.name: c for c in self.columns}
        read = {role: role_expression(types[name], role) for role, name in self.roles.items()}
        parts = [_aliased_expression(role, read[role]) for role in MACHINERY if role in read]
        if self.numbered and not self.is_ordered:
            parts.insert(0, BY_NUMBER)
        if "arrival_ts" not in self.roles and not self.path_names_day:
            parts.append(f"{read['event_ts']} AS arrival_ts")
        parts += [
            _aliased_expression(quoted_for_spark(name), quoted_for_spark(c.name))
            for name, c in self.payload.items()
        ]
        return ", ".join(parts)

    @property
    def remarks(self) -> list[str]:
        """What was left out or is named otherwise than in the files, in a sentence each."""
        used = {*self.roles.values(), *(c.name for c in self.payload.values())}
        unused = [c for c in self.columns if c.name not in used]
        lines = list[str]()
        if indexes := ", ".join(c.name for c in unused if c.is_index):
            lines.append(f"Left out (pandas' row numbers): {indexes}.")
        if untyped := ", ".join(c.name for c in unused if not c.type):
            lines.append(f"Left out (of no type that a payload has): {untyped}.")
        for name, read in self.other_times.items():
            lines.append(
                f"{name} holds times of another form than ISO 8601: write {read} in select."
            )
        others = {name: c for name, c in self.payload.items() if name != c.name.lower()}
        if renamed := ", ".join(f"{c.name} is {name}" for name, c in others.items()):
            lines.append(f"Under a name that is free and plain in the lake: {renamed}.")
        return lines


def guessed_source(
    files: Sequence[LandedFile], form: str, chosen: Mapping[str, str], shared: Collection[str] = ()
) -> FirstSource:
    """Return what the files suggest. `chosen`: roles that a person named (event_key, event_ts,
    arrival_ts, entity); `shared`: columns that other sources have, too, among which the entity is.

    Raises SettingsError where a role has no column or no file has rows.
    """
    seen = _sampled_files(files)
    dialect = guessed_dialect(seen, form)
    with tempfile.TemporaryDirectory() as store, duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        unreadable = _read_sample(engine, seen, form, dialect, store)
        described = engine.execute("DESCRIBE landed").fetchall()
        columns = tuple(
            read_column(engine, str(column), str(kind)) for column, kind, *_ in described
        )
        name = next(f.name for f in seen if f.name not in unreadable)
        forms = other_times(engine, columns)
        roles = _column_roles(name, form, columns, chosen, forms)
        payload, entity = _payload_columns(columns, roles, chosen.get("entity"), shared)
        start = _guessed_first_day(engine, name, roles["event_ts"], files, forms)
    return FirstSource(
        files=tuple(seen),
        others=len(files) - len(seen),
        unreadable=unreadable,
        form=form,
        columns=columns,
        roles=roles,
        payload=payload,
        entity=entity,
        start_date=start,
        path_names_day=all(day_of_path(f.name) for f in files),
        numbered=are_paths_numbered(f.name for f in files),
        dialect=dialect,
        other_times=forms,
    )


def _read_sample(
    engine: DuckDBPyConnection, seen: Sequence[LandedFile], form: str, dialect: Dialect, store: str
) -> dict[str, str]:
    """Read the usable rows of files to the table `landed` of `engine`, by copies in the folder
    `store`; returns why a file gave no row, by its path. Raises SettingsError where none gave
    any."""
    unreadable, copies = dict[str, str](), list[str]()
    for file in seen:
        copy = ingest(file, form, Folder(store), by_path=True, dialect=dialect)
        why = copy.refused or (None if form == "parquet" else _rowless_reason(copy))
        if why is None:
            copies.append(sql_literal(str(copy.parquet)))
        else:
            unreadable[file.name] = why
    if not copies:
        name, why = next(iter(unreadable.items()))
        fix = f"Write an object per line, as `{AS_LINES}` does"
        if form != "jsonl":
            fix = "Correct the file"
        raise _unfit_file_error(name, f"it cannot be read: {why}", f"{fix}, or name its --format")
    rows = f"read_parquet([{', '.join(copies)}], union_by_name = true, hive_partitioning = false)"
    once = f"* FROM {rows}"
    if form != "parquet":
        own = ", ".join(f.name for f in OWN_FIELDS)
        once = f"* EXCLUDE ({own}) FROM {rows} WHERE {BAD_REASON} IS NULL"
    engine.execute(f"CREATE TEMP TABLE landed AS SELECT DISTINCT {once}")
    return unreadable


def _rowless_reason(copy: StoredFile) -> str | None:
    """Why a text file gave no usable row: that of its first record, and what the file seems to
    hold; None if it gave one."""
    if copy.rows > copy.bad_rows:
        return None
    found = pq.read_table(copy.parquet, columns=[BAD_TEXT, BAD_REASON]).slice(0, 1).to_pylist()
    if not found:
        return "it has no row"
    text, reason = str(found[0][BAD_TEXT]), str(found[0][BAD_REASON])
    held = {
        "[": "one JSON array, not an object per line: ",
        "{": "JSON objects that are not one per line: ",
    }
    return f"{held.get(text[:1], '')}{reason}"


def _sampled_files(files: Sequence[LandedFile]) -> list[LandedFile]:
    """The files to read, by name: the first, the last and others at equal distances, while they are
    not too large."""
    last, picked, size = len(files) - 1, list[int](), 0
    for at in dict.fromkeys([0, last, *(round(n * last / (SEEN - 1)) for n in range(SEEN))]):
        if not picked or size + files[at].size <= MOST_BYTES:
            picked.append(at)
            size += files[at].size
    return [files[at] for at in sorted(picked)]


def _column_roles(
    file: str,
    form: str,
    columns: Sequence[FileColumn],
    chosen: Mapping[str, str],
    forms: Mapping[str, str],
) -> dict[str, str]:
    """The column of each role that one has, or that `chosen` names; `file` is named where none fits
    a role that must have one."""
    known, listed = {c.name.lower(): c for c in columns}, [c.name for c in columns]
    _refuse_no_comma(file, form, listed)
    for role, name in chosen.items():
        if name.lower() not in known:
            fix = f"Name one of {', '.join(listed)}"
            raise _unfit_file_error(file, f"it has no column {name} for {role}", fix)
    roles = {role: known[name.lower()].name for role, name in chosen.items() if role != "entity"}
    for role, names in ROLES.items():
        called = [known[name] for name in names if name in known]
        free = [c for c in called if c.name not in roles.values()]
        fitting = [c for c in free if _fits_role(c, role)]
        if fitting and role not in roles:
            roles[role] = fitting[0].name
    if "event_ts" not in roles:
        # The only time may be the version's, too.
        times = [c for c in columns if c.type in TIMES]
        times.sort(key=lambda c: c.name in roles.values())
        if not times:
            _refuse_other_forms(file, forms)
        roles["event_ts"] = _likeliest_name(file, "event_ts", times, listed)
    if "event_key" not in roles:
        free = [c for c in columns if c.name not in roles.values()]
        likeliest = _likeliest_keys(free, measures=columns[1:])
        roles["event_key"] = _likeliest_name(file, "event_key", likeliest, listed)
    return roles


def _refuse_no_comma(file: str, form: str, columns: Sequence[str]) -> None:
    """Raise SettingsError for a file of CSV whose one column has several names in it."""
    if form == "csv" and len(columns) == 1 and re.search(r"[;\t|]", columns[0]):
        raise _unfit_file_error(
            file,
            f"its header has no comma: {columns[0]}",
            "Separate its columns by one sign in all files",
        )


def _refuse_other_forms(file: str, forms: Mapping[str, str]) -> None:
    """Raise SettingsError for a file whose only times are of other forms than ISO 8601."""
    if forms:
        raise _unfit_file_error(
            file,
            f"no column of it is a time of ISO 8601; of another form: {', '.join(forms)}",
            f'Say --select "… AS event_ts, …", in place of … {" or ".join(forms.values())}',
        )


def _likeliest_keys(
    columns: Sequence[FileColumn], measures: Sequence[FileColumn]
) -> list[FileColumn]:
    """The columns that may be the key, the likeliest first. One of `measures` that is a number and
    not called as keys are comes last: it may differ in every row, and a corrected key is there
    twice."""
    numbers = [c for c in measures if c.type in WHOLES and not _is_named(c.name)]
    return sorted(_naming_columns(columns), key=lambda c: (c in numbers, -c.distinct))


def _fits_role(column: FileColumn, role: str) -> bool:
    if role == "op":
        return column.ops != ""
    if role.endswith("_ts"):
        return column.type in TIMES
    return column.type in WHOLES and column.is_unique


def _naming_columns(columns: Iterable[FileColumn]) -> list[FileColumn]:
    """The columns that may name something: by their names, else all texts and whole numbers."""
    filled = [c for c in columns if c.distinct and not c.is_index]
    fit = [c for c in filled if _may_name(c)]
    return [c for c in fit if _is_named(c.name)] or fit


def _may_name(column: FileColumn) -> bool:
    """Whether the values of a column may be names or numbers of things."""
    return column.type in ("STRING", *WHOLES) and not column.is_nested


def _is_named(column: str) -> bool:
    """Whether a column is called as keys are."""
    return KEYS.search(plain_name(column)) is not None


def _likeliest_name(
    file: str, role: str, columns: Sequence[FileColumn], known: Iterable[str]
) -> str:
    """The name of the first column, which is taken for a role; raises SettingsError without any."""
    if columns:
        return columns[0].name
    option = "key" if role == "event_key" else role.replace("_", "-")
    fix = f"Name it with --{option}: one of {', '.join(known)}"
    raise _unfit_file_error(file, f"no column of it looks like {role}", fix)


def _payload_columns(
    columns: Sequence[FileColumn],
    roles: Mapping[str, str],
    entity: str | None,
    shared: Collection[str],
) -> tuple[dict[str, FileColumn], str]:
    """All columns without a role, by the name they get, and the name of the entity's column:
    `entity`, if a person named it, else the likeliest."""
    named = dict[str, FileColumn]()
    for column in columns:
        has_role = column.name in roles.values()
        is_left_out = column.is_index and column.name != entity
        if column.type and not has_role and not is_left_out:
            named[unused_name(column.name, named)] = column
    key = next(c for c in columns if c.name == roles["event_key"])
    chosen = _entity_column([*named.values()], key, shared)
    for column in columns:
        if entity is not None and column.name.lower() == entity.lower():
            chosen = column
            break
    names = [name for name, column in named.items() if column is chosen]
    name = names[0] if names else unused_name(chosen.name, named)
    return {**named, name: chosen}, name


def _entity_column(
    columns: Sequence[FileColumn], key: FileColumn, shared: Collection[str]
) -> FileColumn:
    """The column that seems to name the entity: among those that other sources have, too
    (`shared`), else those named like a key, the one called as people and things are; without any,
    the event's own key."""
    both = [c for c in columns if c.name.lower() in shared]
    candidates = [c for c in both if _may_name(c)] or _naming_columns(columns) or [key]
    return min(
        candidates, key=lambda c: (WHO.search(c.name.lower()) is None, not _is_named(c.name))
    )


def _guessed_first_day(
    engine: "DuckDBPyConnection",
    file: str,
    event_ts: str,
    files: Sequence[LandedFile],
    forms: Mapping[str, str],
) -> date:
    """The first day of the events that were read, without outliers, or the first that a path
    names."""
    moment = f"CAST(try_cast(CAST({quoted_name(event_ts)} AS VARCHAR) AS TIMESTAMPTZ) AS TIMESTAMP)"
    days = f"(SELECT CAST({moment} AS DATE) AS d FROM landed)"
    [(usual,)] = engine.execute(f"SELECT quantile_disc(d, 0.01) FROM {days}").fetchall()
    if usual is None:
        read = forms.get(event_ts, f"to_timestamp({quoted_for_spark(event_ts)}, 'dd.MM.yyyy')")
        fix = f'Name another with --event-ts, or say --select "{read} AS event_ts, …"'
        raise _unfit_file_error(file, f"no value of {event_ts} is a time of ISO 8601", fix)
    earliest: date = usual - timedelta(days=EARLY_DAYS)
    first = f"SELECT min(d) FROM {days} WHERE d >= DATE '{earliest}'"
    found: date
    [(found,)] = engine.execute(first).fetchall()
    named = [day for day in (day_of_path(f.name) for f in files) if day is not None]
    return min([found, *(day for day in named if day >= earliest)])


def _aliased_expression(name: str, expression: str) -> str:
    return name if name == expression else f"{expression} AS {name}"


def _unfit_file_error(file: str, why: str, fix: str) -> SettingsError:
    return SettingsError(f"the landed file {file}", why, "No lake.toml was written", fix)
