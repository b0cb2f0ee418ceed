"""Tables that a lake does not compute, as it knows them: one file each, `LAKE/.assets/TABLE.json`.

For a table that an asset of a Dagster project returns, the IO manager writes the file with the
first write and whenever its contract, code or bounds change, so that commands know it without the
project. For a table that others write, the file keeps the columns that were last seen there. Of a
table that was adopted in a bucket, an empty file is named by its address:
`LAKE/.assets/TABLE@s3@BUCKET@NAME`. Where a name in a catalog leads (`locate`) is the content of
`LAKE/.assets/NAME.located`. Not here: a contract from an asset (`assets.contracts`), and how its
rows are written (`kernel.write.rebuild`).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from backfill_assets.kernel.core.calendars import Unit, parse_calendar
from backfill_assets.kernel.core.contracts import Column, Contract, Input, Rule
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import (
    AlreadyThere,
    Place,
    Token,
)
from backfill_assets.kernel.tables.table_places import (
    ASSETS,
    AT,
    adopted_places,
    base_lake_folder,
)

LOCATED = ".located"  # ends the name of a file that is named by a name in a catalog


@dataclass(frozen=True)
class DeclaredTable:
    """A table that an asset makes, or that others write (`contract.external`): then without an
    asset and code, unless an asset of a project stands for it."""

    contract: Contract
    asset: tuple[str, ...]  # the parts of its key
    # What changes with its code: the version that its asset names, or a digest of its source.
    code: str
    # Keys of [gates.tables.NAME], which `lake.toml` overrides.
    bounds: Mapping[str, Any] = field(default_factory=dict)
    # A digest of the run's config that the asset was last made with; "": without any.
    config: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The table as JSON values."""
        contract = self.contract
        values = {
            "asset": list(self.asset),
            "code": self.code,
            "bounds": dict(self.bounds),
            "table": contract.name,
            "description": contract.description,
            "day_column": contract.day_column,
            "key": list(contract.key),
            "first_day": str(contract.first_day or ""),
            "external": contract.external,
            "partition_by": contract.partition_by,
            "columns": [[c.name, c.type, c.description, c.nullable] for c in contract.columns],
            "inputs": [_input_values(wanted) for wanted in contract.inputs],
            "rules": [
                [r.name, r.expression, r.description, list(r.per), r.only_warns]
                for r in contract.rules
            ],
        }
        if not contract.calendar.is_daily:
            values["calendar"] = str(contract.calendar)
        if contract.left_out:
            values["left_out"] = contract.left_out.to_list()
        if contract.beside:
            values["beside"] = list(contract.beside)
        if self.config:
            values["config"] = self.config
        return values

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> "DeclaredTable":
        """The table in a file. Raises KeyError, TypeError or ValueError for another content."""
        inputs = tuple(_parsed_input(*values) for values in body["inputs"])
        asset = tuple(map(str, body["asset"]))
        contract = Contract(
            name=body["table"],
            description=body["description"],
            columns=tuple(Column(*column) for column in body["columns"]),
            day_column=body["day_column"],
            key=tuple(body["key"]),
            inputs=inputs,
            rules=tuple(
                Rule(name, text, words, tuple(per), warns)
                for name, text, words, per, warns in body["rules"]
            ),
            made_by="/".join(asset),
            external=body.get("external", ""),
            partition_by=body.get("partition_by"),
            first_day=_day_or_none(body["first_day"]),
            beside=tuple(body.get("beside", ())),
            calendar=parse_calendar(body.get("calendar", Unit.DAY)),
        ).leaving_out(body.get("left_out", ()))
        return cls(
            contract, asset, str(body["code"]), dict(body["bounds"]), str(body.get("config", ""))
        )


def _input_values(wanted: Input) -> list[Any]:
    """An input as JSON values; what decides its days besides the window is left out where nothing
    does."""
    values = [wanted.table, wanted.before, wanted.after, str(wanted.first_day or "")]
    return [*values, wanted.mapped] if wanted.mapped else values


def _parsed_input(name: str, before: int, after: int, first: str, mapped: str = "") -> Input:
    return Input(name, before, after, first_day=_day_or_none(first), mapped=mapped)


def _day_or_none(text: str) -> date | None:
    return date.fromisoformat(text) if text else None


def declared_tables(root: Path) -> list[DeclaredTable]:
    """The tables of assets of the lake at `root`, by name; for a candidate of its base lake. Raises
    SettingsError for a file that is not what was written."""
    lake = place_at(base_lake_folder(root))
    return _tables_in_files(lake, lake.names(ASSETS))


def _tables_in_files(lake: Place, names: Iterable[str]) -> list[DeclaredTable]:
    found = (name.removesuffix(".json") for name in sorted(names) if name.endswith(".json"))
    return [table for name in found if (table := find_declared(lake, name)) is not None]


def record_table_place(lake: Place, table: str, address: str) -> None:
    """Let a table of a lake lie at an address from now on."""
    with suppress(AlreadyThere):
        lake.write(
            f"{ASSETS}/{table}{AT}{address.replace('://', '/').replace('/', AT)}",
            b"",
            if_absent=True,
        )


