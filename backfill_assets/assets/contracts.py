"""The contract of an asset's table: from its key, partitions, inputs, rules, and the columns of a
returned frame.

Rules of `lake_checks` are found by the compute function of an asset, because that is all that a
step's process surely knows of it: its key may get a prefix later, and a run outside of a code
location has no repository. Does not live here: where a lake keeps a contract (`assets.declared`),
types of frames (`assets.given_rows`), judging rows (`kernel.write.gates`).
"""

import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import dagster as dg

from backfill_assets.assets.declared import DeclaredTable
from backfill_assets.assets.given_rows import GivenRows
from backfill_assets.dagster.adding import (
    calendar_of_schedule,
    declared_table_name,
    key_table_name,
    left_out_of,
    partitions_of,
)
from backfill_assets.kernel.core.calendars import Calendar, parse_calendar
from backfill_assets.kernel.core.column_types import ColumnType
from backfill_assets.kernel.core.contracts import Column, Contract, Rule
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError, ContractBroken, SettingsError
from backfill_assets.kernel.tables.sections import TABLE_NAME
from backfill_assets.kernel.write.code import SourceFile
from backfill_assets.kernel.write.gates import NOT_NULL, ROW_COUNT, UNIQUE_KEY, check_name
from backfill_assets.kernel.write.rules import check_rules


