"""A wrong `select` was loaded for days on end: planned, corrected in chunks, one chunk taken back
and made once more.

Tested here: the real changes of OpenStack, by the command line alone, with amounts that were lost
and with a clock that moved rows over midnight at both ends. Not tested here: gates that stop
(`plans/test_gate.py`). $BACKFILL_ASSETS_WRONG_DAYS=45 takes 45 days in chunks of seven; without
it one chunk of a day and one of three, of fewer changes.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets_tests.end_to_end.typed import answer, chunks_of, content, said
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import data_files

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("plan of a wrong select")]
WRONG_DAYS = int(os.environ.get("BACKFILL_ASSETS_WRONG_DAYS", "4"))
IS_WHOLE = WRONG_DAYS >= 45
CHUNK = 7 if IS_WHOLE else 3
START, FIRST = (
    (date(2013, 10, 1), date(2015, 5, 11)) if IS_WHOLE else (date(2015, 1, 1), date(2015, 1, 8))
)
LAST = FIRST + ONE_DAY * (WRONG_DAYS - 1)
END = LAST if IS_WHOLE else LAST + ONE_DAY * 2
LOST = ("n_files AS value", "0 AS value")
MOVED = ("authored_ts AS event_ts", "arrival_ts AS event_ts")


@pytest.fixture(scope="module")
def spark_server(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The lake as it should be; its server ends with the module."""
    folder = tmp_path_factory.mktemp("wrong_select")
    root, name = folder / "lake", "openstack_changes" if IS_WHOLE else "openstack_changes_q1"
    make = [sys.executable, str(shared / "tools" / "make_lake.py"), name, str(root)]
    subprocess.run(make, check=True, capture_output=True)
    lines = (root / "lake.toml").read_text().splitlines()
    asked = {"start_date": str(START), "as_of": f"{END + ONE_DAY}T00:00:00Z"}
    lines = [
        f"{k} = {asked[k]}" if (k := line.partition(" ")[0]) in asked else line for line in lines
    ]
    (root / "lake.toml").write_text("\n".join(lines) + '\n[spark]\nmemory = "1g"\n')
    make_home(folder)
    lake = open_lake(root)
    answer(lake, "backfill", "--from", str(START), "--to", str(END))
    yield lake
    stop_server(root, force=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", [LOST, MOVED], ids=["amounts lost", "rows moved to the days that they arrived on"]
)
def test_a_wrong_select_is_corrected_a_chunk_taken_back_and_remade(
    spark_server: Lake, wrong: tuple[str, str]
) -> None:
    lake, settings = spark_server, spark_server.root / "lake.toml"
    right, good = settings.read_text(), content(lake)
    settings.write_text(right.replace(*wrong))
    answer(lake, "backfill", "--from", str(FIRST), "--to", str(LAST), "--tables", "raw")
    answer(lake, "catch-up")
    settings.write_text(right)
    bad = content(lake)
    assert bad["staging"] != good["staging"]
    files = {
        t: data_files(lake, t, column)
        for t, column in (("raw", "arrival_date"), ("staging", "event_date"))
    }

    asked = [
        "--from",
        str(FIRST),
        "--to",
        str(LAST),
        "--chunk",
        f"{CHUNK}d",
        "--template",
        "migration",
    ]
    made = answer(lake, "plan", *asked, "--canary", "1", "--reason", "wrong select")
    plan, chunk = made["id"], "4" if IS_WHOLE else "2"
    assert made["state"] == "new"
    assert f"| {chunk} |" in said(lake, "plan", "show", plan, "--markdown")
    done = answer(lake, "run", plan)
    assert {c["state"] for c in done["progress"]} == {"done"}
    _took_back_and_made_again(lake, plan, chunk, bad)

    answer(lake, "catch-up")
    assert content(lake) == good
    now = data_files(lake, "raw", "arrival_date")
    assert {d for d in now if now[d] != files["raw"].get(d)} <= set(_days(FIRST, LAST))
    now = data_files(lake, "staging")
    untouched = {d for d in now if bad["staging"].get(str(d)) == good["staging"].get(str(d))}
    moved = {d for d in now if now[d] != files["staging"].get(d)}
    assert not untouched & moved, "days that were right keep their data files"


def _took_back_and_made_again(
    lake: Lake, plan: str, chunk: str, bad: dict[str, dict[str, tuple[int, str]]]
) -> None:
    corrected = content(lake)
    back = answer(lake, "rollback", "--plan", plan, "--chunk", chunk, "--yes")
    days = {t["table"]: {d["day"] for d in t["days"]} for t in back["tables"]}
    assert "raw" not in days
    held = content(lake)
    for table, mine in days.items():
        assert {d: held[table].get(d) for d in mine} == {d: bad[table].get(d) for d in mine}
        others = (held[table].keys() | corrected[table].keys()) - mine
        assert {d: held[table].get(d) for d in others} == {
            d: corrected[table].get(d) for d in others
        }
    answer(lake, "release", "--plan", plan, "--chunk", chunk, "--yes")
    assert answer(lake, "run", plan)["state"] == "finished"
    assert chunks_of(lake, "staging", plan)[-1] == chunk
    again = content(lake)
    for table, mine in days.items():
        assert {d: again[table].get(d) for d in mine} == {d: corrected[table].get(d) for d in mine}


def _days(first: date, last: date) -> list[date]:
    return [first + ONE_DAY * n for n in range((last - first).days + 1)]
