"""The contract of an asset's table: from its key, partitions, inputs, rules, and the columns of a
returned frame.

Rules of `lake_checks` are found by the compute function of an asset, because that is all that a
step's process surely knows of it: its key may get a prefix later, and a run outside of a code
location has no repository. Does not live here: where a lake keeps a contract (`assets.declared`),
types of frames (`assets.given_rows`), judging rows (`kernel.write.gates`).
"""

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import dagster as dg

from backfill_assets.assets.declared import DeclaredTable
from backfill_assets.assets.given_rows import GivenRows
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
    rows: tuple[int | None, int | None] = (
        None,
        None,
    )  # the least and the most rows of a day; None: no bound
    rules: tuple[Rule, ...] = ()
    on_bad_days: Literal["", "refuse", "keep_good"] = ""

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks that judge them."""
        declared = {
            UNIQUE_KEY: self.unique,
            NOT_NULL: (*self.unique, *self.not_null),
            ROW_COUNT: [n for n in self.rows if n is not None],
        }
        return (*(name for name, given in declared.items() if given), *map(check_name, self.rules))

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
NO_NAME = re.compile(r"[^a-z0-9_]+")  # what no table's name has


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


def declared_table_name(key: dg.AssetKey, contracts: Iterable[Contract]) -> str | None:
    """The table among these that the asset makes, or stands for; None without one."""
    return next((c.name for c in contracts if c.made_by == key.to_user_string()), None)


def key_table_name(key: dg.AssetKey) -> str:
    """The same for a key of which it is not known whether it is a lake's: a name that no table has
    may come of it."""
    return "__".join(NO_NAME.sub("_", part.lower()) for part in key.path)


DAY_FORMAT = "%Y-%m-%d"  # of the partition keys of a lake's days


def first_day_of(
    partitions: dg.PartitionsDefinition | None, owner: str, consequence: str = "Nothing was written"
) -> date:
    """The first day of a daily asset; `owner` is what an error names, such as `the asset orders`.
    Raises SettingsError for an asset with other partitions, or none, with what makes them other."""
    if (other := _no_days_reason(partitions)) is None and isinstance(
        partitions, dg.TimeWindowPartitionsDefinition
    ):
        return partitions.start.date()
    culprit, fix = other or ("", "")
    raise SettingsError(owner, f"a lake holds days, and {culprit}", consequence, fix)


def _no_days_reason(partitions: dg.PartitionsDefinition | None) -> tuple[str, str] | None:
    """What parts these partitions from days that a lake can hold, and what to do about it; None
    where nothing does."""
    other_manager = "or another IO manager (io_manager_key)"
    if partitions is None:
        return (
            "this asset has no partitions",
            f"Give it a DailyPartitionsDefinition, {other_manager}",
        )
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        kind = type(partitions).__name__
        return (
            f"this asset has a {kind}",
            f"Give it a DailyPartitionsDefinition in its place, {other_manager}",
        )
    schedule = partitions.schedule_type
    every = (
        f"{schedule.value.lower()} ones"
        if schedule
        else f"those of the schedule {partitions.cron_schedule}"
    )
    if schedule is None or schedule.value != "DAILY":
        return (
            f"its partitions are {every}",
            f"Give it a DailyPartitionsDefinition, {other_manager}",
        )
    if partitions.fmt != DAY_FORMAT:
        return (
            f"the keys of its partitions are of another form (fmt={partitions.fmt!r})",
            f"Leave fmt out (keys are then of the form {DAY_FORMAT}), or give it another IO "
            "manager",
        )
    return None


def table_declaration(
    context: dg.OutputContext,
    rows: GivenRows,
    rules: Rules,
    known: DeclaredTable | None,
    changes: SchemaChanges,
) -> DeclaredTable:
    """The table of the asset whose output is `context`, for the returned rows, without its inputs
    (`dagster.loaded`). `known`: as the lake has it now. Raises SettingsError for an asset that no
    lake can hold, and ContractBroken for another schema."""
    key, name = context.asset_key, asset_table_name(context.asset_key, context.definition_metadata)
    _refuse_other_owner(key, name, known)
    first_day = first_day_of(context.asset_partitions_def, f"the asset {key.to_user_string()}")
    chosen = (
        rows.columns
        if known is None
        else _agreed_columns(name, rows, known.contract.columns, changes)
    )
    day = _day_column(context, chosen, known)
    if {c.name for c in chosen} == {day}:
        raise ContractBroken(
            f"the table {name}",
            f"its rows have no column besides the day, {day}",
            "Nothing was written",
            "Return what the day is about, too",
        )
    required = {day, *rules.unique, *rules.not_null}
    _refuse_unknown_columns(key, required, {c.name for c in chosen})
    spec = context.asset_spec
    contract = Contract(
        name,
        spec.description or f"What the asset {key.to_user_string()} returns.",
        tuple(
            replace(c, type="DATE" if c.name == day else c.type, nullable=c.name not in required)
            for c in chosen
        ),
        day,
        rules.unique,
        (),
        rules=rules.rules,
        made_by=key.to_user_string(),
        first_day=first_day,
    )
    check_rules(contract)
    code = spec.code_version or asset_code(context.op_def)
    return DeclaredTable(contract, tuple(key.path), code, dict(rules.bounds))


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


def _day_column(
    context: dg.OutputContext, columns: Sequence[Column], known: DeclaredTable | None
) -> str:
    declared = str(context.definition_metadata.get(DAY_COLUMN, "")).strip('"`')
    named = declared or (known.contract.day_column if known else "")
    dates = [c.name for c in columns if c.type == "DATE"]
    day = named or (dates[0] if len(dates) == 1 else "")
    if day in {c.name for c in columns}:
        return day
    culprit = (
        f"its rows have no column {named!r}"
        if named
        else "nothing says which of its columns is the day"
    )
    name = "Return that column, or name another one" if named else "Name the column"
    raise SettingsError(
        f"the asset {context.asset_key.to_user_string()}",
        culprit,
        "Nothing was written",
        f'{name}: metadata={{"{DAY_COLUMN}": "COLUMN"}}; its rows have '
        f"{', '.join(c.name for c in columns)}",
    )


def _agreed_columns(
    name: str, rows: GivenRows, known: Sequence[Column], changes: SchemaChanges
) -> tuple[Column, ...]:
    """The columns of the table that is there, where it may evolve with new ones and with the wider
    types of the rows; other types are compared as the rows are staged. Raises ContractBroken where
    the rows have other columns. Rows without any column are none: they clear days."""
    given, held = {c.name: c.kind for c in rows.given}, {c.name: c for c in known}
    added, gone = [n for n in given if n not in held], [n for n in held if n not in given]
    if given and changes == "evolve":
        new = {c.name: c for c in rows.columns} if added else {}
        return (
            *(_widened_column(c, given[c.name]) for c in known if c.name in given),
            *(new[n] for n in added),
        )
    if not given or not (added or gone):
        return tuple(known)
    differences = [f"they lack {n}" for n in gone] + [f"{n} is new" for n in added]
    raise ContractBroken(
        f"the table {name}",
        f"the returned rows have other columns: {', '.join(differences)}",
        "Nothing was written",
        "Return the columns of the table; if columns are to come or go, set "
        'schema_changes="evolve" of the IO manager: '
        "days that lack one of them are outdated until they are made again",
    )


def _widened_column(column: Column, given: ColumnType | None) -> Column:
    return (
        replace(column, type=str(given))
        if given is not None and given.holds(column.kind)
        else column
    )


def _refuse_unknown_columns(
    key: dg.AssetKey, named: Collection[str], columns: Collection[str]
) -> None:
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