@dataclass(frozen=True)
class Rules:
    """What every day of an asset's table has to hold."""

    unique: tuple[str, ...] = ()  # columns that tell the rows of a day apart
    not_null: tuple[str, ...] = ()
    # The least and the most rows of a day; None: no bound.
    rows: tuple[int | None, int | None] = (
        None,
        None,
    )
    rules: tuple[Rule, ...] = ()
    on_bad_days: Literal["", "refuse", "keep_good"] = ""

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks that judge them."""
        names = list[str]()
        if self.unique:
            names.append(UNIQUE_KEY)
        if self.unique or self.not_null:
            names.append(NOT_NULL)
        if self.rows != (None, None):
            names.append(ROW_COUNT)
        return (*names, *map(check_name, self.rules))

    @property
    def bounds(self) -> Mapping[str, Any]:
        """What [gates.tables.NAME] would say of them."""
        named = {
            "min_rows": self.rows[0],
            "max_rows": self.rows[1],
            "on_bad_days": self.on_bad_days or None,
        }
        return {name: bound for name, bound in named.items() if bound is not None}


@dataclass
class Registry:
    """Rules by the compute function of an asset, as long as that function lives, and the name of
    its op: one function may make several assets."""

    _by_function: WeakKeyDictionary[Callable[..., Any], dict[str, Rules]] = field(
        default_factory=WeakKeyDictionary
    )

    def add(self, asset: dg.AssetsDefinition, rules: Rules) -> None:
        """Keep the rules of an asset. Raises SettingsError where other rules were declared for
        it."""
        by_name = self._by_function.setdefault(function_of(asset.op), {})
        if by_name.setdefault(asset.op.name, rules) != rules:
            raise SettingsError(
                f"the asset {asset.key.to_user_string()}",
                "lake_checks declares it twice, with other rules",
                "No check was made",
                "Declare all of its rules in one call",
            )

    def of(self, op: dg.OpDefinition) -> Rules:
        """The rules of the asset that this op computes; none where it has none."""
        return self._by_function.get(function_of(op), {}).get(op.name, Rules())


def function_of(op: dg.OpDefinition) -> Callable[..., Any]:
    """The user's function of an op: the same object under every prefix of the asset's key."""
    computed: Any = op.compute_fn
    found: Callable[..., Any] = getattr(computed, "decorated_fn", computed)
    return found


DECLARED = Registry()  # by function, so that two projects in one process do not meet


# The metadata by which the IO managers of this ecosystem are told the day's column.
DAY_COLUMN = "partition_expr"
SchemaChanges = Literal["refuse", "evolve"]


TABLE = "backfill_assets/table"  # the metadata that names the table of an asset


def asset_table_name(
    key: dg.AssetKey, metadata: Mapping[str, Any], consequence: str = "Nothing was written"
) -> str:
    """The table of an asset as its metadata names it, or else by its key: its parts in small
    letters, `_` for what no name has, joined by `__`. Two assets may give one name: the second is
    refused as it writes. Raises SettingsError for what is no name."""
    named = metadata.get(TABLE)
    name = key_table_name(key) if named is None else str(named)
    if TABLE_NAME.fullmatch(name):
        return name
    by = "its key" if named is None else f"its metadata {TABLE}"
    raise SettingsError(
        f"the asset {key.to_user_string()}",
        f"{by} would name the table {name!r}",
        consequence,
        f'Name it by small letters, digits and _, beginning with a letter: metadata={{"{TABLE}": '
        f'"NAME"}}',
    )


def input_table_name(
    key: dg.AssetKey, metadata: Mapping[str, Any], contracts: Iterable[Contract]
) -> str:
    """The table of an asset that is read: as the metadata names it, of the asset or of the input;
    else the one of these that it makes, which may have been named elsewhere; else by its key.
    Raises SettingsError as `asset_table_name`."""
    if TABLE not in metadata and (made := declared_table_name(key, contracts)) is not None:
        return made
    return asset_table_name(key, metadata, "Nothing was read")


DAY_FORMAT = "%Y-%m-%d"  # of the partition keys of a lake's days
HELD = "a lake holds whole days, weeks, months, quarters and years"


def asset_periods(
    partitions: dg.PartitionsDefinition | None, owner: str, consequence: str = "Nothing was written"
) -> tuple[Calendar, date]:
    """What each partition of an asset covers (a day, week, month, quarter or year), and the first
    day of the first one. Days or months that its definition leaves out are partitions of the
    calendar: keys in receipts say what was read. `owner` is what an error names, such as `the asset
    orders`. Raises SettingsError for an asset with other partitions, or none, with what makes them
    other."""
    other_manager = "or another IO manager (io_manager_key)"
    fix = f"Give it a DailyPartitionsDefinition, {other_manager}"
    if partitions is None:
        culprit = "this asset has no partitions"
    elif not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        culprit = f"this asset has a {type(partitions).__name__}"
        fix = f"Give it a DailyPartitionsDefinition in its place, {other_manager}"
    elif (calendar := calendar_of(partitions)) is None:
        culprit = f"its partitions are {_schedule_in_words(partitions)}"
        fix = (
            "Give it a daily, weekly or monthly definition (its exclusions leave days or months "
            f"out), {other_manager}"
        )
    elif partitions.fmt != DAY_FORMAT:
        culprit = f"the keys of its partitions are of another form (fmt={partitions.fmt!r})"
        fix = (
            f"Leave fmt out (keys are then of the form {DAY_FORMAT}), or give it another IO manager"
        )
    else:
        return calendar, calendar.first_from(partitions.start.date())
    raise SettingsError(owner, f"{HELD}, and {culprit}", consequence, fix)


def calendar_of(partitions: dg.PartitionsDefinition | None) -> Calendar | None:
    """What each partition of a definition covers, whatever it leaves out; None where that is none
    of days, weeks, months, quarters and years."""
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return None
    return calendar_of_schedule(partitions.cron_schedule)


def asset_partitions(
    owner: str,
    start: date | str | None,
    given: dg.TimeWindowPartitionsDefinition | None,
    every: str,
    consequence: str,
) -> dg.TimeWindowPartitionsDefinition:
    """The partitions of `every` day, week, … (UTC) that begin on a day `start` or later, or those
    that are `given`; "" of `every` is a day. Raises SettingsError as `asset_periods`, for neither
    and both, and for a text that names no calendar."""
    _refuse_two_starts(owner, start, given, consequence)
    if given is None:
        return _partitions_of_every(owner, every, str(start), consequence)
    if every:
        culprit = "every and partitions_def both give its partitions"
        raise SettingsError(owner, culprit, consequence, "Leave one of them out")
    asset_periods(given, owner, consequence)
    return given


def _partitions_of_every(
    owner: str, every: str, start: str, consequence: str
) -> dg.TimeWindowPartitionsDefinition:
    """The partitions that a text such as `month` names, from a day on."""
    if not every:
        return dg.DailyPartitionsDefinition(start_date=start)
    try:
        return partitions_of(parse_calendar(every), date.fromisoformat(start))
    except ValueError as error:
        raise SettingsError(
            owner, f"its every or start: {error}", consequence, 'Write every="month", for example'
        ) from None


def _refuse_two_starts(owner: str, start: object, given: object, consequence: str) -> None:
    """Raise SettingsError where nothing gives the first day, and where two things do."""
    fix = 'Give one of them: start="2024-01-01"'
    if start is None and given is None:
        raise SettingsError(owner, "it has no first day", consequence, fix)
    if start is not None and given is not None:
        culprit = "start and partitions_def both give its first day"
        raise SettingsError(owner, culprit, consequence, fix)


def _schedule_in_words(partitions: dg.TimeWindowPartitionsDefinition) -> str:
    """What these partitions are in place of days, in words."""
    schedule = partitions.schedule_type
    is_usual = schedule is not None and schedule.value == "HOURLY"
    return "hourly ones" if is_usual else f"those of the schedule {partitions.cron_schedule}"


def table_declaration(
    context: dg.OutputContext,
    rows: GivenRows,
    rules: Rules,
    known: DeclaredTable | None,
    changes: SchemaChanges,
) -> DeclaredTable:
    """The table of the asset whose output is `context`, for the returned rows, without its inputs
    (`assets.loaded`). `known`: as the lake has it now. Raises SettingsError for an asset that no
    lake can hold, and ContractBroken for another schema."""
    key = context.asset_key
    name = asset_table_name(key, context.definition_metadata)
    _refuse_other_owner(key, name, known)
    owner = f"the asset {key.to_user_string()}"
    calendar, first_day = asset_periods(context.asset_partitions_def, owner)
    _refuse_other_calendar(key, name, known, calendar)
    if known is None:
        chosen = rows.columns
    else:
        chosen = _agreed_columns(name, rows, known.contract.columns, changes)
    day = _day_column(context, chosen, known)
    _refuse_day_alone(name, chosen, day)
    required = {day, *rules.unique, *rules.not_null}
    _refuse_unknown_columns(key, required, {column.name for column in chosen})
    spec = context.asset_spec
    contract = Contract(
        name,
        spec.description or f"What the asset {key.to_user_string()} returns.",
        tuple(_required_column(column, day, required) for column in chosen),
        day,
        key=rules.unique,
        inputs=(),
        rules=rules.rules,
        made_by=key.to_user_string(),
        first_day=first_day,
        calendar=calendar,
    ).leaving_out(left_out_of(context.asset_partitions_def))
    check_rules(contract)
    code = spec.code_version or asset_code(context.op_def)
    return DeclaredTable(contract, tuple(key.path), code, dict(rules.bounds))


def _refuse_day_alone(name: str, columns: Sequence[Column], day: str) -> None:
    """Raise ContractBroken for a table whose only column is that with the day."""
    if {column.name for column in columns} == {day}:
        raise ContractBroken(
            f"the table {name}",
            f"its rows have no column besides the day, {day}",
            "Nothing was written",
            "Return what the day is about, too",
        )


def _required_column(column: Column, day: str, required: Collection[str]) -> Column:
    """The column as the contract has it: the day is a DATE, the required ones are never NULL."""
    kind = "DATE" if column.name == day else column.type
    return replace(column, type=kind, nullable=column.name not in required)


def _refuse_other_owner(key: dg.AssetKey, name: str, known: DeclaredTable | None) -> None:
    """Raise SettingsError where the rows of the table are others', or another asset's, of a key
    that gives its name."""
    if known is not None and known.contract.external:
        raise SettingsError(
            f"the asset {key.to_user_string()}",
            f"its table {name} is one that others write, at {known.contract.external}",
            "Nothing was written",
            "Give it another key, or a lake of its own",
        )
    if known is not None and known.code and known.asset != tuple(key.path):
        raise SettingsError(
            f"the asset {key.to_user_string()}",
            f"its table {name} is that of the asset {'/'.join(known.asset)}",
            "Nothing was written",
            f'Name its table by metadata={{"{TABLE}": …}}; or, '
            f"if that asset was renamed to it, say so in .assets/{name}.json of the lake: "
            f'"asset": {json.dumps(key.path)}',
        )


def _refuse_other_calendar(
    key: dg.AssetKey, name: str, known: DeclaredTable | None, calendar: Calendar
) -> None:
    """Raise SettingsError where the table has partitions of another length, whose rows would stay
    among those of the new ones."""
    if known is not None and known.contract.calendar != calendar:
        raise SettingsError(
            f"the asset {key.to_user_string()}",
            f"its table {name} has the partitions of every {known.contract.calendar}, and the "
            f"asset those of every {calendar} now",
            "Nothing was written",
            f'Name a new table by metadata={{"{TABLE}": …}} of an asset with another key, or take '
            "the partitions back",
        )


def _day_column(
    context: dg.OutputContext, columns: Sequence[Column], known: DeclaredTable | None
) -> str:
    """The column with the day: as the asset's metadata names it, else as the lake `known` it, else
    the only DATE among `columns`. Raises SettingsError where none of these says it, and where the
    column so named is not among `columns`: no other stands in for it."""
    # `partition_expr` is SQL, in which a name may be quoted.
    named = str(context.definition_metadata.get(DAY_COLUMN, "")).strip('"`')
    if not named and known is not None:
        named = known.contract.day_column
    names = [column.name for column in columns]
    if named in names:
        return named
    dates = [column.name for column in columns if column.type == "DATE"]
    if not named and len(dates) == 1:
        return dates[0]
    culprit, advice = "nothing says which of its columns is the day", "Name the column"
    if named:
        culprit = f"its rows have no column {named!r}"
        advice = "Return that column, or name another one"
    raise SettingsError(
        f"the asset {context.asset_key.to_user_string()}",
        culprit,
        "Nothing was written",
        f'{advice}: metadata={{"{DAY_COLUMN}": "COLUMN"}}; its rows have {", ".join(names)}',
    )


def _agreed_columns(
    name: str, rows: GivenRows, known: Sequence[Column], changes: SchemaChanges
) -> tuple[Column, ...]:
    """The columns of the table that is there, where it may evolve with new ones and with the wider
    types of the rows; other types are compared as the rows are staged. Raises ContractBroken where
    the rows have other columns. Rows without any column are none: they clear days."""
    kinds = {column.name: column.kind for column in rows.given}
    names = [column.name for column in known]
    if not kinds:
        return tuple(known)
    if changes == "evolve":
        stays = [_widened_column(c, kinds[c.name]) for c in known if c.name in kinds]
        has_new = not kinds.keys() <= {*names}
        added = [c for c in rows.columns if c.name not in names] if has_new else []
        return (*stays, *added)
    differences = [f"they lack {name}" for name in names if name not in kinds]
    differences += [f"{name} is new" for name in kinds if name not in names]
    if not differences:
        return tuple(known)
    raise ContractBroken(
        f"the table {name}",
        f"the returned rows have other columns: {', '.join(differences)}",
        "Nothing was written",
        "Return the columns of the table; if columns are to come or go, set "
        'schema_changes="evolve" of the IO manager: '
        "days that lack one of them are outdated until they are made again",
    )


def _widened_column(column: Column, given: ColumnType | None) -> Column:
    is_wider = given is not None and given.is_wider_than(column.kind)
    return replace(column, type=str(given)) if is_wider else column


def _refuse_unknown_columns(
    key: dg.AssetKey, named: Collection[str], columns: Collection[str]
) -> None:
    """Raise SettingsError where the rules of an asset name columns that its rows lack."""
    if unknown := sorted({*named} - {*columns}):
        raise SettingsError(
            f"the asset {key.to_user_string()}",
            f"lake_checks names {', '.join(unknown)}, and its rows have no such column",
            "Nothing was written",
            f"Name columns of {', '.join(sorted(columns))}",
        )


def unpinned_inputs(spec: dg.AssetSpec, read: Collection[dg.AssetKey]) -> tuple[str, ...]:
    """The inputs of an asset that its receipts do not name: what other IO managers load, and what
    is only named as a dependency. `read`: the assets that they name."""
    return tuple(sorted(d.asset_key.to_user_string() for d in spec.deps if d.asset_key not in read))


def asset_code(op: dg.OpDefinition) -> str:
    """A digest of the file with an asset's function; of a function without a file, of its compiled
    code."""
    function = function_of(op)
    function = inspect.unwrap(function)  # of `daily_table`, the user's own
    path = inspect.getsourcefile(function)
    if path is not None and Path(path).is_file():
        return SourceFile.read(Path(path)).digest
    code = getattr(function, "__code__", None)
    if code is None:
        raise BackfillError(
            f"the op {op.name}",
            "its code cannot be read",
            "Nothing was written",
            "Give the asset a code_version",
        )
    return digest_of([code.co_code.hex(), repr(code.co_consts), list(code.co_names)])
