"""A payload that changes over a loaded lake: what is outdated, what older days read, and what
cannot be done.

Lives here: a column added, dropped and given another type, day by day through the load path. Does
not live here: the table's schema by itself (`kernel.tables.test_columns`).
"""

import shutil
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.cli.backfill import foresee_run
from backfill_assets.intake.scan import scan_source, withdraw_disputed
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import ContractBroken, InputMissing, SettingsError
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.pipeline.tables import delivered, tables
from backfill_assets.reports.status import lake_status
from backfill_assets.upkeep.doctor_tables import examine_rows
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land_bytes

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.in_turn("changed payload"),
    pytest.mark.usefixtures("spark"),
]
ALL = DayRange(date(2024, 3, 1), date(2024, 3, 3))
DECLARED_DAYS = DayRange(date(2024, 3, 1), date(2024, 3, 5))
FIRST, SECOND = DayRange(ALL.start, ALL.last), DayRange(ALL.last, ALL.end)


def declare(root: Path, **payload: str) -> None:
    """The lake's settings with this payload, each column of which the files have under its name."""
    columns = "".join(f'{name} = "{kind}"\n' for name, kind in payload.items())
    (root / "lake.toml").write_text(f"""start_date = 2024-03-01
[source]
files = "landing/**/*.csv"
format = "csv"
select = "id AS event_key, cast(at AS timestamp) AS event_ts, {", ".join(payload)}"
[source.payload]
{columns}[features]
entity = ["shop"]
{SHARED}""")


DECLARED = """[features]
entity = ["shop"]
[[features.columns]]
name = "sold_2d"
agg = "sum"
of = "till"
where = "till > {least}"
days = 2
[labels]
label = "count_ahead() > 0"
horizon_days = 1
maturity_days = 0
"""


def test_only_what_reads_a_changed_column_or_feature_is_made_again(tmp_path: Path) -> None:
    def write(least: int, **payload: str) -> None:
        declare(tmp_path, **payload)
        toml = (tmp_path / "lake.toml").read_text()
        usual = '[features]\nentity = ["shop"]\n'
        (tmp_path / "lake.toml").write_text(toml.replace(usual, DECLARED.format(least=least)))

    few = {"shop": "STRING NOT NULL", "till": "INT"}
    write(0, **few)
    world = World(tmp_path, tables)
    for day in ("01", "02", "03", "04"):
        text = f"id,at,shop,till,country\ne{day},2024-03-{day} 10:00:00,a,7,DE\n"
        land_bytes(world, f"dt=2024-03-{day}/x.csv", text.encode())
    world.backfill(DECLARED_DAYS)
    assert set(map(frozenset, world.states().values())) == {frozenset({"fresh"})}
    write(0, **few, country="STRING")
    told = world.states()
    assert {t for t, found in told.items() if found != {"fresh"}} == {"raw", "staging"}, (
        "before anything runs"
    )
    world.backfill(DECLARED_DAYS, "raw", "staging")
    assert {r["country"] for r in world.content("staging")} == {"DE"}
    assert set(map(frozenset, world.states().values())) == {frozenset({"fresh"})}, "nobody reads it"
    write(9, **few, country="STRING")
    told = world.states()
    assert {t for t, found in told.items() if found != {"fresh"}} == {
        "features",
        "features_as_known",
    }
    world.backfill(DECLARED_DAYS, "features", "features_as_known")
    told = world.states()
    assert {t for t, found in told.items() if found != {"fresh"}} == {"training"}, (
        "labels read only whom there are"
    )
    world.backfill(DECLARED_DAYS, "training")
    write(9, **few)
    assert {t for t, found in world.states().items() if found != {"fresh"}} == {"raw", "staging"}
    world.backfill(DECLARED_DAYS, "raw", "staging")
    assert set(map(frozenset, world.states().values())) == {frozenset({"fresh"})}, (
        "nobody read what was dropped"
    )


