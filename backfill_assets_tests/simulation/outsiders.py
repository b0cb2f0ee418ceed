"""What processes of a story do besides writing and putting back days: an asset of somebody's
project, an export, an erasure.

Here: each as the room that does it orders it, without Dagster, a command line and landed files.
Not here: commands of a lake's own tables (`actors`), and what must hold afterwards (`judge`).
"""

from collections.abc import Collection
from datetime import date
from random import Random

import pyarrow as pa

from backfill_assets.assets.given_rows import GivenRows
from backfill_assets.erasure.forget import (
    DROPS,
    ForgetRequest,
    erase_everywhere,
    erasure_obstacles,
)
from backfill_assets.erasure.traces import Trace
from backfill_assets.export.export import export_days
from backfill_assets.intake.forgotten import begin_erasure
from backfill_assets.kernel.core.days import some_days
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.place.port import table_lock
from backfill_assets.kernel.tables.columns import arrow_type
from backfill_assets.kernel.tables.folder import FORGOTTEN
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.candidate import RebuildRequest, ReturnedRows
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets_tests.builders import day
from backfill_assets_tests.simulation.engine import event_name, made_rows, rows_at
from backfill_assets_tests.simulation.world import (
    ASSET,
    DAYS,
    EVERY_DAY,
    EXPORTS,
    Opened,
    World,
)

WHY = "asked for"
FORGETTABLE = (0, DAYS - 1)  # numbers of event days of which no late file has anything


def asset(world: World, chance: Random) -> None:
    """A step of a project's run makes days of its table."""
    opened = world.open()
    first = chance.randrange(DAYS)
    with world.run(*opened, "an asset") as run_id:
        make_asset(world, opened, [*EVERY_DAY][first:], run_id)


def make_asset(world: World, opened: Opened, days: Collection[date], run_id: str) -> None:
    """Read the input as it is now, take some time, and return rows, as the IO manager has them
    written: by what the step had read."""
    lake, pipeline = opened
    states = pipeline.states(read_view(lake, pipeline.contracts))
    table = pipeline.table(ASSET)
    (above,) = (wanted.table for wanted in table.contract.inputs)
    world.scheduler.stop(f"the asset reads {above}")
    read = rows_at(lake, above, states.view.table(above).version)
    world.compute()
    made = made_rows({above: read}, sorted(days), world.code)
    columns = {"entity": ["A"] * len(made), "value": [*made.values()]}
    columns[table.contract.day_column] = [*made]
    fields = [pa.field(c.name, arrow_type(c.kind)) for c in table.contract.columns]
    rows = GivenRows.of(pa.table(columns, pa.schema(fields)))
    returned = ReturnedRows(lambda: rows.stage(lake, table.contract), rows.kind)
    world.publish(
        RebuildRequest(
            world.session(opened, ASSET),
            KnownStates(lake, pipeline, states),
            table,
            some_days(days),
            Provenance("asset", run_id),
            given=returned,
        )
    )


def export(world: World, chance: Random) -> None:
    """Changed days of the tables are brought to a prefix beside them."""
    lake, pipeline = world.open()
    for table in world.built:
        world.exported.add(table)
        export_days(lake, pipeline, table, EXPORTS)


def forget(world: World, chance: Random) -> None:
    """An entity is erased."""
    erase_entity(world, event_name(day(chance.choice(FORGETTABLE))))


def erase_entity(world: World, name: str) -> None:
    """Erase an entity in the order of the command `forget`, or go on with it where it stopped.
    Raises what stands in the way."""
    lake, pipeline = world.open()
    request = ForgetRequest(lake, pipeline, Trace({"entity": name}), WHY, drops=DROPS)
    for obstacle in erasure_obstacles(request, request.look().held):
        raise obstacle
    with table_lock(lake.place, FORGOTTEN):
        erasure = begin_erasure(lake, request.trace.values, WHY)
        world.forget_landed(name)
        with world.run(lake, pipeline, "forget") as run_id:
            world.catch_up((lake, pipeline), run_id)
        erase_everywhere(request, erasure)
        if not request.look().held:
            erasure.finish(lake)
