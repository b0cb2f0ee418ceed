"""Flips of declared labels, against plain Python that looks at every version for every label. No JVM.

Tested here: `lake.declared_flips`. Not tested here: which tables and which label it is asked of (`operations`).
"""

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.days import ONE_DAY, midnight
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.declared_flips import DeclaredLabel, LabelTerm, declared_flips, declared_label
from backfill_assets.lake.lateness import MATURITIES_DAYS, Flip
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.files import bare_lake

FIRST, ENTITY, HORIZON = date(2024, 2, 26), ("shop", "day"), 3
TYPES = {
    "event_key": "STRING", "event_ts": "TIMESTAMP", "shop": "STRING", "day": "INT", "total": "DECIMAL(18,2)",
    "size": "DOUBLE", "known_from": "TIMESTAMP", "known_until": "TIMESTAMP", "event_date": "DATE",
}  # fmt: skip
COLUMNS = tuple(Column(name, kind, name, nullable=name != "event_date") for name, kind in TYPES.items())
VERSIONS = Contract("seen", "versions", COLUMNS, "event_date", (), ())
ASKED = Contract(
    "who", "asked",
    (Column("shop", "STRING", "s"), Column("day", "INT", "d"), Column("feature_date", "DATE", "d")),
    "feature_date", ENTITY, (),
)  # fmt: skip
AHEAD, BEHIND = (-HORIZON, -1), (0, HORIZON - 1)
LABEL = DeclaredLabel(
    ENTITY,
    (
        LabelTerm("sum_ahead", "sum", "total", "DECIMAL(18,2)", 9, *AHEAD),
        LabelTerm("sum_behind", "sum", "if(total < 0, NULL, total)", "DECIMAL(18,2)", 9, *BEHIND),
        LabelTerm("max_ahead", "max", "size", "DOUBLE", 9, *AHEAD),
    ),
    "sum_ahead > 2 * sum_behind OR max_ahead > 4.5D",
    HORIZON,
)


def _version(number: int, since: datetime) -> dict[str, Any]:
    known = since + ONE_DAY * random.choice((-9, -1, 0, 1))
    until = random.choice((None, None, known + ONE_DAY, since if since > known else None))
    day = FIRST + ONE_DAY * random.randrange(24)
    return {
        "event_key": f"k{number}", "event_ts": midnight(day) + timedelta(hours=1), "shop": random.choice("ab"),
        "day": random.choice((1, 2, None)), "total": Decimal(random.randrange(-300, 900)) / 100,
        "size": random.choice((1.0, 4.75, None)), "known_from": known, "known_until": until, "event_date": day,
    }  # fmt: skip


def _is(who: tuple[str, int], day: date, known: list[dict[str, Any]]) -> bool:
    mine = [(r, (r["event_date"] - day).days) for r in known if (r["shop"], r["day"]) == who]
    ahead = [r for r, far in mine if 1 <= far <= HORIZON]
    behind = [r for r, far in mine if 1 - HORIZON <= far <= 0]
    spent = sum((r["total"] for r in behind if r["total"] >= 0), Decimal(0))
    sizes = [r["size"] for r in ahead if r["size"] is not None]
    return sum((r["total"] for r in ahead), Decimal(0)) > 2 * spent or max(sizes, default=0) > 4.5


def test_flips_of_a_declared_label_are_what_looking_at_every_version_gives(tmp_path: Path) -> None:
    random.seed(5)
    since = datetime(2024, 3, 22, tzinfo=UTC)
    versions = [_version(n, since) for n in range(150)]
    rows = [((shop, day), FIRST + ONE_DAY * n) for shop in "ab" for day in (1, 2) for n in range(0, 24, 2)]
    lake = bare_lake(tmp_path)
    write_rows(lake.table_path(VERSIONS.name), VERSIONS, versions)
    asked = [{"shop": shop, "day": day, "feature_date": d} for (shop, day), d in rows]
    write_rows(lake.table_path(ASKED.name), ASKED, asked)
    now = [r for r in versions if r["known_until"] is None]
    then = [r for r in versions if r["known_from"] < since and (r["known_until"] or since) >= since]
    expected = []
    for maturity in MATURITIES_DAYS:
        ripe = [(who, d) for who, d in rows if midnight(d + ONE_DAY * (1 + HORIZON + maturity)) <= since]
        expected.append(Flip(maturity, len(ripe), sum(_is(*r, now) != _is(*r, then) for r in ripe)))
    found = declared_flips(lake, LABEL, ((VERSIONS, 0), (ASKED, 0)), since)
    assert found == tuple(expected)
    assert found[0].flipped, "the case must have something to find"
    strange = replace(LABEL, condition="no_such_function(sum_ahead)")
    with pytest.raises(BackfillError, match=r"cannot be asked without Spark.*were not counted"):
        declared_flips(lake, strange, ((VERSIONS, 0), (ASKED, 0)), since)


def test_only_tables_of_declared_labels_tell_one() -> None:
    assert declared_label({"horizon_days": 3}) is None
    value = {"of": None, "type": "INT", "where": None, "scale": 9}
    told = {"entity": ["e"], "terms": [["n", "count", value, [-2, -1]]], "condition": "n > 0", "horizon_days": 2}
    assert declared_label(told) == DeclaredLabel(("e",), (LabelTerm("n", "count", "1", "INT", 9, -2, -1),), "n > 0", 2)