@pytest.mark.parametrize(
    "is_taken_back", [False, True], ids=["what landed stays", "what landed is taken back"]
)
def test_a_column_with_its_former_name_again_leaves_no_trace_of_the_other(
    tmp_path: Path, is_taken_back: bool
) -> None:
    """Between the two renames, the ledger was computed from files that lacked the column; nobody
    took it anew."""

    def lands(world: World, name: str, key: str, day: str) -> None:
        text = f"id,at,shop,till,sold\n{key},2024-03-{day} 10:00:00,a,7,8\n"
        land_bytes(world, f"dt=2024-03-{name}/x.csv", text.encode())

    def ledger(root: Path) -> list[tuple[object, ...]]:
        rows = World(root, delivered).content("arrivals")
        return sorted((r["arrival_date"], r["event_date"], r["fingerprint"]) for r in rows)

    kept = tmp_path / "kept"
    kept.mkdir()
    declare(kept, shop="STRING NOT NULL", till="INT")
    world = World(kept, delivered)
    lands(world, "01", "moves", "01")
    world.backfill(DECLARED_DAYS, "raw")
    declare(kept, shop="STRING NOT NULL", sold="INT")
    lands(world, "03", "moves", "02")
    third = DayRange(date(2024, 3, 3), date(2024, 3, 4))
    world.backfill(third, "raw")
    if is_taken_back:
        (kept / "landing/dt=2024-03-03/x.csv").unlink()
        withdraw_disputed(world.open()[0], "taken back")
        world.backfill(third, "raw")
    declare(kept, shop="STRING NOT NULL", till="INT")
    lake_session, pipeline = world.open()
    scan_source(lake_session)
    assert foresee_run(KnownStates(lake_session.lake, pipeline), ["raw"], FIRST).rows is None, (
        "a run is made"
    )
    world.backfill(DECLARED_DAYS, "raw")
    new = tmp_path / "new"
    shutil.copytree(kept / "landing", new / "landing")
    declare(new, shop="STRING NOT NULL", till="INT")
    World(new, delivered).backfill(DECLARED_DAYS, "raw")
    assert ledger(kept) == ledger(new)


def write_till_as_sold(root: Path, of: str, **payload: str) -> None:
    """Write a `lake.toml` that lands `till` as `sold`, and a feature that sums the column `of`."""
    declare(root, shop="STRING NOT NULL", **payload, country="STRING")
    toml = (root / "lake.toml").read_text()
    toml = toml.replace("event_ts, shop, sold", "event_ts, shop, till AS sold")
    declared = DECLARED.format(least=0).replace("till", of)
    (root / "lake.toml").write_text(toml.replace('[features]\nentity = ["shop"]\n', declared))


def sold_as_known(world: World) -> list[object]:
    """The feature of each day, as it was known then."""
    rows = sorted(world.content("features_as_known"), key=lambda r: str(r["feature_date"]))
    return [row["sold_2d"] for row in rows]


def unfit_states(world: World) -> dict[str, set[str]]:
    """Per table that has days which are neither fresh nor outdated the states of all its days."""
    return {t: found for t, found in world.states().items() if found - {"fresh", "outdated"}}


def test_what_reads_a_renamed_column_is_never_made_from_days_without_it_unnoticed(
    tmp_path: Path,
) -> None:
    write_till_as_sold(tmp_path, "till", till="INT")
    world = World(tmp_path, tables)
    for day in ("01", "02", "03", "04"):
        text = f"id,at,shop,till,country\ne{day},2024-03-{day} 10:00:00,a,7,DE\n"
        land_bytes(world, f"dt=2024-03-{day}/x.csv", text.encode())
    world.backfill(DECLARED_DAYS)
    write_till_as_sold(tmp_path, "sold", sold="INT")
    assert unfit_states(world) == {}, "another name is no news of what landed"
    world.backfill(ALL, "features_as_known")
    found = unfit_states(world)["features_as_known"]
    assert found == {"incomplete", "outdated"}, sold_as_known(world)
    land_bytes(
        world, "dt=2024-03-05/x.csv", b"id,at,shop,till,country\ne05,2024-03-02 10:00:00,a,5,DE\n"
    )
    world.backfill(DayRange(date(2024, 3, 5), date(2024, 3, 6)), "raw")
    world.backfill(DayRange(date(2024, 3, 2), date(2024, 3, 3)), "staging", "features")
    assert unfit_states(world)["features"] >= {"incomplete"}, (
        "its staging has rows of files that were loaded without the column"
    )
    assert "staging" not in unfit_states(world)
    world.backfill(DayRange(date(2024, 3, 1), date(2024, 3, 6)))
    assert set().union(*world.states().values()) <= {"fresh", "pending"}
    as_known = sold_as_known(world)[:4]
    assert as_known == [7, 14, 14, 14], "as known at each day's end, before the late file came"
    toml = tmp_path / "lake.toml"
    toml.write_text(toml.read_text().replace("sold_2d", "sold_2days"))
    world.backfill(ALL, "features")
    renamed = {
        r["feature_date"]: (r["sold_2d"], r["sold_2days"]) for r in world.content("features")
    }
    assert [renamed[d] for d in ALL] == [(None, 7), (None, 19)], (
        "equal values under another name are written"
    )


