"""The public door into anybody's Dagster project: an IO manager, checks, definitions to merge, a
component.

Lives here: the names of `__all__`, each imported when it is first asked for; importing this changes
nothing in the process. Does not live here: how the tables of a lake become definitions
(`dagster.adapter`), and any write (`kernel.write`).
"""

from typing import TYPE_CHECKING

from backfill_assets.kernel.core.process import imported_when_used
from backfill_assets.kernel.core.rooms import Room

if TYPE_CHECKING:
    from backfill_assets.dagster.daily import daily_table, lake_checks
    from backfill_assets.dagster.definitions import LakeComponent, build_lake_defs
    from backfill_assets.dagster.inputs import external_table
    from backfill_assets.dagster.io_manager import LakeIOManager
    from backfill_assets.dagster.resource import LakeResource
    from backfill_assets.dagster.stale import is_stale
    from backfill_assets.kernel.core.contracts import Input

__all__ = [
    "Input",
    "LakeComponent",
    "LakeIOManager",
    "LakeResource",
    "build_lake_defs",
    "daily_table",
    "external_table",
    "is_stale",
    "lake_checks",
]

ROOM = Room(name="dagster", offers={"note_read": "dagster.adapter.read_beside:note_read"})

if not TYPE_CHECKING:  # for a type checker, a name that is not above is a mistake
    __getattr__ = imported_when_used(
        __name__,
        {
            "daily": ("Input", "daily_table", "lake_checks"),
            "definitions": ("LakeComponent", "build_lake_defs"),
            "inputs": ("external_table",),
            "io_manager": ("LakeIOManager",),
            "resource": ("LakeResource",),
            "stale": ("is_stale",),
        },
    )


def __dir__() -> list[str]:
    return __all__
