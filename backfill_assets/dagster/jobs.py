"""The job that makes days of tables which assets of a project return, for commands: from the project's definitions.

`[pipeline] definitions` of `lake.toml` names them. Does not live here: the job of a lake's own tables
(`orchestration.assemble`), and running either (`cli.runner`).
"""

from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import dagster as dg

from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.lake.declared import declared
from backfill_assets.lake.home import Lake
from backfill_assets.lake.settings import FILE_NAME
from backfill_assets.pipeline.own_files import loaded

JOB = "backfill_assets__given"
NOTHING = "Nothing was run"


def job_of(lake: Lake, tables: Collection[str]) -> tuple[dg.JobDefinition, Mapping[str, str]]:
    """The job of the assets that return these tables, in this process, and the table of each of its steps. Raises
    SettingsError where the lake does not name the project's definitions, and where these lack an asset."""
    keys = {d.contract.name: dg.AssetKey(list(d.asset)) for d in declared(lake.root) if d.contract.name in tables}
    defs = definitions_of(lake, sorted(keys))
    made = {key: asset for asset in defs.assets or () if isinstance(asset, dg.AssetsDefinition) for key in asset.keys}
    if lacking := sorted(name for name, key in keys.items() if key not in made):
        raise SettingsError(
            str(lake.settings.pipeline.definitions),
            f"they have no asset {', '.join(keys[name].to_user_string() for name in lacking)}", NOTHING,
            "Correct [pipeline] definitions, or leave these tables out with --tables",
        )  # fmt: skip
    job = dg.define_asset_job(
        JOB, selection=dg.AssetSelection.assets(*keys.values()), executor_def=dg.in_process_executor
    )
    whole = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    return whole.resolve_job_def(JOB), {made[key].op.name: name for name, key in keys.items()}


def definitions_of(lake: Lake, tables: Collection[str]) -> dg.Definitions:
    """The project's definitions. Raises SettingsError where `lake.toml` names none that can be loaded."""
    named = lake.settings.pipeline.definitions
    if named is None:
        raise SettingsError(
            f"the table {', '.join(tables)}", "an asset of a Dagster project returns its rows", NOTHING,
            "Materialize it in Dagster, or name the project's definitions in lake.toml, for example "
            '[pipeline] definitions = "shop.definitions"',
        )  # fmt: skip
    place, _, name = named.partition(":")
    try:
        found = getattr(_module(lake.root / place) if place.endswith(".py") else import_module(place), name or "defs")
        found = found if isinstance(found, dg.Definitions) or not callable(found) else found()
    except BackfillError:
        raise
    except Exception as error:
        raise SettingsError(
            f"[pipeline] definitions in {lake.place.uri(FILE_NAME)}", f"{named}: {type(error).__name__}: {error}",
            NOTHING,
            "Run the command where the project can be imported, or correct the name",
        ) from error  # fmt: skip
    if isinstance(found, dg.Definitions):
        return found
    raise SettingsError(
        f"[pipeline] definitions in {lake.place.uri(FILE_NAME)}", f"{named} is a {type(found).__name__}", NOTHING,
        "Name a dagster.Definitions",
    )  # fmt: skip


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return loaded(path)
