"""Rows of a forgotten entity leave the landed files and the ledger; a file that was rewritten is
never an altered one. Not here: tables (`end_to_end.test_forget`)."""

import json
from pathlib import Path

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.erasure.landed_files import erase_landed_rows, rewritten_file
from backfill_assets.erasure.traces import Trace
from backfill_assets.intake.files import LandingError
from backfill_assets.intake.forgotten import Erasure, begin_erasure
from backfill_assets.intake.heirs import BYTES_AFTER
from backfill_assets.intake.landed_changes import listing_and_ledger
from backfill_assets.intake.ledger import read_files
from backfill_assets.intake.scan import scan_source
from backfill_assets.intake.settings import landed_source
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.lakes import backfill, content, delivery, land, land_bytes, make_lake

pytestmark = pytest.mark.users_do

ANN = Trace({"entity": "ann-77"})


@pytest.fixture
def lake(spark: object, tmp_path: Path) -> Lake:
    """A lake of two scanned files with rows of ann-77; the first has an unreadable line of it,
    too."""
    rows = [
        delivery(n, "2024-03-01 10:00:00", None, f"k{n}", entity=e)
        for n, e in enumerate(("A", "ann-77", "B"))
    ]
    made = make_lake(tmp_path / "lake", {"a.jsonl": rows, "b.jsonl": rows[1:]}, "2024-03-01")
    whole = (made.root / "landing" / "a.jsonl").read_bytes()
    land_bytes(made.root / "landing", "a.jsonl", whole + b'{"entity": "ann-77", torn\n')
    scan_source(LakeSession(made))
    return made


def entities(lake: Lake) -> dict[str, list[str]]:
    texts = {p.name: p.read_text().splitlines() for p in sorted((lake.root / "landing").iterdir())}
    return {name: [json.loads(line)["entity"] for line in lines] for name, lines in texts.items()}


def is_followed(lake: Lake) -> bool:
    """Whether the ledger takes the landed files as they are for what was loaded, with the first
    scans of before."""
    report, records = scan_source(LakeSession(lake)), read_files(lake.store)
    live, gone = (
        {r.path: r for r in records if r.withdrawn is is_gone} for is_gone in (False, True)
    )
    same = all(live[name].first_scan == gone[name].first_scan for name in live)
    rows = {n: r.rows for n, r in live.items()}
    return same and not (report.altered or report.new) and rows == {"a.jsonl": 2, "b.jsonl": 1}


def begun(lake: Lake) -> Erasure:
    return begin_erasure(lake, ANN.values, "asked for")


def test_its_rows_and_unreadable_lines_of_it_go_and_the_ledger_follows(lake: Lake) -> None:
    erase_landed_rows(LakeSession(lake), ANN, erasure := begun(lake))
    assert entities(lake) == {"a.jsonl": ["A", "B"], "b.jsonl": ["B"]}
    assert {f["path"]: f["rows"] for f in erasure.done["landed"]} == {"a.jsonl": 2, "b.jsonl": 1}
    assert is_followed(lake)
    now = {r.path: r.sha256 for r in read_files(lake.store) if not r.withdrawn}
    assert {f["path"]: f[BYTES_AFTER] for f in erasure.done["landed"]} == now
    kept = {name.partition(".")[0] for name in lake.stock.names()} - {"kinds"}
    assert kept == {*now.values()}, "copies of what the files held are gone"
    version = lake.store.view("files", "arrival_date").version
    erase_landed_rows(LakeSession(lake), ANN, begun(lake))
    assert lake.store.view("files", "arrival_date").version == version, (
        "there is nothing left to do"
    )


def test_a_file_that_was_rewritten_before_the_ledger_knew_is_followed_by_the_next_call(
    lake: Lake,
) -> None:
    erasure = begun(lake)
    record = next(r for r in read_files(lake.store) if r.path == "b.jsonl")
    erasure.done["landed"] = [{"path": "b.jsonl", "before": record.sha256, "rows": 1}]
    erasure.keep()
    with rewritten_file(
        next(f for f in listing_and_ledger(LakeSession(lake))[0].files if f.name == "b.jsonl"),
        landed_source(lake.settings.source),
        {1},
    ):
        pass
    erase_landed_rows(LakeSession(lake), ANN, begun(lake))
    assert entities(lake) == {"a.jsonl": ["A", "B"], "b.jsonl": ["B"]}
    assert is_followed(lake)


def test_a_day_is_loaded_while_its_files_hold_rows_counted_before_the_erasure(
    spark: object, tmp_path: Path
) -> None:
    rows = [
        delivery(n, "2024-03-01 10:00:00", None, f"k{n}", entity=e)
        for n, e in enumerate(("A", "ann-77", "C"))
    ]
    lake = make_lake(tmp_path / "lake", {"a.jsonl": rows[:1], "b.jsonl": rows[1:2]}, "2024-03-01")
    scan_source(LakeSession(lake))
    begun(lake)
    land(lake, "c.jsonl", rows[2:])
    backfill(lake, "2024-03-01", "2024-03-01", ["raw"])
    assert [row[6] for row in content(lake, "raw")] == ["A", "C"]
    assert [row[-1] for row in content(lake, "quarantine")] == ["[forgotten]"]


@pytest.mark.parametrize("why", ["it is altered", "a manifest declares its totals"])
def test_a_file_that_others_altered_or_declared_stops_it(lake: Lake, why: str) -> None:
    landed = lake.root / "landing"
    if "altered" in why:
        land(lake, "b.jsonl", [delivery(9, "2024-03-01 10:00:00", None, "k9", entity="ann-77")] * 2)
    else:
        (landed / "b.jsonl.totals.json").write_text('{"rows": 2}')
        scan_source(LakeSession(lake))
    before = (landed / "a.jsonl").read_bytes()
    with pytest.raises(LandingError, match=rf"b\.jsonl: {why}"):
        erase_landed_rows(LakeSession(lake), ANN, begun(lake))
    assert (landed / "a.jsonl").read_bytes() == before
