"""The same content under two names while `select` begins and ceases to read the path: the lake ends
as a new one.

Tested here: rows, default numbers and states of days after each change. Not tested here: the
comparison alone (`intake.test_landed_changes`) and names in the ledger (`intake.test_ledger`).
"""

import re
import shutil
from datetime import date, datetime
from pathlib import Path

import pytest

from backfill_assets.intake.ledger import read_files
from backfill_assets.intake.scan import scan_source, withdraw_disputed
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.end_to_end.worlds import TEXT_SELECT, World, land, make_world, span
from backfill_assets_tests.oracle import Rules, delivery

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.in_turn("numbers of copies"),
    pytest.mark.usefixtures("spark"),
]
RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-09"), date(2024, 3, 9))
NUMBER, ARRIVAL = (
    "cast(seq AS bigint) AS seq, ",
    "cast(arrival_ts AS timestamp_ntz) AS arrival_ts, ",
)
BY_ROW = TEXT_SELECT.replace(NUMBER, "")  # numbers by the file's name, days by the rows
BY_PATH = BY_ROW.replace(ARRIVAL, "")
ALONE = {date(2024, 3, 7)}


def follows(world: World, select: str) -> set[date]:
    """Another select: what a new lake would hold, and days of the file without a copy are outdated
    until they are loaded. Returns the stale days before that."""
    toml = world.root / "lake.toml"
    toml.write_text(re.sub(r'select = """.*"""', f'select = """{select}"""', toml.read_text()))
    scan_source(world.open()[0])
    stale = world.days_in(State.STALE, "raw")
    assert not stale & ALONE
    world.backfill(span(RULES), "raw", force=True)
    new = World(world.root.with_name("new"))
    shutil.copytree(world.landing, new.landing)
    shutil.copy(toml, new.root)
    new.backfill(span(RULES), "raw")
    for table in ("raw", "arrivals"):
        assert world.content(table) == new.content(table)
    assert scan_source(world.open()[0]).is_clean
    shutil.rmtree(new.root)
    return stale


def test_whichever_way_select_changes_copies_and_their_numbers_are_those_of_a_new_lake(
    tmp_path: Path,
) -> None:
    world = make_world(tmp_path / "lake", RULES)
    tied = [
        delivery(1, "2024-03-07 10:00", key="tied"),
        delivery(2, "2024-03-07 10:00", key="tied", value=2),
    ]
    both, copied = [date(2024, 3, 5), date(2024, 3, 6)], [delivery(1, "2024-03-05 10:00")]
    for number, row in enumerate(tied):
        land(world, f"dt=2024-03-07/{number}.jsonl", [row])
    paths = [land(world, f"dt={day}/a.jsonl", copied) for day in both]
    assert follows(world, BY_PATH) == set(), "nothing was loaded before"
    assert [r["arrival_date"] for r in world.content("raw") if r["event_key"] == "k"] == both
    assert follows(world, BY_ROW) == {*both}, "one content is in one day"
    assert follows(world, BY_PATH) == {*both}
    assert follows(world, BY_ROW) == {*both}
    land(world, "dt=2024-03-08/a.jsonl", copied)
    assert follows(world, BY_ROW) == set(), "a copy of what has had another name adds nothing"
    paths[0].unlink()
    assert follows(world, BY_ROW) == set(), "nor does it take anything away"
    (world.landing / "dt=2024-03-08" / "a.jsonl").unlink()
    follows(world, BY_PATH)
    paths[1].unlink()
    assert withdraw_disputed(world.open()[0], "gone") == ["dt=2024-03-06/a.jsonl"]
    follows(world, BY_PATH)
    assert {r.path for r in read_files(open_lake(world.root).store) if not r.withdrawn} == {
        f"dt=2024-03-07/{n}.jsonl" for n in (0, 1)
    }
