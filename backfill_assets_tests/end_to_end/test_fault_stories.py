"""Any story in which exceptions are raised at chance moments of any write ends as a lake that was
made at once.

Tested here: interrupts, SIGTERM, no memory and four errors of the disk, raised at a line of the
product that chance chooses, while a day lands and is loaded, tables are made, plans run, are put
back and released, snapshots are made and dropped, stagings are swept, torn logs are mended. After
each the lake opens and no file that a log names is gone. No engine: what Spark would compute
follows by arithmetic (`test_plan_stories`). Not tested here: kills (`test_plan_killed`,
`kernel.tables.test_commit_steps`). The big run, 1,000 stories, in one command:

    python -m backfill_assets_tests.thorough fault-stories
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, event, given, note, settings
from hypothesis import strategies as st

from backfill_assets.candidates.snapshots import SnapshotRequest, create_snapshot, drop_snapshot
from backfill_assets.intake import scan
from backfill_assets.intake.landed_days import append_events
from backfill_assets.intake.ledger import ARRIVALS, FILES, LANDED, QUARANTINE, read_files
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.staging import marker_folder, sweep_writes
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets.plans.files import find_plan
from backfill_assets.plans.rollback import RollbackRequest, release_days
from backfill_assets.reading.kept_snapshots import find_snapshot, kept_file_path, snapshot_names
from backfill_assets.upkeep.inspection import inspect_table, mend_table
from backfill_assets_tests.builders import day
from backfill_assets_tests.end_to_end import test_plan_stories as plans
from backfill_assets_tests.end_to_end.test_plan_stories import EVERY_DAY, SAID, Draw
from backfill_assets_tests.faults import ERRORS, RAISED, end_process, raising_at
from backfill_assets_tests.files import Cells, stage_by_hand
from backfill_assets_tests.logs import commit_file, versions
from backfill_assets_tests.planned import BUILT, DAYS
from backfill_assets_tests.synthetic import arrival

pytestmark = pytest.mark.long

STORIES = int(os.environ.get("BACKFILL_ASSETS_STORIES", "10"))
# Where lines are counted: the narrow way of a commit, or all of the product that a story runs
# through.
COMMITTING = (
    "kernel/tables/staging",
    "kernel/tables/committer",
    "kernel/tables/store",
    "kernel/tables/query_files",
    "plans/restore",
    "upkeep/inspection",
    "kernel/place/folder",
)
EVERYWHERE = ("lake/", "load/", "operations/")
SCANNED = datetime(2024, 3, 1, tzinfo=UTC)


@dataclass
class World(plans.World):
    """A lake into which days are loaded as the product does: `files`, `quarantine`, `raw`, then
    `arrivals`."""

    snapshots: int = field(default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.catch_up()

    @property
    def contracts(self) -> tuple[Contract, ...]:
        return (*self.pipeline.contracts, ARRIVALS, FILES, QUARANTINE)

    def land(self, number: int, value: int) -> None:
        """Another delivery for a day, in the place of the one before."""
        self.landed[number] = value
        self.load()

    def load(self) -> None:
        """Whatever is not loaded yet, each ledger and table by what its receipts say."""
        self._scan()
        states = self.states()
        days = [d for d in EVERY_DAY if not states.is_settled("raw", d)]
        if days:
            self._write(QUARANTINE, [self._refused(d) for d in days], dict.fromkeys(days, ""))
            rows = [{"entity": "A", "value": self._value(d), "arrival_date": d} for d in days]
            self._write(self.contract("raw"), rows, {d: states.digests.of("raw", d) for d in days})
        source = read_view(self.lake, self.pipeline.contracts).source("raw")
        doubted = bool(source.doubted_arrivals())
        moved = {d for d, r in source.loaded.latest.items() if r.version > source.loaded_version}
        if moved or doubted:
            days = sorted(source.loaded.latest if doubted else moved)
            said = Provenance("test", inputs={"raw": source.loaded.version})
            rows = [arrival(d, self._content(d)) for d in days]
            self._write(ARRIVALS, rows, dict.fromkeys(days, ""), said, force=doubted)

    def _scan(self) -> None:
        known = {r.path: r.sha256 for r in read_files(self.lake.store) if not r.withdrawn}
        wanted = {f"{d}.jsonl": self._content(d) for d in EVERY_DAY}
        gone = [
            r for r in read_files(self.lake.store) if not r.withdrawn and wanted[r.path] != r.sha256
        ]
        append_events(self.lake, scan._withdrawal_events(gone, SCANNED, "test"), "scan", "")
        days = [d for d in EVERY_DAY if known.get(f"{d}.jsonl") != self._content(d)]
        append_events(self.lake, [self._landed(d) for d in days], "scan", "")

    def _landed(self, of: date) -> tuple[object, ...]:
        now = datetime.now(UTC)
        common = (1, 0, 1, 10, 5, SCANNED, of, now, "digest", None)
        return (LANDED, f"{of}.jsonl", self._content(of), of, *common)

    def _value(self, of: date) -> int:
        return self.landed[(of - day(0)).days]

    def _content(self, of: date) -> str:
        return f"F-{of}-{self._value(of)}"

    def _refused(self, of: date) -> Cells:
        text = str(self._value(of))
        return {
            "arrival_date": of,
            "source_file": "sha",
            "row_number": 1,
            "text": text,
            "reason": "not JSON",
        }

    def _write(
        self,
        contract: Contract,
        rows: Sequence[Cells],
        digests: dict[date, str],
        said: Provenance | None = None,
        force: bool = False,
    ) -> None:
        staged = stage_by_hand(self.lake, contract, rows)
        try:
            found = audit_files(self.lake, staged.paths, contract)
            entries = {
                d: DayEntry(found[d].rows, found[d].fingerprint, digests[d]) for d in digests
            }
            version = self.lake.store.view(contract.name, contract.day_column).version
            write = Write(
                contract, staged, entries, version, said or self._signed(), bool(said), force
            )
            replace_days(self.lake, write, lambda days: {d: digests[d] for d in days})
        finally:
            staged.drop()

    def _signed(self) -> Provenance:
        codes = self.pipeline.codes["raw"]
        return Provenance(
            "test", code_digest=codes.code_digest, settings_digest=codes.settings_digest
        )

    def catch_up(self) -> None:
        """Load what is not loaded, then make what is not right."""
        self.load()
        super().catch_up()

    def refuse_damage(self) -> None:
        """The lake opens, and of everything that it names nothing is gone."""
        self.states()
        for contract in self.contracts:
            found = inspect_table(self.lake, contract)
            damage = (
                found.absent,
                found.altered,
                found.torn,
                found.lacking,
                found.checkpoints_torn,
            )
            assert not any(damage), (contract.name, damage)
        for name in snapshot_names(self.lake):
            for kept in find_snapshot(self.lake, name).tables.values():
                assert all(kept_file_path(self.lake, name, kept, file) for file in kept.files)
        for plan in self.plans:
            assert find_plan(self.lake, plan.id) == plan

    def end_process(self) -> None:
        """What ends with a process ends: its locks and holds."""
        end_process(self.root)


def snapping(draw: Draw, world: World) -> None:
    world.snapshots += 1
    create_snapshot(*world.open(), SnapshotRequest(f"s{world.snapshots}", BUILT, unfit="take"))


def dropping(draw: Draw, world: World) -> None:
    if names := snapshot_names(world.lake):
        drop_snapshot(world.lake, draw(st.sampled_from(names)))


def sweeping(draw: Draw, world: World) -> None:
    sweep_writes(world.lake, draw(st.sampled_from([c.name for c in world.contracts])))


def tearing(draw: Draw, world: World) -> None:
    """A power cut tears the newest commit of the lake; all others were on the disk before it
    began."""
    tables = [(c, world.lake.table_place(c.name).local()) for c in world.contracts]
    newest = [(c, commit_file(path, versions(path)[-1])) for c, path in tables if versions(path)]
    contract, file = max(newest, key=lambda found: found[1].stat().st_mtime_ns)
    file.write_bytes(file.read_bytes()[: draw(st.integers(0, 40))])
    mend_table(world.lake, contract, SAID)


def losing(draw: Draw, world: World) -> None:
    """A ledger loses a data file."""
    contract = (FILES, ARRIVALS)[draw(st.integers(0, 1))]
    if files := world.lake.store.data_files(contract):
        Path(draw(st.sampled_from(sorted(files)))).unlink()
        mend_table(world.lake, contract, SAID)


EVENTS: tuple[Callable[[Draw, World], None], ...] = (
    plans.landing,
    plans.landing,
    plans.landing,
    plans.correction,
    plans.planning,
    plans.going_on,
    plans.rolling_back,
    plans.releasing,
    plans.catching_up,
    plans.catching_up,
    snapping,
    dropping,
    sweeping,
    tearing,
    losing,
)


DAMAGING = (tearing, losing)


def mended(world: World) -> None:
    """What a person does whom an error tells so, where a command to mend was itself broken off."""
    for contract in world.contracts:
        with suppress(BackfillError):
            mend_table(world.lake, contract, SAID)


@st.composite
def moments(draw: st.DrawFn) -> tuple[int, tuple[str, ...]]:
    """A line that raises (0: none does), and where lines are counted."""
    if draw(st.booleans()):
        return draw(st.integers(1, 1000)), COMMITTING
    return draw(st.sampled_from([0, 30, 300, 3000])) * draw(st.integers(1, 10)) // 10, EVERYWHERE


# A generator that is being thrown away meets the exception, too; there Python ignores it, and
# pytest would not.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("storages")
@settings(
    max_examples=STORIES,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    print_blob=True,
    deadline=None,
)
@given(st.data())
def test_any_story_of_exceptions_ends_as_a_lake_that_was_made_at_once(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder).resolve() / "lake")
        for happens in data.draw(st.lists(st.sampled_from(EVENTS), min_size=3, max_size=8)):
            line, rooms = data.draw(moments())
            kind = data.draw(st.sampled_from(sorted(ERRORS)))
            with suppress(BackfillError, *RAISED), raising_at(line, rooms, ERRORS[kind]) as met:
                happens(data.draw, world)
            if met.error:
                note(f"{happens.__name__}: {kind} at {met.place}")
                event(f"{kind} in {happens.__name__}")
                world.end_process()
            if happens in DAMAGING:
                mended(world)
            world.refuse_damage()
        for table in BUILT:
            with suppress(BackfillError):
                release_days(*world.open(), RollbackRequest(table=table, days=EVERY_DAY), SAID)
        world.catch_up()
        as_made_at_once(world)


def as_made_at_once(world: World) -> None:
    """All days are right and fresh, and there is nothing besides."""
    lake, pipeline = world.open()
    states = pipeline.states(read_view(lake, pipeline.contracts))
    assert world.values("raw") == [world.landed[n] for n in range(DAYS)]
    refused = {r["arrival_date"]: r["text"] for r in lake.store.rows(QUARANTINE.name)}
    assert refused == {day(n): str(v) for n, v in world.landed.items()}
    for table in BUILT:
        assert world.values(table) == [world.right(table, n) for n in range(DAYS)]
        assert {states.of(table, d) for d in EVERY_DAY} == {State.FRESH}
    for contract in world.contracts:
        sweep_writes(lake, contract.name)
        folder = lake.root / marker_folder(contract.name)
        assert not (folder.is_dir() and list(folder.iterdir())), contract.name
        was_torn = any(
            (lake.table_place(contract.name).local() / "_delta_log").glob("*.torn")
        )  # its files are kept, too
        assert was_torn or inspect_table(lake, contract).lost == 0, contract.name
