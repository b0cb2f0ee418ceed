"""One lake in the story's store, and what commands of the package do to it.

Here: opening it from a process, landing, loading, making days, runs with their signs of life, and
what the tables must hold. Not here: who does what and when (`actors`), and judging (`judge`).
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from backfill_assets.intake import scan
from backfill_assets.intake.landed_days import append_events
from backfill_assets.intake.ledger import ARRIVALS, LANDED, read_files
from backfill_assets.kernel.core.contracts import Input, InputKind
from backfill_assets.kernel.core.days import DayRange, some_days
from backfill_assets.kernel.core.needs import needed_days
from backfill_assets.kernel.core.profiles import EMPTY_FINGERPRINT
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.states import Codes
from backfill_assets.kernel.core.view import LakeView
from backfill_assets.kernel.log.run_markers import drop_marker, mark_run
from backfill_assets.kernel.place.port import RUNS, load_lock
from backfill_assets.kernel.tables.home import Lake, read_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline, Table
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.kernel.write.replace import DigestsNow, Write, replace_days
from backfill_assets.reading.claims import days_of_active_plans
from backfill_assets_tests.builders import CONTRACTS, WINDOW, contract, day
from backfill_assets_tests.files import SMALLEST, Cells, stage_by_hand
from backfill_assets_tests.simulation.engine import CODE_STEP, Row, Session, event_day, event_name
from backfill_assets_tests.simulation.scheduler import COMPUTES, Process, Scheduler
from backfill_assets_tests.simulation.store import Store
from backfill_assets_tests.synthetic import arrival

DAYS = 4
EVERY_DAY = DayRange(day(0), day(DAYS))
RAW = "raw"
RAW_CONTRACT = next(c for c in CONTRACTS if c.name == RAW)
# Tables of sums by event day, each with the table that is made from it.
PAIRS = (("staging", "features"), ("sums", "trends"))
ASSET = "given"  # the table of an asset, made as the second one of the first pair is
EXPORTS = "exports"  # where exports go, in the lake
MORE_CONTRACTS = (
    contract(ASSET, "feature_date", Input("staging", before=WINDOW - 1)),
    contract("sums", "event_date", Input(RAW, kind=InputKind.ARRIVALS)),
    contract("trends", "feature_date", Input("sums", before=WINDOW - 1)),
)
LAKE = "lake"  # the lake's prefix in the bucket
SECONDS_COMPUTED = (0.1, 3.0, 20.0, 150.0, 400.0)
SCANNED = datetime(2024, 3, 1, tzinfo=UTC)
Opened = tuple[Lake, Pipeline]


@dataclass(frozen=True)
class Reading:
    """What a reader saw: versions and rows by table, and the newest entry before and after."""

    seen: Mapping[str, int]
    rows: Mapping[str, list[Row]]
    before: int
    after: int
    running: frozenset[str]  # the runs that went on all the time, and whose processes were well


@dataclass
class World:
    """The lake and what landed for it: per arrival day the numbers of event days."""

    store: Store
    folder: Path  # of machines
    pairs: Sequence[tuple[str, str]] = PAIRS[:1]  # the tables that ticks make
    has_asset: bool = False  # whether the table of an asset is made
    landed: dict[int, dict[int, int]] = field(
        default_factory=lambda: {n: {n: 2} for n in range(DAYS)}
    )
    code: int = 0  # the version that is installed everywhere
    readings: list[Reading] = field(default_factory=list)
    running: dict[str, Process] = field(default_factory=dict)  # of each run that has not ended
    entries: dict[str, bytes] = field(default_factory=dict)  # of the lake's log, as written
    # Those that were deleted, and when, by the clock of the machine that did it.
    thinned: dict[str, float] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)  # tables
    forgotten: set[str] = field(default_factory=set)  # entities
    # Made to their end; of snapshots those that nobody began to drop.
    candidates: set[str] = field(default_factory=set)
    snapshots: set[str] = field(default_factory=set)

    @property
    def scheduler(self) -> Scheduler:
        """Who runs when."""
        return self.store.scheduler

    def __post_init__(self) -> None:
        self.store.watch = self._seen

    @property
    def built(self) -> tuple[str, ...]:
        """The tables that ticks make, each after what it is made from."""
        return tuple(table for pair in self.pairs for table in pair)

    @property
    def tables(self) -> tuple[str, ...]:
        """These, and the table of an asset."""
        return (*self.built, *([ASSET] if self.has_asset else []))

    def _seen(self, key: str, content: bytes | None) -> None:
        """Keep the entries of the lake's log, of which none may be changed."""
        if not key.startswith(f"{LAKE}/.versions/"):
            return
        if content is None:
            self.thinned[key] = self.scheduler.local_now
        else:
            assert self.entries.setdefault(key, content) == content, f"{key} is changed"

    def well_runs(self) -> frozenset[str]:
        """The runs that go on, of processes that were never paused."""
        return frozenset(
            run for run, p in self.running.items() if p.is_alive and not p.paused_until
        )

    def begin(self) -> None:
        """Write the lake's settings."""
        self.store.put(None, f"{LAKE}/{FILE_NAME}", SMALLEST.encode())

    def open(self) -> Opened:
        """The lake as the process that runs opens it."""
        machine = self.folder / self.scheduler.process.machine.name
        lake = read_lake(machine / "backfill_assets" / "buckets" / f"s3@sim@{LAKE}")
        return lake, self.pipeline(self.code)

    def pipeline(self, code: int) -> Pipeline:
        """The tables, by a version of the code."""
        codes = Codes(f"code-{code}", "settings-1")
        used = [c for c in (*CONTRACTS, *MORE_CONTRACTS) if c.name in (RAW, *self.tables)]
        return Pipeline(tuple(Table(c) for c in used), {c.name: codes for c in used})

    def right(self, table: str, number: int) -> int:
        """The number that a day of a table holds in a lake that is made at once."""
        above = {ASSET: "staging", **{b: a for a, b in self.pairs}}.get(table)
        if above is None:
            given = sum(numbers.get(number, 0) for numbers in self.landed.values())
            return given + CODE_STEP * self.code
        return sum(self.right(above, n) for n in range(max(number - WINDOW + 1, 0), number + 1))

    def forget_landed(self, name: str) -> None:
        """Take what was delivered of an entity out of all files, and let nothing of it in."""
        self.forgotten.add(name)
        number = (event_day(name) - day(0)).days
        self.landed = {
            d: {n: v for n, v in numbers.items() if n != number}
            for d, numbers in self.landed.items()
        }

    def content(self, of: date) -> str:
        """The digest of the file of an arrival day."""
        return f"F-{of}-{sorted(self.landed[(of - day(0)).days].items())}"

    @contextmanager
    def run(self, lake: Lake, pipeline: Pipeline, why: str) -> Iterator[str]:
        """A run as Dagster's adapter ends and marks it; gives its id."""
        run_id = uuid.uuid4().hex
        marker = f"{RUNS}/site/{run_id}"
        mark_run(lake.place, marker)
        self.running[run_id] = self.scheduler.process
        try:
            yield run_id
        finally:
            self.running.pop(run_id)
            drop_marker(lake.place, marker)
            record_versions(lake, pipeline.contracts, why, run_id, "ann@desk")

    def load(self, lake: Lake, pipeline: Pipeline, run_id: str) -> None:
        """Whatever is not loaded yet, in the order of the package's load: `files`, raw,
        `arrivals`."""
        with load_lock(lake.place):
            self._scan(lake)
            states = pipeline.states(read_view(lake, pipeline.contracts))
            days = [d for d in EVERY_DAY if not states.is_settled(RAW, d)]
            if days:
                digests = {d: states.digests.of(RAW, d) for d in days}
                landed = states.view.source(RAW).landed  # as the ledger says
                rows = [row for d in days if d in landed for row in self._raw_rows(d)]
                said = self._signed(pipeline, run_id)
                write = self._staged(lake, states.view, RAW, rows, digests, said)
                self._commit(lake, write, lambda days: _digests_now(lake, pipeline, days))
            self._name_arrivals(lake, pipeline, run_id)

    def _name_arrivals(self, lake: Lake, pipeline: Pipeline, run_id: str) -> None:
        """Bring the ledger `arrivals` up to raw."""
        view = read_view(lake, pipeline.contracts)
        source = view.source(RAW)
        loaded = source.loaded
        moved = [d for d, r in loaded.latest.items() if r.version > source.loaded_version]
        if not moved:
            return
        said = Provenance("load", run_id, inputs={RAW: loaded.version})
        delivered = lake.store.rows(RAW, loaded.version)
        rows = [_arrival(row) for row in delivered if row["arrival_date"] in moved]
        digests = {d: loaded.latest[d].entry.fingerprint for d in moved}
        write = self._staged(lake, view, ARRIVALS.name, rows, digests, said)
        write = replace(write, always=True, alone=True)
        self._commit(lake, write, lambda days: {d: digests[d] for d in days})

    def _scan(self, lake: Lake) -> None:
        files = [r for r in read_files(lake.store) if not r.withdrawn]
        wanted = {f"{d}.jsonl": self.content(d) for d in EVERY_DAY}
        gone = [r for r in files if wanted[r.path] != r.sha256]
        known = {r.path: r.sha256 for r in files}
        new = [d for d in EVERY_DAY if known.get(f"{d}.jsonl") != self.content(d)]
        events = [self._landed(d) for d in new]
        if gone:
            append_events(lake, scan._withdrawal_events(gone, SCANNED, "test"), "scan", "")
        if events:
            append_events(lake, events, "scan", "")

    def _landed(self, of: date) -> tuple[object, ...]:
        rows = len(self.landed[(of - day(0)).days])
        common = (rows, 0, rows, 10, 5, SCANNED, of, SCANNED, "digest", None)
        return (LANDED, f"{of}.jsonl", self.content(of), of, *common)

    def _raw_rows(self, of: date) -> list[Cells]:
        numbers = self.landed[(of - day(0)).days]
        return [
            {"entity": event_name(day(n)), "value": v, "arrival_date": of}
            for n, v in sorted(numbers.items())
        ]

    def _staged(
        self,
        lake: Lake,
        view: LakeView,
        table: str,
        rows: Sequence[Cells],
        digests: Mapping[date, str],
        said: Provenance,
    ) -> Write:
        """A write of rows that were made from what a view shows, staged."""
        contract = ARRIVALS if table == ARRIVALS.name else RAW_CONTRACT
        staged = stage_by_hand(lake, contract, rows)
        try:
            found = audit_files(lake, staged.paths, contract)
        except BaseException:
            staged.drop()
            raise
        entries = {d: DayEntry(0, EMPTY_FINGERPRINT, digests[d]) for d in digests}
        for d in digests.keys() & found.keys():
            entries[d] = DayEntry(found[d].rows, found[d].fingerprint, digests[d])
        return Write(contract, staged, entries, view.table(table).version, said)

    def _commit(self, lake: Lake, write: Write, digests_now: DigestsNow) -> None:
        assert write.staged is not None
        try:
            replace_days(lake, write, digests_now)
        finally:
            write.staged.drop()

    def _signed(self, pipeline: Pipeline, run_id: str) -> Provenance:
        codes = pipeline.codes[RAW]
        return Provenance(
            "load", run_id, code_digest=codes.code_digest, settings_digest=codes.settings_digest
        )

    def make(
        self,
        opened: Opened,
        table: str,
        days: Collection[date],
        said: Provenance,
        force: bool = False,
    ) -> None:
        """Make days of a table as a run does (steps 12 to 19). Raises what a run raises."""
        lake, pipeline = opened
        known, session = KnownStates(lake, pipeline), self.session(opened, table)
        self.publish(
            RebuildRequest(session, known, pipeline.table(table), some_days(days), said, force)
        )

    def session(self, opened: Opened, table: str) -> Any:
        """The engine with the code of a table."""
        lake, pipeline = opened
        code = int(pipeline.codes[table].code_digest.removeprefix("code-"))
        return Session(lake, code, self.scheduler.stop, self.compute)

    def publish(self, request: RebuildRequest) -> None:
        """Compute and publish. Raises what a run raises."""
        rebuild = Rebuild(request)
        try:
            if any(f.refuses for f in rebuild.prepare()):
                raise rebuild.refusal()
            rebuild.publish()
        finally:
            rebuild.release()

    def compute(self) -> None:
        """The engine takes its time, in which others go on."""
        self.scheduler.reach(COMPUTES)
        many = len(SECONDS_COMPUTED)
        self.scheduler.wait(SECONDS_COMPUTED[self.scheduler.choices.draw(many, 0.5)])

    def catch_up(self, opened: Opened, run_id: str) -> None:
        """What a tick for late data does: load, then make the days that are stale or missing, but
        those that a plan keeps for itself."""
        lake, pipeline = opened
        self.load(lake, pipeline, run_id)
        for table in self.built:
            states = pipeline.states(read_view(lake, pipeline.contracts))
            claimed = days_of_active_plans(lake).get(table, set[date]())
            days = needed_days(states)[table].intersection(EVERY_DAY) - claimed
            if days:
                self.make(opened, table, days, Provenance("late data", run_id))


def _digests_now(lake: Lake, pipeline: Pipeline, days: Iterable[date]) -> dict[date, str]:
    """What days of raw would be loaded from now."""
    digests = pipeline.states(read_view(lake, pipeline.contracts)).digests
    return {d: digests.of(RAW, d) for d in days}


def _arrival(row: Cells) -> dict[str, Any]:
    """The row of `arrivals` of a row of raw."""
    of = row["arrival_date"]
    fingerprint = f"F-{of}-{row['entity']}-{row['value']}"
    event = day(int(row["entity"].removeprefix("E")))
    return {**arrival(of, fingerprint), "event_date": event}
