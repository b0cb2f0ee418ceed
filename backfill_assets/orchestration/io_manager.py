"""The IO manager: the only place where a step of Dagster writes, and it writes only through `Rebuild.publish`.

Here: the hand-over from an asset's body, the metadata of every day, and errors as Dagster shows them. Not here: reading
inputs (the load path pins them), the end of a run (`assets`) and any other way of storing: an asset that returns a
plain value is refused.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from backfill_assets.core.errors import BackfillError, ContractBroken, GateRefused, unusable
from backfill_assets.lake.replace import Published
from backfill_assets.load.rebuild import Rebuild
from backfill_assets.orchestration.dagster_private import materialize_only
from backfill_assets.orchestration.metadata import day_metadata
from backfill_assets.orchestration.naming import PLAIN, Naming

Hears = Callable[[Rebuild, Published], None]


@dataclass(frozen=True)
class Handover:
    """A rebuild to publish."""

    rebuild: Rebuild
    add_metadata: Callable[[dict[str, Any], dg.AssetKey, str], None]  # `context.add_asset_metadata` of the step
    earlier: Mapping[str, Mapping[str, Any]]  # metadata per partition key that days without computing keep
    # logs the findings of the rebuild, where newer inputs came meanwhile and their rows are refused
    log_refusal: Callable[[], None]
    naming: Naming = PLAIN  # how the lake's tables are called in the project


class RebuildIOManager(dg.IOManager):
    """Publishes rebuilds; calls `hears` after each, in this process."""

    def __init__(self, hears: Hears | None = None) -> None:
        self.hears = hears

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Publish the job's candidate in at most one commit; raises dg.Failure that names what stayed as it was."""
        if not isinstance(obj, Handover):
            step = f"asset {context.asset_key.to_user_string()}" if context.has_asset_key else f"op {context.step_key}"
            raise dg.Failure(
                f"the {step} returned a {type(obj).__name__}; only assets made by `lake_asset` can be stored in a "
                "lake. Nothing was written. Return None, or give it an IO manager of its own (`io_manager_key`).",
                allow_retries=False,
            )
        with as_failures():
            try:
                published = obj.rebuild.publish()
            except ContractBroken:
                obj.log_refusal()
                raise
            if len(obj.rebuild.days) != len(context.asset_partition_keys):
                materialize_only(context, [str(day) for day in obj.rebuild.days])
        with telling(obj.rebuild, published):
            if self.hears is not None:
                self.hears(obj.rebuild, published)
            for partition, metadata in day_metadata(obj.rebuild, published, obj.earlier, obj.naming).items():
                obj.add_metadata(metadata, context.asset_key, partition)

    def load_input(self, context: dg.InputContext) -> Any:
        """Not offered: the load path reads its inputs at pinned versions. Raises dg.Failure."""
        raise dg.Failure(
            "Read a lake's table with `backfill_assets.open_lake`, or with any Delta reader.", allow_retries=False
        )


def as_failure(error: BackfillError) -> dg.Failure:
    """The error as Dagster shows it: one line of cause, and its four parts as metadata. Never retried by Dagster:
    what is transient was retried inside the load path."""
    return dg.Failure(
        str(error),
        metadata={
            "what": error.object, "cause": error.culprit, "consequence": error.consequence, "next": error.fix,
            "kind": type(error).__name__, **(error.facts if isinstance(error, GateRefused) else {}),
        },
        allow_retries=False,
    )  # fmt: skip


@contextlib.contextmanager
def as_failures() -> Iterator[None]:
    """Turn the product's errors and the system's into dg.Failure, which Dagster shows in one line."""
    try:
        yield
    except BackfillError as error:
        raise as_failure(error) from None  # one line of cause; Dagster would add the stack of what led to it
    except OSError as error:
        raise as_failure(unusable(error)) from error


@contextlib.contextmanager
def telling(rebuild: Rebuild, published: Published) -> Iterator[None]:
    """Say of an error within that the days are committed. It fails the step, because Dagster records a step's days only
    after its IO manager: they are red until a run, or a retry, which writes nothing, has recorded them."""
    try:
        yield
    except Exception as error:
        raise dg.Failure(
            f"the table {rebuild.table.name}: {rebuild.days} are committed (version {published.version}), and Dagster "
            f"was not told of it ({type(error).__name__}: {error}). The rows are right, and the days stay red. Run "
            "them again: equal rows write nothing."
        ) from error
