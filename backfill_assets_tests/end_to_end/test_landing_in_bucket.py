"""Files that land in a bucket: the tables of the lake are what the same files in a folder give.

Tested here: deliveries, what becomes of them, and `init`, on a server that speaks S3. Not tested
here: names (`intake.test_object_listing`), and objects that are replaced while they are fetched
(`intake.test_files`).
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from types import FrameType

import pytest

from backfill_assets.buckets import objects
from backfill_assets.intake.counting import stored_contents
from backfill_assets.intake.landed_changes import ScanReport, look_at_landing
from backfill_assets.intake.ledger import read_files
from backfill_assets.intake.scan import accept_all, scan_all
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.place.choice import bucket_prefix_at, place_at
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.learn.first_lake import landed_form
from backfill_assets.learn.first_source import guessed_source
from backfill_assets_tests.end_to_end.worlds import World, encoded, land_bytes, make_world
from backfill_assets_tests.oracle import Rules, delivery

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("spark")]
RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-20"), date(2024, 3, 10))
SPAN = inclusive_range(RULES.start, RULES.last_day)
VERBS = {"names", "tokens", "token", "open", "part", "fetch", "write", "send", "copy", "delete"}
AWKWARD = "dt=2024-03-05/a b%20+=ü/ x&?#.jsonl"
FIRST = [
    delivery(1, "2024-03-05 10:00"),
    delivery(2, "2024-03-05 11:00", key="k2"),
    delivery(3, "2024-03-06 10:00", key=" "),
]


class Twins:
    """Two lakes to which the same is delivered: one in its folder `landing`, one in a bucket."""

    def __init__(self, folder: Path, address: str, format: str = "jsonl") -> None:
        self.of_folder = make_world(folder / "one", RULES, format)
        self.of_bucket = make_world(folder / "other", RULES, format)
        toml = folder / "other/lake.toml"
        toml.write_text(
            toml.read_text().replace('files = "landing/**"', f'files = "{address}/in/**"')
        )
        self.prefix = bucket_prefix_at(f"{address}/in")

    def deliver(self, name: str, content: bytes) -> None:
        land_bytes(self.of_folder, name, content)
        self.prefix.write(name, content)

    def delete(self, name: str) -> None:
        (self.of_folder.landing / name).unlink()
        self.prefix.delete(name)

    def both(self, work: Callable[[World], object]) -> object:
        """What `work` gives for each, which must be the same."""
        one, other = work(self.of_folder), work(self.of_bucket)
        assert other == one
        return other

    def scanned(self) -> ScanReport:
        found = self.both(
            lambda world: replace(scan_all(world.open()[0]), example="")
        )  # it is any one
        assert isinstance(found, ScanReport)
        return found

    def built(self) -> None:
        self.both(lambda world: (world.backfill(SPAN), world.contents())[1])


@pytest.fixture
def address(bucket_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("BACKFILL_ASSETS_STATE", str(tmp_path / "state"))
    return bucket_address


def rows(*found: dict[str, object], format: str = "jsonl") -> bytes:
    return encoded(format, found)


@pytest.mark.parametrize("format", ["jsonl", "csv.gz", "parquet"])
def test_the_same_deliveries_give_the_same_tables(
    tmp_path: Path, address: str, format: str
) -> None:
    twins = Twins(tmp_path, address, format)
    twins.deliver(f"dt=2024-03-05/one.{format}", rows(*FIRST, format=format))
    twins.deliver(f"dt=2024-03-05/copy.{format}", rows(*FIRST, format=format))
    twins.deliver(f"bad.{format}", b"\x1f\x8bPAR1{")
    twins.deliver(f"_hidden/none.{format}", b"1")
    report = twins.scanned()
    assert (len(report.new), report.copies) == (
        2,
        {f"dt=2024-03-05/one.{format}": f"dt=2024-03-05/copy.{format}"},
    )
    assert (list(report.unreadable), list(report.refused)) == ([f"bad.{format}"], ["_hidden/"])
    twins.built()
    assert twins.of_bucket.content("raw")
    assert not twins.scanned().new
    late = delivery(
        7, "2024-03-08 10:00", key="k2", version_ts=datetime.fromisoformat("2024-03-08 09:00")
    )
    twins.deliver(f"dt=2024-03-08/late.{format}", rows(late, format=format))
    assert twins.scanned().new == {f"dt=2024-03-08/late.{format}": (1, 0)}
    twins.built()


def test_what_changed_vanished_or_is_not_as_declared_is_found_and_accepted(
    tmp_path: Path, address: str
) -> None:
    twins = Twins(tmp_path, address)
    twins.deliver(AWKWARD, rows(*FIRST))
    twins.deliver("gone.jsonl", rows(delivery(4, "2024-03-06 10:00", key="k4")))
    twins.deliver("told.jsonl", rows(delivery(5, "2024-03-06 10:00", key="k5")))
    twins.deliver("told.jsonl.totals.json", b'{"rows": 1}')
    twins.deliver("nested/_manifest.csv", b"file,rows\nlost.jsonl,3\n")
    assert twins.scanned().waiting == {
        "nested/lost.jsonl": "nested/_manifest.csv declares it, and it is not there"
    }
    twins.built()
    twins.deliver(AWKWARD, rows(FIRST[0]))
    twins.delete("gone.jsonl")
    twins.deliver("told.jsonl.totals.json", b'{"rows": 2}')
    report = twins.scanned()
    assert (report.altered, report.missing, list(report.contradicted)) == (
        (AWKWARD,),
        ("gone.jsonl",),
        ["told.jsonl"],
    )
    assert not report.is_clean
    assert twins.both(
        lambda world: accept_all(world.open()[0], "it is right", [AWKWARD, "gone.jsonl"])
    )
    twins.deliver("told.jsonl.totals.json", b'{"rows": 1}')
    twins.scanned()
    twins.built()
    assert {row["event_key"] for row in twins.of_bucket.content("raw")} == {
        FIRST[0]["event_key"],
        "k5",
    }


def test_an_object_of_the_same_size_and_second_is_another_and_a_lost_copy_returns(
    tmp_path: Path, address: str
) -> None:
    twins = Twins(tmp_path, address)
    first, second = (rows(delivery(n, "2024-03-05 10:00")) for n in (1, 2))
    twins.prefix.write("a.jsonl", first)
    lake_session, _ = twins.of_bucket.open()
    scan_all(lake_session)
    (record,) = read_files(open_lake(twins.of_bucket.root).store)
    lake_session.lake.stock.delete_below("")
    assert stored_contents(lake_session, [record])[0].parquet.exists()
    twins.of_bucket.backfill(SPAN, "raw")
    twins.prefix.write("a.jsonl", first)
    assert look_at_landing(lake_session).comparison.is_scanned, "the same bytes were put again"
    twins.prefix.write("a.jsonl", second)
    assert [r.path for r in look_at_landing(lake_session).comparison.altered] == ["a.jsonl"]


def test_init_describes_what_lies_in_a_bucket(tmp_path: Path, address: str) -> None:
    place = bucket_prefix_at(f"{address}/orders")
    for day in (1, 2):
        place.write(
            f"dt=2024-03-0{day}/o.csv",
            b"order_id,at,amount\n%d,2024-03-0%dT10:00:00Z,1.50\n" % (day, day),
        )
    place.write("dt=2024-03-02/readme.txt", b"-")
    found = landed_form(tmp_path, None, f"{address}/orders/**/*.csv")
    assert found is not None
    assert (found.form, [f.name for f in found.files]) == (
        "csv",
        ["dt=2024-03-01/o.csv", "dt=2024-03-02/o.csv"],
    )
    guess = guessed_source(found.files, found.form, {})
    assert (guess.roles["event_key"], guess.start_date, guess.path_names_day) == (
        "order_id",
        date(2024, 3, 1),
        True,
    )


@contextmanager
def requests_of() -> Iterator[Counter[str]]:
    """The calls of this thread to `buckets.objects`, by their verbs: each is a request."""
    counted = Counter[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename == objects.__file__ and code.co_name in VERBS:
            counted[code.co_name] += 1

    sys.setprofile(note)
    try:
        yield counted
    finally:
        sys.setprofile(None)


def test_requests_are_few_for_each_new_object_and_one_where_nothing_is_new(
    tmp_path: Path, address: str
) -> None:
    twins = Twins(tmp_path, address)
    for number in range(3):
        twins.prefix.write(f"{number}.jsonl", rows(delivery(number, "2024-03-05 10:00")))
    twins.prefix.write("0.jsonl.totals.json", b'{"rows": 1}')
    lake_session, _ = twins.of_bucket.open()
    with requests_of() as counted:
        assert len(scan_all(lake_session).new) == 3
    assert counted == {"tokens": 1, "open": 4, "token": 4}, (
        "a listing; each object is fetched, and looked at again"
    )
    with requests_of() as counted:
        assert look_at_landing(lake_session).comparison.is_scanned
    assert counted == {"tokens": 1}, "a tick with nothing to do"


def test_a_lake_in_a_bucket_reads_what_landed_below_it_and_needs_no_folder(
    tmp_path: Path, address: str
) -> None:
    twins = Twins(tmp_path, address)
    far = World(local_root(f"{address}/far"))
    place = place_at(far.root)
    place.write(FILE_NAME, (twins.of_folder.root / FILE_NAME).read_bytes())
    for name, content in (("dt=2024-03-05/a.jsonl", rows(*FIRST)), ("b.jsonl.gz", b"\x1f\x8b{")):
        land_bytes(twins.of_folder, name, content)
        place.write(f"landing/{name}", content)
    reports = [replace(scan_all(world.open()[0]), example="") for world in (twins.of_folder, far)]
    assert reports[0] == reports[1]
    for world in (twins.of_folder, far):
        world.backfill(SPAN, "raw")
    found, wanted = (world.fingerprints()["raw"] for world in (far, twins.of_folder))
    assert found == wanted
    assert found
    assert not look_at_landing(far.open()[0]).comparison.fresh
    copies = [n for n in place.at(".stock").names() if n.endswith(".parquet")]
    assert len(copies) == 2, "the content store lies in the bucket"
