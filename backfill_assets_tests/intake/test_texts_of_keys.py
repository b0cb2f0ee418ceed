"""The text of a key is one text, whatever the type in the file and the engine: that one, or the
file is refused.

Tested here: `intake.mapping` over random values of each type and each form of `select`, against
texts made by Python. Not tested here: Spark (`test_session_free_on_spark` runs this there), and
types that change (`test_column_kinds`).
"""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.engines.session import session_engine
from backfill_assets.intake.casting import UnfitSelect
from backfill_assets.intake.mapping import RAISED, mapped_rows
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets_tests import strategies  # noqa: F401 - the profile of properties
from backfill_assets_tests.engine_choice import SparkSession

WHOLE = st.one_of(st.integers(-(2**31), 2**31 - 1), st.sampled_from([1, 17, 30_000_000, -1]))
SOME_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Callable[[Any], str]]] = {
    "int": (pa.int32(), WHOLE, str),
    "bigint": (pa.int64(), WHOLE, str),
    "double": (pa.float64(), WHOLE.map(float), lambda v: str(int(v))),
    "float": (pa.float32(), st.integers(0, 999).map(float), lambda v: str(int(v))),
    "decimal without a fraction": (pa.decimal128(12, 0), WHOLE.map(Decimal), str),
    "decimal": (pa.decimal128(12, 2), WHOLE.map(lambda v: Decimal(v) / 4), lambda v: f"{v:.2f}"),
    "text": (pa.string(), SOME_TEXT, str),
    "date": (pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31)), date.isoformat),
    "boolean": (pa.bool_(), st.booleans(), lambda v: str(v).lower()),
}
WHOLE_TYPES = ("int", "bigint", "double", "float", "decimal without a fraction")
FORMS = [
    *(
        (name, form)
        for name in TYPES
        for form in ("c", "cast(c AS string)", "concat(cast(c AS string), '')")
    ),
    *((name, "cast(cast(c AS bigint) AS string)") for name in WHOLE_TYPES),
]
KEY = (
    "{} AS event_key, TIMESTAMP '2024-03-01' AS event_ts, '' AS entity, 1 AS value, 0 AS flag, 1L "
    "AS seq"
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(FORMS), st.data())
def test_a_key_has_one_text_or_its_file_is_refused(
    spark: "SparkSession", case: tuple[str, str], data: st.DataObject
) -> None:
    name, form = case
    kind, values, text = TYPES[name]
    drawn = data.draw(st.lists(values, min_size=1, max_size=4))
    frame = spark.createDataFrame(pa.table({"c": pa.array(drawn, kind), "n": range(len(drawn))}))
    frame = frame.selectExpr("*", "'f' AS __sha256", "CAST(n AS bigint) AS __number")
    select = KEY.format(form) + ", TIMESTAMP '2024-03-01' AS arrival_ts"
    try:
        made = (
            mapped_rows(frame, select, True, {}, engine=session_engine(spark))
            .select("n", "event_key", RAISED)
            .collect()
        )
    except (UnfitSelect, SettingsError):
        assert name not in ("int", "bigint", "text")
        assert "bigint" not in form
        return
    for n, key, raised in made:
        assert key == text(drawn[n]) or (key is None and "bigint" not in form) or raised, (
            name,
            form,
        )
