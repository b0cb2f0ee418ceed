"""pandas' rows are what pandas means by them: NaN is a missing value, and whole numbers beside it are whole.

Tested here: `lake.given_rows` with frames of pandas. Not tested here: what all libraries share (`test_given_rows`).
"""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from backfill_assets.lake.home import Lake
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.lake.test_given_rows import DAY, refused, staged

LOCAL_MIDNIGHT = pd.Timestamp(DAY, tz="Europe/Berlin")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return bare_lake(tmp_path_factory.mktemp("pandas"))


# What pandas makes of rows, and what it is.
PANDAS: dict[str, tuple[dict[str, Any], list[tuple[Any, Any]]]] = {
    "whole numbers with a missing one": ({"k": ["a", "b"], "n": [1, None]}, [("a", 1), ("b", None)]),
    "NaN among texts": ({"k": ["a", float("nan")], "n": [1, 2]}, [("a", 1), (None, 2)]),
    "a category": ({"k": pd.Categorical(["a", None]), "n": [1, 2]}, [("a", 1), (None, 2)]),
    "numbers of its own": ({"k": ["a", "b"], "n": pd.array([1, None], "Int64")}, [("a", 1), ("b", None)]),
    "nothing but NaN": ({"k": ["a"], "n": [float("nan")]}, [("a", None)]),
    "nothing but None": ({"k": ["a"], "n": [None]}, [("a", None)]),
}  # fmt: skip


@pytest.mark.parametrize("made", PANDAS)
def test_pandas_rows_are_what_pandas_means_by_them(lake: Lake, made: str) -> None:
    cells, wanted = PANDAS[made]
    frame = pd.DataFrame({**cells, "day": pd.Timestamp(DAY)}, index=[7] * len(wanted))
    table = pa.table(
        {
            "k": pa.array([k for k, _ in wanted], pa.string()),
            "n": pa.array([n for _, n in wanted], pa.int64()),
            "day": pa.array([DAY] * len(wanted)),
        }
    )
    assert staged(lake, frame) == staged(lake, table)


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (pd.DataFrame({"k": ["a"], "n": [1.5], "day": [DAY]}), "1 values of the column n are not whole numbers"),
        (pd.DataFrame({"k": ["a"], "n": [1], "day": [LOCAL_MIDNIGHT]}), "day are no midnight"),
        (pd.DataFrame({"k": ["a"], "n": ["1"], "day": [DAY]}), "column n is string, not BIGINT|large_string"),
        (pd.DataFrame({"k": ["a", 1], "n": [1, 2], "day": [DAY, DAY]}), "(?i)expected bytes|could not convert"),
        (pd.DataFrame([["a", "b", 1, DAY]], columns=["k", "k", "n", "day"]), "(?i)duplicate column"),
        (pd.DataFrame({"k": ["a"], "K": ["a"], "n": [1], "day": [DAY]}), "k and K differ by case only"),
        (pd.DataFrame({"n": [1], "day": [DAY]}, index=pd.Index(["a"], name="k")), "column k is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "frame",
)  # fmt: skip
def test_pandas_rows_that_do_not_fit_are_refused(lake: Lake, frame: pd.DataFrame, told: str) -> None:
    refused(lake, frame, told)
