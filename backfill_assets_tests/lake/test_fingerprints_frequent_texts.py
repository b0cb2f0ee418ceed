"""Frequent texts of a day: counted exactly where there are few, as one number where there are many.

Tested here: `lake.fingerprints` through the audit. Not tested here: comparing them (`core.test_drift`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.profiles import REST, VALUES_KEPT
from backfill_assets.lake.audit import audit
from backfill_assets.lake.fingerprints import VALUE_CHARS
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, stage_by_hand

pytestmark = pytest.mark.quick
COLUMNS = Column("day", "DATE", "d"), Column("key", "STRING", "k"), Column("a 'b\"", "STRING", "t", nullable=True)
TABLE = Contract("t", "t", COLUMNS, "day", ("key",), ())
LONG = "x" * (VALUE_CHARS + 1)


def counted(folder: Path, days: dict[int, list[str | None]]) -> dict[int, object]:
    rows = [
        dict(zip(TABLE.column_names, (day(d), str(i), v), strict=True))
        for d, vs in days.items()
        for i, v in enumerate(vs)
    ]
    found = audit(bare_lake(folder), stage_by_hand(bare_lake(folder), TABLE, rows).paths, TABLE)
    return {d: found[day(d)].histograms.get("a 'b\"") for d in days}


def test_few_texts_are_counted_by_name_and_null_is_none_of_them(tmp_path: Path) -> None:
    texts: list[str | None] = ["EUR"] * 9 + ["it's\n2"] * 3 + [None] * 5 + [LONG] * 2
    assert counted(tmp_path, {0: texts, 1: [None] * 9, 2: ["one", "two", "one"]}) == {
        0: {"EUR": 9, "it's\n2": 3, REST: 2}, 1: None, 2: None,
    }  # fmt: skip


def test_many_texts_are_one_number(tmp_path: Path) -> None:
    some = [f"v{i % (VALUES_KEPT + 4)}" for i in range(200)]
    found = counted(tmp_path, {0: [str(i) for i in range(300)], 1: [*some]})
    assert found[0] == {REST: 300}
    assert found[1] == {f"v{n}": 10 for n in (0, 1, *range(10, 20), 2, 3, 4, 5)} | {REST: 40}
