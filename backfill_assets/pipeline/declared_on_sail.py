"""Which declared columns Sail computes as Spark does, found by random declarations on both; the others are refused.

Lives here: the refusal, by column. Does not live here: the columns (`declared`), and what tables of one's own may use.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from backfill_assets.core.errors import SettingsError
from backfill_assets.engine.session import sail_scratch
from backfill_assets.pipeline.transforms.aggregation import Aggregation, digits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refuse_on_sail(frame: "DataFrame", columns: Iterable[Aggregation]) -> None:
    """Raise SettingsError where the frame is one of Sail's and a column is computed otherwise there, or not at all."""
    if sail_scratch(frame.sparkSession) is None:
        return
    for column in columns:
        if why := misfit(column):
            raise SettingsError(
                f"the declared column {column.name}", f"Sail does not compute {why} as Spark does",
                "Nothing was written", 'Set engine = "embedded" for this lake',
            )  # fmt: skip


def misfit(column: Aggregation) -> str:
    """What of the column Sail computes otherwise; empty where it was found to be the same."""
    if column.agg == "distinct":
        return "distinct"
    if column.value.type == "DOUBLE":
        return f"{column.agg} of DOUBLE (NaN, and numbers of many digits)"
    return "avg of DECIMAL" if column.agg == "avg" and digits(column.value.type) is not None else ""