def loaded(root: Path, header: str, values: str, **payload: str) -> World:
    """A lake with this payload, and one row of two days that is made everywhere."""
    declare(root, **payload)
    world = World(root, delivered)
    for day in ("01", "02"):
        text = f"{header}\ne{day},2024-03-{day} 10:00:00,{values}\n"
        land_bytes(world, f"dt=2024-03-{day}/x.csv", text.encode())
    world.backfill(ALL)
    return world


def test_a_required_column_under_a_new_name_is_never_null_and_days_loaded_without_it_are_named(
    tmp_path: Path,
) -> None:
    world = loaded(tmp_path, "id,at,shop,till", "a,7", shop="STRING NOT NULL", till="INT NOT NULL")
    declare(tmp_path, shop="STRING NOT NULL", sold="INT NOT NULL")
    toml = tmp_path / "lake.toml"
    toml.write_text(
        toml.read_text().replace("event_ts, shop, sold", "event_ts, shop, till AS sold")
    )
    with pytest.raises(
        InputMissing, match=r"raw 2024-03-01\.\.2024-03-02 was loaded without sold, .*--tables raw"
    ):
        world.backfill(ALL, "staging")
    world.backfill(ALL)
    assert [r["sold"] for r in world.content("staging")] == [7, 7]
    assert world.states() == {"raw": {"fresh"}, "staging": {"fresh"}}


def test_a_payload_may_gain_and_lose_columns_over_a_loaded_lake(tmp_path: Path) -> None:
    world = loaded(
        tmp_path, "id,at,shop,till,country", "a,7,true", shop="STRING NOT NULL", till="INT"
    )

    def rows() -> list[tuple[object, ...]]:
        return sorted(
            (r["event_key"], r.get("till"), r.get("country")) for r in world.content("staging")
        )

    assert rows() == [("e01", 7, None), ("e02", 7, None)]
    declare(tmp_path, shop="STRING NOT NULL", country="STRING")
    assert world.states() == {"raw": {"outdated"}, "staging": {"outdated"}}
    lake_session, pipeline = world.open()
    told = ("gets country STRING", "loses till")
    assert lake_status(lake_session.lake, pipeline).columns == {"raw": told, "staging": told}
    world.backfill(FIRST)
    assert rows() == [("e01", None, "true"), ("e02", 7, None)], "each day is made again by itself"
    lake = open_lake(tmp_path)
    for table in delivered(lake.settings):
        found = examine_rows(
            lake, table.contract, lake.store.view(table.name, table.contract.day_column)
        )
        assert "equal their receipts" in found.what, (
            "a day that was not made again is what its receipt says"
        )
    world.backfill(SECOND)
    assert rows() == [("e01", None, "true"), ("e02", None, "true")]
    assert world.states() == {"raw": {"fresh"}, "staging": {"fresh"}}
    declare(tmp_path, shop="STRING NOT NULL", country="BOOLEAN")
    with pytest.raises(ContractBroken, match="country is STRING, not BOOLEAN"):
        world.backfill(ALL)
    declare(tmp_path, shop="STRING NOT NULL", country="INT")
    with pytest.raises(SettingsError, match=r"none of 2 row\(s\) is usable that was: .*country"):
        world.backfill(ALL)


def test_a_payload_column_gets_a_wider_type_day_by_day_as_days_are_made_again(
    tmp_path: Path,
) -> None:
    declare(tmp_path, shop="STRING NOT NULL", till="INT")
    world = World(tmp_path, delivered)
    for day, till in (("01", 7), ("02", 3_000_000_000)):
        text = f"id,at,shop,till\ne{day},2024-03-{day} 10:00:00,a,{till}\n"
        land_bytes(world, f"dt=2024-03-{day}/x.csv", text.encode())
    world.backfill(ALL)
    assert [r["till"] for r in world.content("staging")] == [7]
    declare(tmp_path, shop="STRING NOT NULL", till="BIGINT")
    assert world.states()["raw"] == {"outdated"}, (
        "a value that was too large for INT may be usable now"
    )
    world.backfill(SECOND)
    assert [r["till"] for r in world.content("staging")] == [7, 3_000_000_000], (
        "files of both types are read"
    )
    assert world.states() == {"raw": {"fresh", "outdated"}, "staging": {"fresh", "outdated"}}
    lake_session, pipeline = world.open()
    assert lake_status(lake_session.lake, pipeline).columns == {}
    world.backfill(ALL)
    assert [r["till"] for r in world.content("staging")] == [7, 3_000_000_000]
    assert world.states() == {"raw": {"fresh"}, "staging": {"fresh"}}
