"""Days put back to an earlier version and let go again: the very files and receipts of before, or
nothing at all. Not here: which days and versions a person means (`plans.test_rollback`), and
Spark (`end_to_end`)."""

import shutil
from collections import UserDict
from collections.abc import Callable, KeysView, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError, DaysHeld, Superseded
from backfill_assets.kernel.core.receipts import Built, Provenance
from backfill_assets.kernel.core.view import DayReceipt
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.committer import Conflict
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.plans.restore import (
    RestoreRequest,
    prepare_restore,
    release_partitions,
    restore_partitions,
)
from backfill_assets.reading.fitness import audit_as_written
from backfill_assets_tests.builders import RAW, STAGING, day, write_rows
from backfill_assets_tests.files import bare_lake, publish_by_hand
from backfill_assets_tests.logs import read_commit
from backfill_assets_tests.strategies import examples

pytestmark = pytest.mark.usefixtures("storages")

SAID = Provenance("rollback", note="why", tags={"plan": "p1", "chunk": "4"})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose table staging holds three days, of which the second was then written wrong
    (version 2)."""
    made = bare_lake(tmp_path / "it's a `lake`")
    publish_by_hand(made, STAGING, rows({0: 1, 1: 1, 2: 1}))
    publish_by_hand(made, STAGING, rows({1: 7}), digest="other")
    return made


def rows(values: Mapping[int, int]) -> list[dict[str, Any]]:
    return [{"entity": "A", "value": v, "event_date": day(n)} for n, v in values.items()]


def path_of(lake: Lake) -> Path:
    return lake.table_place("staging").local()


def latest(lake: Lake) -> Mapping[date, DayReceipt]:
    return LOGS.state(lake.table_place("staging"), "event_date").latest


def back(lake: Lake, targets: Mapping[date, int], said: Provenance = SAID) -> int | None:
    seen = {d: latest(lake)[d].version for d in targets}
    return restore_partitions(lake, RestoreRequest(STAGING, targets, seen), said)


def content(lake: Lake, version: int | None = None) -> dict[date, int]:
    found = DeltaTable(str(path_of(lake)), version=version).to_pyarrow_table().to_pylist()
    return {r["event_date"]: r["value"] for r in found}


def on_disk(root: Path) -> dict[str, int]:
    return {
        str(p): p.stat().st_mtime_ns
        for p in root.rglob("*")
        if p.is_file() and ".locks" not in p.parts
    }


def old_file(lake: Lake) -> Path:
    """The file that held the second day before it was written wrong."""
    named = {
        f.path
        for f in prepare_restore(lake, RestoreRequest(STAGING, {day(1): 1}, {day(1): 2})).adds
    }
    [path] = (path_of(lake) / name for name in named)
    return path


def gone(lake: Lake) -> None:
    old_file(lake).unlink()


def torn(lake: Lake) -> None:
    file = old_file(lake)
    file.write_bytes(file.read_bytes()[:-1])


def other_columns(lake: Lake) -> None:
    """The same size in other columns: only the footer tells."""
    file = old_file(lake)
    size = file.stat().st_size
    pq.write_table(pa.table({"entity": ["A"], "amount": [1]}), file)
    path = next(path_of(lake).glob("_delta_log/*1.json"))
    path.write_text(path.read_text().replace(f'"size":{size}', f'"size":{file.stat().st_size}'))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (gone, "gone or altered"),
        (torn, "gone or altered"),
        (other_columns, "the columns of .* are .*amount"),
    ],
)
def test_files_of_the_past_that_are_others_now_refuse_and_nothing_moves(
    lake: Lake, spoil: Any, told: str
) -> None:
    spoil(lake)
    before = on_disk(lake.root)
    with pytest.raises(BackfillError, match=told):
        back(lake, {day(1): 1})
    assert on_disk(lake.root) == before


def test_versions_that_are_none_foreign_rows_and_raw_are_refused(lake: Lake) -> None:
    with pytest.raises(BackfillError, match="it has no version 9"):
        back(lake, {day(1): 9})
    back(lake, {day(1): 1})
    write_rows(path_of(lake), STAGING, rows({1: 99}))
    with pytest.raises(BackfillError, match="another program wrote"):
        release_partitions(lake, STAGING, [day(1)], SAID)
    with pytest.raises(BackfillError, match="another program's"):
        back(lake, {day(1): 4})
    publish_by_hand(lake, RAW, [{"entity": "A", "value": 1, "arrival_date": day(1)}])
    with pytest.raises(BackfillError, match="what landed is never put back"):
        prepare_restore(lake, RestoreRequest(RAW, {day(1): 0}, {day(1): 1}))


def test_who_wrote_meanwhile_is_not_overwritten(lake: Lake) -> None:
    seen = {day(1): 2}
    publish_by_hand(lake, STAGING, rows({1: 8}), digest="newer")
    with pytest.raises(Superseded, match="were written while the rollback was decided"):
        restore_partitions(lake, RestoreRequest(STAGING, {day(1): 1}, seen), SAID)
    assert content(lake)[day(1)] == 8


@pytest.mark.parametrize("is_held", [False, True])
def test_what_another_program_writes_just_before_the_commit_is_not_signed_as_ours(
    lake: Lake, is_held: bool
) -> None:
    class Slow(UserDict[str, str]):
        def keys(self) -> KeysView[str]:  # looked for when the receipt is made
            write_rows(path_of(lake), STAGING, rows({1: 99}))
            return super().keys()

    if is_held:
        back(lake, {day(1): 1})
    said = replace(SAID, tags=Slow(plan="p1"))
    with pytest.raises(Conflict, match="wrote days meanwhile"):
        release_partitions(lake, STAGING, [day(1)], said) if is_held else back(
            lake, {day(1): 1}, said
        )
    assert LOGS.state(lake.table_place("staging"), "event_date").foreign == {day(1)}


@dataclass
class World:
    """What the table should hold at every version: a model of publishes, rollbacks and releases."""

    lake: Lake
    states: list[dict[int, int]]
    held: set[int] = field(default_factory=set)

    def publish(self, n: int, value: int) -> None:
        with pytest.raises(DaysHeld) if n in self.held else nullcontext():
            if publish_by_hand(self.lake, STAGING, rows({n: value}), digest=str(value)).write_id:
                self.states.append({**self.states[-1], n: value})

    def roll_back(self, n: int, to: int) -> None:
        if day(n) not in latest(self.lake):
            return
        at = to % len(self.states)
        if back(self.lake, {day(n): at}) is not None:
            then = {k: v for k, v in self.states[-1].items() if k != n}
            self.states.append(then | ({n: self.states[at][n]} if n in self.states[at] else {}))
        self.held.add(n)

    def release(self, n: int, _number: int) -> None:
        self.states += [
            self.states[-1] for _ in release_partitions(self.lake, STAGING, [day(n)], SAID)
        ]
        self.held.discard(n)


VERBS = (World.publish, World.roll_back, World.release)
steps = st.tuples(st.sampled_from(VERBS), st.integers(0, 2), st.integers(0, 12))


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(steps, min_size=3, max_size=8))
def test_after_any_steps_every_version_reads_as_it_was_and_a_rollback_undone_is_the_identity(
    tmp_path_factory: pytest.TempPathFactory,
    taken: list[tuple[Callable[[World, int, int], None], int, int]],
) -> None:
    lake = bare_lake(tmp_path_factory.mktemp("lake"))
    publish_by_hand(lake, STAGING, rows({0: 0, 1: 0}))
    world = World(lake, [{}, {0: 0, 1: 0}])
    for verb, n, number in taken:
        verb(world, n, number)
    for version, held in list(enumerate(world.states))[1:]:
        assert content(lake, version) == {day(n): v for n, v in held.items()}
    found = audit_table(lake, STAGING)  # DuckDB, over the files of the newest version
    for at, receipt in latest(lake).items():
        assert receipt.entry.fingerprint == (found[at].fingerprint if at in found else "0")
    shutil.rmtree(lake.root)


SCORE = Column("score", "BIGINT", "new", nullable=True)

WIDE = replace(STAGING, columns=(*STAGING.columns, SCORE))

REQUIRED = replace(STAGING, columns=(*STAGING.columns, replace(SCORE, nullable=False)))


@pytest.mark.parametrize(
    ("before", "after"),
    [(STAGING, WIDE), (WIDE, STAGING), (REQUIRED, STAGING), (STAGING, REQUIRED)],
)
def test_a_day_goes_back_across_a_column_that_was_added_or_dropped_and_forth_again(
    tmp_path: Path, before: Contract, after: Contract
) -> None:
    lake = bare_lake(tmp_path / "columns")
    for contract, value in ((before, 1), (after, 2)):
        wrote = [{c.name: value for c in contract.columns} | {"entity": "A", "event_date": day(0)}]
        publish_by_hand(lake, contract, wrote, digest=f"d{value}")
    known = {v: table_at(lake, v) for v in (1, lake.store.view("staging", "event_date").version)}
    for target, held in known.items():
        for contract in (after, before):
            seen = {day(0): latest(lake)[day(0)].version}
            restore_partitions(lake, RestoreRequest(contract, {day(0): target}, seen), SAID)
            assert table_at(lake) == held
        said = read_commit(lake.table_place("staging"), target).receipt
        assert said is not None
        release_partitions(lake, after, [day(0)], SAID)
        assert latest(lake)[day(0)].entry == said.days[day(0)]
        assert (
            audit_as_written(lake, after, [day(0)])[day(0)].fingerprint
            == said.days[day(0)].fingerprint
        )


def table_at(lake: Lake, version: int | None = None) -> list[dict[str, Any]]:
    """The rows, without what is NULL in them."""
    found = (
        DeltaTable(str(lake.table_place("staging").local()), version=version)
        .to_pyarrow_table()
        .to_pylist()
    )
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def test_a_day_gets_its_old_files_and_fingerprint_back_by_one_commit_and_is_held(
    lake: Lake,
) -> None:
    first, right = latest(lake)[day(0)].entry, read_commit(path_of(lake), 1).receipt
    assert back(lake, {day(1): 1}) == 3
    assert content(lake) == {day(0): 1, day(1): 1, day(2): 1}
    assert right is not None
    assert latest(lake)[day(1)].entry == replace(right.days[day(1)], built=Built.HELD)
    said = read_commit(path_of(lake), 3).receipt
    assert said is not None
    assert (said.reason, said.note, list(said.days)) == ("rollback", "why", [day(1)])
    assert said.tags == {"plan": "p1", "chunk": "4", "to_version": "1"}
    assert latest(lake)[day(0)].entry == first, "other days keep their receipts"
    assert back(lake, {day(1): 1}) is None, "once more, nothing moves"
