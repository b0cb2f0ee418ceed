"""Every landed row ends in exactly one place: raw, quarantine or duplicates; every file is read, or
listed with why.

Lives here: files with every fault that senders are known for, counted by hand. Does not live here:
the strict parsers alone (`intake.test_ingest`) and listing (`intake.test_listing`). One load
judges many files: each fault has its own.
"""

import gzip
import json
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.intake.files import LandingError
from backfill_assets.intake.scan import scan_source, withdraw_disputed
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.write.candidate import Candidate
from backfill_assets_tests.end_to_end.worlds import World, land, land_bytes, make_world, span
from backfill_assets_tests.oracle import COLUMNS, Rules, delivery

pytestmark = [
    pytest.mark.on_spark(
        "reasons of faults are Spark's, and times of rare forms Spark alone reads"
    ),
    pytest.mark.usefixtures("spark"),
]
RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-09"), date(2024, 3, 9))
GOOD = {
    c: str(v) if isinstance(v, datetime) else v
    for c, v in delivery(0, "2024-03-05 10:00:00").items()
}
RAW, BAD, TWIN = "raw", "quarantine", "duplicate"


def line(seq: int, /, **facts: Any) -> bytes:
    return json.dumps(GOOD | {"seq": seq, "event_key": f"k{seq}"} | facts).encode()


# What stands on a line, and a word of the reason why it is unusable (None: it is usable).
FAULTS: list[tuple[bytes, str | None]] = [
    (line(1), None),
    (line(2)[:-9], "JSON"),
    (line(3) + line(4), "goes on"),
    (b'{"seq": 5, "seq": 6}', "twice"),
    (line(7).replace(b'"value": 1', b'"value": NaN'), ""),
    (line(8, value=1 << 63), "value"),
    (line(9, value=1.5), "value"),
    (line(10, flag=2), "flag"),
    (line(11, event_key=None), "event_key"),
    (line(12, event_key="  "), "event_key"),
    (line(13, op="merge"), "op"),
    (line(14, event_ts="1970-01-01 00:00:00"), "first day"),
    (line(15, event_ts="2024-03-07 10:00:01"), "after its arrival"),
    (line(16, arrival_ts="2024-02-29 23:59:59"), "first day"),
    (line(17, arrival_ts="2091-01-01 00:00:00"), "first scan"),
    (line(18, arrival_ts="soon"), "arrival_ts"),
    (line(19, event_key="\udcff").replace(b"\\udcff", b"\xff"), "UTF-8"),
    (line(20, version_ts="2024-13-01 00:00:00"), "version_ts"),
    (line(21, event_ts=None), "event_ts"),
    (line(22, seq=None), "seq"),
    (line(23, entity="x" * (1 << 20)), ""),
    (line(24, op="delete", event_ts=None, entity=None, value=None, flag=None), None),
    (line(25, arrival_ts="2024-03-06 00:00:00", event_ts="2024-03-06 00:00:00", entity=None), None),
    (b"[1, 2]", "object"),
    (line(26, value=(1 << 53) + 1), "2^53"),
    (line(27, value=-(1 << 63)), "2^53"),
    (line(28, value=-(1 << 53)), None),
    (line(29, arrival_ts="+294247-01-10 04:00:54"), "first scan"),
]


def backfilled(world: World) -> Candidate:
    return world.backfill(span(RULES), "raw")["raw"]


def outcomes(world: World, loaded: Candidate) -> Counter[str]:
    """Rows by outcome: two from the tables as delta-rs reads them, the duplicates from the account
    of the load."""
    told: Counter[str] = Counter()
    for account in loaded.accounts.values():
        for counts in account["by_file"].values():
            told.update(counts)
    assert told[RAW] == len(world.content("raw"))
    assert told[BAD] == len(world.content("quarantine"))
    _receipts_tell_the_same(world, told)
    return told


def _receipts_tell_the_same(world: World, told: Counter[str]) -> None:
    """The receipts of raw count what landed and is elsewhere, per arrival day; zeros too."""
    latest = world.look().view.table("raw").latest
    counted = [
        dict(r.entry.counts) for r in latest.values() if "duplicates" in r.entry.counts
    ]  # days that were due
    assert counted
    assert all(set(c) >= {"duplicates", "quarantine", "too late", "not due"} for c in counted)
    assert sum(c["duplicates"] for c in counted) == told[TWIN]
    assert sum(c["quarantine"] for c in counted) == told[BAD]
    assert sum(c["too late"] + c["not due"] for c in counted) == told["too late"] + told["not due"]