def record_catalog_place(root: Path, name: str, place: str) -> None:
    """Let a name in a catalog mean a folder, or an address in a bucket, to all readers of a lake
    from now on."""
    place_at(base_lake_folder(root)).write(f"{ASSETS}/{name}{LOCATED}", place.encode())


def catalog_places(root: Path, listed: Sequence[str] | None = None) -> dict[str, str]:
    """Where the names in a catalog that were asked for lead, by these names; of a candidate as of
    its base lake. `listed`: what `.assets` holds, where the caller knows."""
    lake = place_at(base_lake_folder(root))
    places = dict[str, str]()
    for name in sorted(lake.names(ASSETS) if listed is None else listed):
        if name.endswith(LOCATED):
            places[name.removesuffix(LOCATED)] = lake.read(f"{ASSETS}/{name}").decode()
    return places


def declare_table(lake: Place, table: DeclaredTable) -> None:
    """Write the file of a table, unless it says the same already. The caller holds the table's
    lock."""
    file, body = _declaration_file(table.contract.name), table.to_dict()
    if lake.read_json(file) != body:
        lake.write_json(file, body)


def restore_declaration(lake: Place, name: str, known: DeclaredTable | None) -> None:
    """Put the file of a table back to what it said (None: there was none), after a write that was
    refused."""
    if known is not None:
        declare_table(lake, known)
    else:
        lake.delete(_declaration_file(name))


def with_declared_tables(root: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The content of a `lake.toml` with the places of adopted tables and of names in a catalog, and
    with the bounds that assets declare for their tables; the file's own bounds win. Raises
    SettingsError where the file says itself where a table lies."""
    _refuse_own_places(settings)
    lake = place_at(base_lake_folder(root))
    names = lake.names(ASSETS)
    settings = _with_catalog_places(settings, catalog_places(root, names))
    settings = _with_adopted_places(settings, adopted_places(names))
    bounds = {table.contract.name: table.bounds for table in _tables_in_files(lake, names)}
    return _with_bounds(settings, {name: found for name, found in bounds.items() if found})


def _with_adopted_places(settings: dict[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """The content of a `lake.toml` with the places of adopted tables, by their names."""
    own = settings.get("tables", {})
    if not places or not isinstance(own, dict):
        return settings
    tables = {**own}
    for name, place in places.items():
        tables[name] = {**own.get(name, {}), "place": place}
    return {**settings, "tables": tables}


def _with_bounds(
    settings: dict[str, Any], bounds: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The content of a `lake.toml` with the bounds of tables, by their names; its own win."""
    gates = settings.get("gates", {})
    own = gates.get("tables", {}) if isinstance(gates, dict) else None
    if not bounds or not isinstance(own, dict):
        return settings
    tables: dict[str, Any] = {**own}
    for name, declared in bounds.items():
        tables[name] = {**declared, **own.get(name, {})}
    return {**settings, "gates": {**gates, "tables": tables}}


PLACED = (("source", "table"), ("sources", "*", "table"), ("tables", "*", "external"))


def _with_catalog_places(settings: dict[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """The content of a `lake.toml` in which the place of a table stands for its name in a
    catalog."""
    if not known:
        return settings
    for keys in PLACED:
        settings = _with_places_at(settings, keys, known)
    return settings


def _with_places_at(value: Any, keys: Sequence[str], known: Mapping[str, str]) -> Any:
    """A value of settings, with places for the names below it that these keys (`*`: any) lead
    to."""
    if isinstance(value, dict) and keys:
        found = {**value}
        for key in value.keys() if keys[0] == "*" else value.keys() & {keys[0]}:
            found[key] = _with_places_at(value[key], keys[1:], known)
        return found
    return known.get(value, value) if isinstance(value, str) else value


def _refuse_own_places(settings: Mapping[str, Any]) -> None:
    """Raise SettingsError where the file says itself where a table lies."""
    tables = settings.get("tables")
    for name, table in tables.items() if isinstance(tables, dict) else ():
        if isinstance(table, dict) and "place" in table:
            raise SettingsError(
                f"[tables.{name}] place in lake.toml",
                "only `adopt` says where a table lies",
                "Nothing was done",
                f"Take it away; `backfill-assets adopt {name} --from ADDRESS` makes a table that "
                "lies there the lake's",
            )


def find_declared(lake: Place, name: str) -> DeclaredTable | None:
    """The table of that name; None if no asset has made it yet."""
    token = lake.token(_declaration_file(name))
    return _parsed_table(lake, name, token) if token is not None else None


def _declaration_file(table: str) -> str:
    return f"{ASSETS}/{table}.json"


@lru_cache(maxsize=256)
def _parsed_table(lake: Place, name: str, _token: Token) -> DeclaredTable:
    """The table in a file, read once as long as its stamp stays: each output of an asset reads it
    several times."""
    try:
        return DeclaredTable.parse(lake.read_json(_declaration_file(name)))
    except (KeyError, TypeError, ValueError):
        raise SettingsError(
            lake.uri(_declaration_file(name)),
            "it is not what the IO manager wrote",
            "Nothing was done",
            "Restore it from a backup, or move it away and materialize a day of the asset: that "
            "writes it again",
        ) from None
