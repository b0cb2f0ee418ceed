"""Adopting a table in one commit, killed and raced; and days that others write to it afterwards.
Not here: what is refused (`test_adoptable.py`), and everything else done to such tables
(`end_to_end/test_adopted_tables.py`)."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.assets.declared import find_declared
from backfill_assets.buckets.copy_lake import copy_lake
from backfill_assets.foreign.adoptable import Adoption
from backfill_assets.foreign.adopting import ADOPT, FROM_NOTHING, AdoptedTable, adopt_table
from backfill_assets.foreign.external import Observation
from backfill_assets.foreign.observing import observe_table, observe_tables, unseen_version
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.calendars import Calendar, Unit
from backfill_assets.kernel.core.closures import closure_receipt
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.needs import needed_days
from backfill_assets.kernel.core.ownership import BY, whoami
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.log.adopted import JUDGE, adoption_mark
from backfill_assets.kernel.log.log import LOG
from backfill_assets.kernel.log.log_state import KEEP_EVERY, LOGS, LogCache
from backfill_assets.kernel.log.state_files import keep_state
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import LOCKS
from backfill_assets.kernel.tables.columns import KEEPS_LOG
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.testing import new_lake, rows_of
from backfill_assets.upkeep.inspection import inspect_table

pytestmark = pytest.mark.usefixtures("storages")
D1, D2, D3 = (date(2024, 1, n) for n in (1, 2, 3))


def rows(*given: tuple[date | None, str | None, int]) -> pa.Table:
    days, ids, amounts = zip(*given, strict=True)
    return pa.table(
        {
            "day": pa.array(days, pa.date32()),
            "id": pa.array(ids, pa.string()),
            "amount": list(amounts),
        }
    )


class World:
    """A table of others and a lake that may adopt it."""

    def __init__(self, folder: Path, by: str | None = "day", **settings: Any) -> None:
        self.folder, self.place = folder, folder / "theirs"
        write_deltalake(self.place, rows((D1, "a", 1), (D1, "b", 2)), partition_by=by)
        write_deltalake(self.place, rows((D2, "a", 4)), mode="append")
        self.lake = self.another("lake", **settings)

    def another(self, name: str, **settings: Any) -> Lake:
        """A lake beside the table."""
        return new_lake(
            self.folder / name, D1, assets_only=True, access={"readers": "everyone"}, **settings
        )

    def adopt(self, lake: Lake | None = None, note: str = "") -> AdoptedTable:
        """Adopt the table as `orders`."""
        lake = lake or self.lake
        return adopt_table(
            lake,
            Adoption("orders", str(self.place), "day", ("id",), note),
            chosen_pipeline(lake).contracts,
        )

    def data(self) -> dict[str, str]:
        """The digest of each data file there."""
        found = (p for p in self.place.rglob("*.parquet") if "_delta_log" not in p.parts)
        return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}

    def write(self, given: pa.Table, predicate: str = "") -> None:
        """Append as others do, or overwrite."""
        more = {"mode": "overwrite", "predicate": predicate} if predicate else {"mode": "append"}
        write_deltalake(self.place, given, **more)  # type: ignore[call-overload]

    def states(self) -> dict[str, State]:
        """The state of each day that has a receipt."""
        pipeline = chosen_pipeline(self.lake)
        states = pipeline.states(read_view(self.lake, pipeline.contracts))
        return {str(d): states.of("orders", d) for d in states.view.table("orders").latest}

    def look(self) -> Observation:
        """Look at what others wrote."""
        contracts = chosen_pipeline(self.lake).contracts
        return observe_table(self.lake, contracts, contracts[0])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def shared(tmp_path: Path) -> World:
    """An adopted table that others may write."""
    made = World(tmp_path, tables={"orders": {"others_may_write": True}})
    made.adopt()
    return made


COLUMNS = {"day": "DATE", "id": "STRING", "amount": "BIGINT"}


def test_one_commit_gives_each_day_a_receipt_and_touches_no_file_once(world: World) -> None:
    before = world.data()
    assert world.adopt(note="from the old job") == AdoptedTable("orders", 2, (D1, D2), 3)
    assert world.adopt() == AdoptedTable("orders", 2, (D1, D2), 3)
    opened = DeltaTable(world.place)
    assert (world.data(), opened.version()) == (before, 2)
    receipt = world.lake.store.receipt("orders", 2)
    assert receipt is not None
    assert (receipt.reason, receipt.note, receipt.tags[BY]) == (ADOPT, "from the old job", whoami())
    said = {d: (e.rows, dict(e.columns or {})) for d, e in receipt.days.items()}
    assert said == {D1: (2, COLUMNS), D2: (1, COLUMNS)}
    assert world.states() == {str(D1): State.FRESH, str(D2): State.FRESH}
    assert [r["amount"] for r in rows_of(world.lake, "orders", D1)] == [1, 2]
    properties = opened.metadata().configuration
    assert properties["delta.enableExpiredLogCleanup"] == "false"
    assert properties["delta.deletedFileRetentionDuration"] == "interval 90 days"
    with pytest.raises(
        BackfillError, match=f"a lake has adopted it already .*by the lake {world.lake.root}"
    ):
        world.adopt(world.another("second"))


def test_a_table_of_months_is_adopted_as_one_and_months_that_others_write_are_judged(
    tmp_path: Path,
) -> None:
    january, february, march = (date(2024, n, 1) for n in (1, 2, 3))
    world = World(tmp_path, tables={"orders": {"others_may_write": True}})
    world.write(rows((january, "a", 1), (february, "a", 2)), predicate="true")
    month = Calendar(Unit.MONTH)
    wanted = Adoption("orders", str(world.place), "day", ("id",), every=month)
    adopted = adopt_table(world.lake, wanted, chosen_pipeline(world.lake).contracts)
    assert "orders: 2 month(s), 2024-01-01, 2024-02-01, 2 row(s)" in str(adopted)
    (contract,) = chosen_pipeline(world.lake).contracts
    assert (contract.calendar, contract.first_day) == (month, january)
    assert world.states() == {str(january): State.FRESH, str(february): State.FRESH}
    world.write(rows((march, "a", 4)))
    assert world.look().days == (march,)
    world.write(rows((date(2024, 3, 15), "a", 4)))
    with pytest.raises(BackfillError, match="2024-03-15: it names no partition: every month"):
        world.look()


def test_a_log_whose_beginning_was_cleaned_is_adopted(world: World) -> None:
    opened = DeltaTable(world.place)
    opened.create_checkpoint()
    (world.place / "_delta_log" / f"{0:020d}.json").unlink()
    world.adopt()
    found = inspect_table(
        world.lake, chosen_pipeline(world.lake).contracts[0], read=True, deep=True
    )
    assert (found.commits, found.files, found.rows, found.lacking, found.lost) == (1, 2, 3, (), 0)
    assert (found.checkpoints_torn, found.foreign, found.day_rows) == (False, (), {D1: 2, D2: 1})


class Meeting(list[Contract]):
    """Asked for once the table was read and before it is adopted: then both calls wait, and neither
    holds its lock."""

    def __init__(self, lake: Lake, both: Barrier) -> None:
        self.lake, self.both = lake, [both]

    def __iter__(self) -> Iterator[Contract]:
        while self.both:
            if self.lake.place.is_store:
                self.lake.place.delete(f"{LOCKS}/orders.lock")
            self.both.pop().wait(timeout=60)
        return super().__iter__()


def in_folders(_: str, folder: Path, by: str | None) -> tuple[str, list[Lake]]:
    world = World(folder, by=by)
    return str(world.place), [world.lake, world.another("second")]


def in_a_bucket(address: str, folder: Path, by: str | None, *names: str) -> tuple[str, list[Lake]]:
    bucket, lakes = address.removesuffix("/lake"), list[Lake]()
    for day in (D1, D2):
        write_deltalake(f"{bucket}/theirs", rows((day, "a", 1)), partition_by=by, mode="append")
    for number, name in enumerate(names or ("one", "two")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(STATE_VARIABLE, str(folder / str(number)))
            root = local_root(f"{bucket}/{name}")
        place_at(root).write(FILE_NAME, f"start_date = {D1}\nassets_only = true\n".encode())
        lakes.append(open_lake(root))
    return f"{bucket}/theirs", lakes


def one_lake_of_two_machines(address: str, folder: Path, by: str | None) -> tuple[str, list[Lake]]:
    return in_a_bucket(address, folder, by, "lake", "lake")


@pytest.mark.parametrize("by", ["day", None])
@pytest.mark.parametrize("where", [in_folders, in_a_bucket, one_lake_of_two_machines])
def test_of_two_calls_at_once_one_adopts_it(
    where: Callable[..., tuple[str, list[Lake]]],
    by: str | None,
    bucket_address: str,
    tmp_path: Path,
) -> None:
    (there, lakes), both = where(bucket_address, tmp_path, by), Barrier(2)

    def said(lake: Lake) -> str:
        try:
            return str(
                adopt_table(lake, Adoption("orders", there, "day", ("id",)), Meeting(lake, both))
            )
        except BackfillError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        one, two = sorted(pool.map(said, lakes))
    assert one.startswith("adopted    orders: 2 day(s), 2024-01-01..2024-01-02")
    assert (
        two == one if where is one_lake_of_two_machines else "a lake has adopted it already" in two
    )


def test_what_a_killed_call_left_is_no_obstacle(world: World) -> None:
    mark = world.place / "_delta_log" / adoption_mark(2)
    mark.touch()  # it was killed before its commit, and others wrote meanwhile
    world.write(rows((D3, "c", 8)))
    assert world.adopt().version == 3
    assert [c.version for c in world.lake.store.commits("orders")] == [3]


def test_a_call_that_was_killed_after_its_commit_goes_on(world: World) -> None:
    done = world.adopt()
    world.lake.table_place("orders").local().unlink()
    world.lake.place.delete(".assets/orders.json")
    assert world.adopt() == done
    assert find_declared(world.lake.place, "orders") is not None
    assert world.lake.store.head("orders") == 2


def test_a_table_of_a_lake_that_is_no_more_has_no_day_of_that_lake(world: World) -> None:
    for number in range(KEEP_EVERY):
        world.write(rows((D3, f"k{number}", number)))
    world.adopt()
    table = world.lake.table_place("orders")
    keep_state(table, "day", LOGS.state(table, "day"))
    shutil.rmtree(world.lake.root)
    for file in (*(world.place / LOG).glob(".adopted.*"), world.place / LOG / ".head"):
        file.unlink(missing_ok=True)  # as the refusal of a second lake says
    DeltaTable(world.place).delete(f"day = '{D1}'")
    other = world.another("other")
    world.adopt(other)
    assert {*LogCache().state(other.table_place("orders"), "day").latest} == {D2, D3}


def test_writes_of_others_stay_an_alarm(world: World) -> None:
    world.adopt()
    world.write(rows((D2, "z", 9)))
    world.write(rows((D1, "a", 1), (D1, "b", 2)), "day = '2024-01-01'")
    assert world.states() == {str(D1): State.STALE, str(D2): State.STALE}
    assert observe_tables(world.lake, chosen_pipeline(world.lake).contracts) == ([], [])


def test_days_that_others_may_write_are_judged(shared: World) -> None:
    shared.write(rows((D2, "b", 9), (D3, "c", 8)))
    assert (
        unseen_version(shared.lake, chosen_pipeline(shared.lake).contracts[0])
        == "version 3, by others"
    )
    found = shared.look()
    assert found == Observation("orders", 4, (D2, D3), is_adopted=True)
    assert (
        str(found)
        == "adopted    orders: version 4 there, rows of 2024-01-02..2024-01-03 are new or others"
    )
    assert set(shared.states().values()) == {State.FRESH}
    receipt = shared.lake.store.receipt("orders", 4)
    assert receipt is not None
    assert (receipt.reason, {d: e.rows for d, e in receipt.days.items()}) == (JUDGE, {D2: 2, D3: 1})
    assert (receipt.tags["made with"], receipt.tags[BY]) == (FROM_NOTHING, whoami())
    assert (shared.look(), shared.lake.store.head("orders")) == (
        Observation("orders", 4, is_adopted=True),
        4,
    )
    later = {
        after: [c.version for c in shared.lake.store.commits("orders", after)]
        for after in (-1, 2, 3)
    }
    assert later == {-1: [2, 3, 4], 2: [3, 4], 3: [4]}, (
        "versions of its history do not begin with 0"
    )


def test_a_table_that_others_put_back_to_before_it_was_adopted_keeps_its_log(shared: World) -> None:
    DeltaTable(shared.place).restore(0)
    assert not {*KEEPS_LOG} & {*DeltaTable(shared.place).metadata().configuration}
    assert shared.look().days == (D2,)
    assert KEEPS_LOG.items() <= DeltaTable(shared.place).metadata().configuration.items()
    assert set(shared.states().values()) == {State.FRESH}
    assert (shared.look().days, shared.lake.store.view("orders", "day").foreign) == (
        (),
        frozenset(),
    )


def test_what_others_write_while_their_days_are_judged_is_judged_too(shared: World) -> None:
    shared.write(rows((D2, "b", 9)))
    more = iter([rows((D2, "c", 8))])

    class Slow(list[Contract]):
        def __iter__(self) -> Iterator[Contract]:  # asked for once the days to judge are known
            for late in more:
                shared.write(late)
            return super().__iter__()

    contracts = Slow(chosen_pipeline(shared.lake).contracts)
    assert observe_table(shared.lake, contracts, contracts[0]).days == (D2,)
    assert (
        shared.lake.store.view("orders", "day").latest[D2].entry.rows
        == len(rows_of(shared.lake, "orders", D2))
        == 3
    )


def test_a_day_that_breaks_the_key_stays_an_alarm_beside_good_ones(shared: World) -> None:
    shared.write(rows((D2, "a", 9), (D3, "c", 8)))
    with pytest.raises(BackfillError, match="others wrote days that break its rules: 2024-01-02"):
        shared.look()
    assert shared.states() == {str(D1): State.FRESH, str(D2): State.STALE, str(D3): State.FRESH}
    DeltaTable(shared.place).delete("day = '2024-01-02'")
    assert shared.look().days == (D2,)
    assert shared.lake.store.view("orders", "day").latest[D2].entry.rows == 0, "others emptied it"


def test_a_closed_day_that_others_write_stays_an_alarm_until_its_rows_are_back(
    shared: World,
) -> None:
    shared.lake.store.commit_alone(closure_receipt("orders", D2, "reported", {}, opens=False))
    shared.write(rows((D1, "late", 7), (D3, "c", 8)))
    with pytest.raises(BackfillError, match=r"closed: 2024-01-01\. It was not accepted\. .*reopen"):
        shared.look()
    latest = shared.lake.store.view("orders", "day").latest
    assert {day: found.entry.rows for day, found in latest.items()} == {D1: 2, D2: 1, D3: 1}
    shared.write(rows((D1, "b", 2), (D1, "a", 1)), "day = '2024-01-01'")
    assert shared.look().days == (D1,)
    assert shared.lake.store.view("orders", "day").foreign == frozenset()


def test_no_run_makes_a_day_over_what_others_may_write_unless_it_is_asked_for(
    shared: World,
) -> None:
    shared.write(rows((D2, "a", 9), (D3, "a", 8), (D3, "a", 9)))
    pipeline = chosen_pipeline(shared.lake)
    assert (
        needed_days(pipeline.states(read_view(shared.lake, pipeline.contracts)))["orders"] == set()
    )
    with pytest.raises(
        BackfillError, match=r"break its rules: 2024-01-02: .*2024-01-03: .*or make them anew"
    ):
        shared.look()
    states = pipeline.states(read_view(shared.lake, pipeline.contracts))
    assert states.of("orders", D2) == State.STALE
    assert not needed_days(states)["orders"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (rows((None, "x", 1)), "have no day"),
        (rows((D3, "c", 1)).append_column("colour", pa.array(["red"])), "others gave it colour"),
        (
            rows((D3, "c", 1)).set_column(2, "amount", pa.array(["1"])),
            "others gave it amount as STRING",
        ),
    ],
)
def test_what_no_day_of_the_table_can_hold_is_named(
    shared: World, given: pa.Table, words: str
) -> None:
    write_deltalake(shared.place, given, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(BackfillError, match=words):
        shared.look()


def test_the_mark_and_the_link_are_all_that_is_new(world: World) -> None:
    before = {*Folder(str(world.place)).below()}
    world.adopt()
    new = {*Folder(str(world.place)).below()} - before
    assert new == {f"_delta_log/{name}" for name in (adoption_mark(2), f"{2:020d}.json", ".head")}
    assert world.lake.table_place("orders").local().readlink() == world.place
    with pytest.raises(
        BackfillError, match="orders is read from the folder of others by a link, which no copy has"
    ):
        copy_lake(world.lake, world.folder / "copy")