def sha_of(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def reasons(world: World, path: Path) -> dict[int, str]:
    """Row number -> reason, of one file."""
    sha = sha_of(path)
    return {
        r["row_number"]: r["reason"] for r in world.content("quarantine") if r["source_file"] == sha
    }


def test_each_faulty_line_is_quarantined_with_its_reason_and_its_neighbours_are_kept(
    tmp_path: Path,
) -> None:
    world = make_world(tmp_path, RULES)
    path = land_bytes(world, "faults.jsonl", b"\n".join(text for text, _ in FAULTS) + b"\n")
    loaded = backfilled(world)
    why = reasons(world, path)
    wanted = {n: word for n, (_, word) in enumerate(FAULTS, 1) if word is not None}
    assert set(why) == set(wanted)
    assert not {n: (word, why[n]) for n, word in wanted.items() if word not in why[n]}
    assert {r["seq"] for r in world.content("raw")} == {1, 24, 25, 28}
    assert sum(outcomes(world, loaded).values()) == len(FAULTS)
    homeless = {
        r["row_number"]
        for r in world.content("quarantine")
        if r["arrival_date"] == date(2024, 3, 5)
    }
    assert homeless == set(why), (
        "rows without a usable arrival time lie on the file's earliest usable day"
    )


HEADER = ",".join(COLUMNS).encode()


def record(seq: int) -> bytes:
    return ",".join(str(v) for v in (GOOD | {"seq": seq, "event_key": f"c{seq}"}).values()).encode()


def test_csv_files_with_drifted_columns_and_broken_records_lose_no_row(tmp_path: Path) -> None:
    world = make_world(tmp_path, RULES, "csv")
    swapped = [*reversed(COLUMNS)]
    row = GOOD | {"seq": 3, "event_key": "c3", "value": 41}
    files = {
        "good.csv": (HEADER + b"\r\n" + record(1) + b"\r\n", 1, 0),
        "marked.csv": (b"\xef\xbb\xbf" + HEADER + b"\n" + record(2) + b"\n\n", 1, 0),
        "swapped.csv": (
            ",".join(swapped).encode() + b"\n" + ",".join(str(row[c]) for c in swapped).encode(),
            1,
            0,
        ),
        "fields.csv": (
            HEADER + b"\n" + record(4) + b",more\n" + record(5)[:20] + b"\n" + record(6),
            1,
            2,
        ),
        "quote.csv": (HEADER + b"\n" + record(7) + b'\n"' + record(8) + b"\n" + record(9), 1, 1),
        "lacks.csv": (
            HEADER.replace(b",value", b"") + b"\n" + record(10).replace(b",1,0", b",0") + b"\n",
            0,
            1,
        ),
        "extra.csv": (HEADER + b",more\n" + record(11) + b",x\n", 1, 0),
        "twice.csv": (HEADER + b",seq\n" + record(12) + b",12\n", 0, 1),
        "cut.csv.gz": (gzip.compress(HEADER + b"\n" + record(13))[:-9], 0, 1),
        "nul.csv": (HEADER + b"\n" + record(14).replace(b",A,", b",\0,") + b"\n", 0, 1),
        "empty.csv": (b"", 0, 1),
        "header.csv": (HEADER + b"\n", 0, 0),
    }
    paths = {name: land_bytes(world, name, content) for name, (content, _, _) in files.items()}
    loaded = backfilled(world)
    raw = Counter(r["source_file"] for r in world.content("raw"))
    assert {n: (raw[sha_of(p)], len(reasons(world, p))) for n, p in paths.items()} == {
        n: (good, bad) for n, (_, good, bad) in files.items()
    }
    assert [r["value"] for r in world.content("raw") if r["seq"] == 3] == [41]
    assert sum(outcomes(world, loaded).values()) == sum(
        good + bad for _, good, bad in files.values()
    )


def test_hostile_files_are_listed_or_count_as_one_unusable_row(tmp_path: Path) -> None:
    world = make_world(tmp_path, RULES)
    land(world, "good.jsonl", [delivery(1, "2024-03-05 10:00")])
    land_bytes(world, "bomb.jsonl.gz", gzip.compress(bytes(90 << 20), 9))
    land_bytes(world, "cut.jsonl.gz", gzip.compress(line(2) * 50)[:-5])
    for name in (".hidden.jsonl", "_hidden.jsonl", "half.jsonl.part", "other.md5"):
        land_bytes(world, name, line(3))
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(line(4))
    (world.landing / "link.jsonl").symlink_to(secret)
    lake_session, _ = world.open()
    report = scan_source(lake_session)
    assert set(report.refused) == {
        ".hidden.jsonl",
        "_hidden.jsonl",
        "half.jsonl.part",
        "other.md5",
        "link.jsonl",
    }
    assert set(report.unreadable) == {"bomb.jsonl.gz", "cut.jsonl.gz"}
    loaded = backfilled(world)
    assert outcomes(world, loaded) == {RAW: 1, BAD: 2}
    assert {r["row_number"] for r in world.content("quarantine")} == {0}
    assert [r["seq"] for r in world.content("raw")] == [1]


def test_a_file_that_lands_twice_and_a_number_that_comes_twice_count_once(tmp_path: Path) -> None:
    world = make_world(tmp_path, RULES)
    one, other = delivery(1, "2024-03-05 10:00"), delivery(2, "2024-03-05 11:00", key="k2")
    land(world, "a.jsonl", [one, other, one, one | {"value": 9}])
    land(world, "b.jsonl", [one, delivery(1, "2024-03-06 10:00", key="k3")])
    land(world, "again/a.jsonl", [one, other, one, one | {"value": 9}])
    loaded = backfilled(world)
    found = sorted((r["seq"], r["value"], r["arrival_date"].day) for r in world.content("raw"))
    assert found == [(1, 1, 5), (1, 1, 6), (2, 1, 5)]
    clash = [r for r in world.content("quarantine") if r["row_number"] == 4]
    assert len(clash) == len(world.content("quarantine")) == 1
    assert "other content" in clash[0]["reason"]
    assert json.loads(clash[0]["text"])["value"] == 9
    told = outcomes(world, loaded)
    assert (told[RAW], told[BAD], told[TWIN]) == (3, 1, 2)


def test_an_altered_and_a_vanished_file_stop_the_rebuild_of_their_days_until_someone_accepts(
    tmp_path: Path,
) -> None:
    world = make_world(tmp_path, RULES)
    altered = land(world, "altered.jsonl", [delivery(1, "2024-03-03 10:00")])
    vanished = land(world, "vanished.jsonl", [delivery(2, "2024-03-05 10:00", key="k2")])
    land(world, "stays.jsonl", [delivery(3, "2024-03-07 10:00", key="k3")])
    backfilled(world)
    before = world.contents()
    land(
        world,
        "altered.jsonl",
        [delivery(1, "2024-03-03 10:00", value=5), delivery(4, "2024-03-04 10:00")],
    )
    vanished.unlink()
    for force in (False, True):
        with pytest.raises(
            LandingError, match=r"altered.jsonl \(altered\), vanished.jsonl \(missing\)"
        ):
            world.backfill(span(RULES), "raw", force=force)
    assert world.contents() == before
    lake_session, _ = world.open()
    assert withdraw_disputed(lake_session, "the sender corrected it") == [
        altered.name,
        vanished.name,
    ]
    backfilled(world)
    assert sorted((r["seq"], r["value"]) for r in world.content("raw")) == [(1, 5), (3, 1), (4, 1)]
    assert {r["event_date"].day for r in world.content("arrivals")} == {3, 4, 7}


def test_as_of_stops_the_world_inside_a_day_may_rise_and_may_not_fall(tmp_path: Path) -> None:
    world = make_world(tmp_path, RULES)
    rows = [delivery(n, f"2024-03-05 {n:02d}:00", key=f"k{n}") for n in (8, 10, 12)]
    land(world, "day.jsonl", rows)
    settings = (world.root / "lake.toml").read_text()

    def loaded_at(hour: int) -> tuple[list[int], datetime | None]:
        until = f"2024-03-05T{hour:02d}:00:00"
        (world.root / "lake.toml").write_text(settings.replace(RULES.until.isoformat(), until))
        backfilled(world)
        return [r["seq"] for r in world.content("raw")], world.look().frontier("raw")

    assert loaded_at(10) == ([8], datetime.fromisoformat("2024-03-05T10:00:00Z"))
    assert loaded_at(11) == ([8, 10], datetime.fromisoformat("2024-03-05T11:00:00Z"))
    with pytest.raises(SettingsError, match="lies before what is loaded"):
        loaded_at(9)
    assert [r["seq"] for r in world.content("raw")] == [8, 10]
