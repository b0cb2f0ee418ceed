"""Tables whose rows come from assets of anybody's Dagster project: the IO manager that takes and
gives them, what they declare, rows given as frames.

Uses the kernel, `dagster.adding`, `engines`, `pipeline` and `reading`. It adds `LakeIOManager`,
`daily_table` and `lake_checks` to the public door `backfill_assets.dagster`, and the tables to a
lake's pipeline. Not here: a lake's own tables in Dagster (`dagster`). Guide: in-your-project.
"""

from backfill_assets.kernel.core.rooms import Room

ROOM = Room(
    name="assets",
    offers={
        "declared_tables": "assets.declared:declared_tables",
        "tables_of_assets": "assets.tables:tables_of_assets",
    },
    public={
        "dagster.Input": "assets.daily:Input",
        "dagster.LakeIOManager": "assets.io_manager:LakeIOManager",
        "dagster.daily_table": "assets.daily:daily_table",
        "dagster.lake_checks": "assets.daily:lake_checks",
    },
    completes_settings=("assets.declared:with_declared_tables",),
)
