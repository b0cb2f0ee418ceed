"""Deliveries of one's own: a declared payload of every kind of value, from files that lack what the
machinery asks for.

Lives here: orders in CSV through raw, staging and quarantine, corrected, in any order of landing.
Does not live here: what a payload may be (`kernel.core.payload`), and features over it.
"""

import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from backfill_assets.intake.files import LandingError
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.pipeline.tables import delivered
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land_bytes

pytestmark = [
    pytest.mark.long,
    pytest.mark.on_spark("its select casts in ways that Sail refuses by name"),
    pytest.mark.usefixtures("spark"),
]
TOML = f'''start_date = 2024-03-01
[source]
files = "landing/**/*.csv"
format = "csv"
select = """order_id AS event_key, cast(ordered_at AS timestamp) AS event_ts, nullif(customer_id, '') AS customer_id,
 country, cast(total AS decimal(18,2)) AS total, is_return, cast(received AS timestamp) AS arrival_ts, tags"""
[source.payload]
customer_id = "STRING"
country = "STRING NOT NULL"
total = "DECIMAL(18,2)"
is_return = "BOOLEAN"
tags = "ARRAY<STRING>"
[features]
entity = ["customer_id"]
{SHARED}'''
HEADER = "order_id,ordered_at,customer_id,country,total,is_return,received,tags\n"
FIRST = """o1,2024-03-01 10:00:00,c1,DE,19.99,false,2024-03-01 11:00:00,
o2,2024-03-01 12:00:00,,FR,,true,2024-03-01 13:00:00,"[""gift"",null]"
o3,2024-03-01 12:30:00,c2,DE,99999999999999999.99,false,2024-03-01 13:00:00,
o4,2024-03-01 12:40:00,c2,DE,cheap,false,2024-03-01 13:00:00,
o5,2024-03-01 12:50:00,c2,DE,1,perhaps,2024-03-01 13:00:00,
o6,2024-03-01 12:55:00,c2,DE,1,false,2024-03-01 13:00:00,gift
"""
SECOND = """o1,2024-03-01 10:00:00,c1,DE,-0.50,true,2024-03-02 09:00:00,"[""returned""]"
o7,2024-03-02 08:00:00,c3,IT,100,,2024-03-02 09:00:00,[]
"""
DAYS = DayRange(date(2024, 3, 1), date(2024, 3, 3))


def orders(root: Path, *names: str) -> World:
    root.mkdir()
    (root / "lake.toml").write_text(TOML)
    world = World(root, delivered)
    for name in names:
        land_bytes(
            world, f"{name}.csv", (HEADER + {"first": FIRST, "second": SECOND}[name]).encode()
        )
        world.backfill(DAYS)
    return world


def test_orders_with_decimals_come_through_staging_and_are_corrected(tmp_path: Path) -> None:
    world = orders(tmp_path / "lake", "first", "second")
    names = ("event_key", "customer_id", "country", "total", "is_return", "tags")
    found = [(*map(r.get, names), r["known_until"] is None) for r in world.content("staging")]
    assert sorted(found, key=lambda r: (r[0], r[-1])) == [
        ("o1", "c1", "DE", Decimal("19.99"), False, None, False),
        ("o1", "c1", "DE", Decimal("-0.50"), True, ["returned"], True),
        ("o2", None, "FR", None, True, ["gift", None], True),
        ("o7", "c3", "IT", Decimal("100.00"), None, [], True),
    ]
    reasons = {r["row_number"]: r["reason"] for r in world.content("quarantine")}
    assert reasons == {
        3: "total is no DECIMAL(18,2)",
        4: "total is no DECIMAL(18,2)",
        5: "is_return is no BOOLEAN",
        6: "tags is no ARRAY<STRING>",
    }
    other = orders(tmp_path / "other", "second", "first")
    assert other.contents("source_file") == world.contents("source_file"), (
        "numbers of rows follow from contents alone"
    )
    assert other.fingerprints()["staging"] == world.fingerprints()["staging"]
    assert world.states() == {"raw": {"fresh"}, "staging": {"fresh"}}


def test_folders_of_days_load_without_tricks_and_a_content_counts_at_each_path(
    tmp_path: Path,
) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    (root / "lake.toml").write_text(f'''start_date = 2024-03-01
[source]
files = "landing/**/*.csv"
format = "csv"
select = """concat(_file, '#', _row) AS event_key, cast(at AS timestamp) AS event_ts, shop"""
[source.payload]
shop = "STRING NOT NULL"
[features]
entity = ["shop"]
{SHARED}''')
    world = World(root, delivered)
    same = b"at,shop\n2024-03-01 10:00:00,a\n2024-03-01 11:00:00,b\n"
    for day in ("01", "02"):
        land_bytes(world, f"dt=2024-03-{day}/x.csv", same)
    land_bytes(world, "nowhere.csv", same)
    world.backfill(DAYS)
    reasons = {r["reason"] for r in world.content("quarantine")}
    assert len(reasons) == 1
    assert "the path names no day such as dt=2024-03-01/" in reasons.pop()
    rows = world.content("raw")
    assert sorted(
        (r["event_key"], str(r["arrival_ts"]), r["version_ts"] == r["arrival_ts"], r["op"])
        for r in rows
    ) == [
        (f"dt=2024-03-{day}/x.csv#{n}", f"2024-03-{day} 23:59:59.999999", True, "upsert")
        for day in ("01", "02")
        for n in (1, 2)
    ]
    shutil.rmtree(root / ".stock", ignore_errors=True)
    (world.landing / "dt=2024-03-02" / "x.csv").touch()
    world.backfill(DAYS, force=True)
    assert world.content("raw") == rows, "touched and taken again, it is what it was"
    (world.landing / "dt=2024-03-02" / "x.csv").rename(world.landing / "dt=2024-03-01" / "y.csv")
    with pytest.raises(LandingError, match="missing"):
        world.backfill(DAYS)
