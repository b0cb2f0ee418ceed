"""A join whose key is skewed: rows without a key apart, each key spread over several tasks, by
choice of the contract.

Not here: counting keys (`kernel.write.audit`) and bounding them (`kernel.write.gates`). Spark's
adaptive joins split a large key too, and cost less: `guides/production.md` has figures.
"""

from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.errors import BackfillError

SALT = "__salt"


def spread_join(
    left: DataFrame, right: DataFrame, choice: Input, how: Literal["inner", "left"] = "left"
) -> DataFrame:
    """`left.join(right, choice.by, how)`: the same rows, computed by the choice of the input that
    `left` is.

    `isolate_nulls`: rows of `left` without a key, which match nothing, are not moved. `salt`:
    `left` is spread by its own values, `right` is repeated so many times. Raises BackfillError
    where both have a column that is no key.
    """
    if both := sorted({*left.columns} & {*right.columns} - {*choice.by}):
        raise BackfillError(
            f"the join of {choice.table} by {', '.join(choice.by)}",
            f"both sides have {', '.join(both)}",
            "Nothing was computed",
            "Rename these columns on one side, or drop them",
        )
    if not choice.isolate_nulls:
        return _salted_join(left, right, choice, how)
    whole = reduce(Column.__and__, (F.col(c).isNotNull() for c in choice.by))
    joined = _salted_join(left.where(whole), right, choice, how)
    return (
        joined
        if how == "inner"
        else joined.unionByName(left.where(~whole), allowMissingColumns=True)
    )


def _salted_join(left: DataFrame, right: DataFrame, choice: Input, how: str) -> DataFrame:
    """The join, in which a row of `left` goes to one of `choice.salt` tasks of its key by its
    values, and a row of `right` to all of them."""
    if choice.salt == 1:
        return left.join(right, [*choice.by], how)
    salt = F.pmod(F.xxhash64(*left.columns), F.lit(choice.salt)).cast("int")
    every = F.explode(F.sequence(F.lit(0), F.lit(choice.salt - 1)))
    salted = left.withColumn(SALT, salt).join(
        right.withColumn(SALT, every), [*choice.by, SALT], how
    )
    return salted.drop(SALT)
