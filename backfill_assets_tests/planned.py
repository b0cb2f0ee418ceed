"""A small lake on disk, without an engine, whose tables were written whole and then by the chunks
of a plan. Here: `Planned`, with the pipeline of `builders` over real files. Not here: anything that
Spark computes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from backfill_assets.intake.ledger import ARRIVALS, FILES
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.readings import PARAMETERS, todays_parameters
from backfill_assets.kernel.core.receipts import DayEntry, Provenance, Receipt
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import TableView
from backfill_assets.kernel.log.log_state import LOGS
from backfill_assets.kernel.tables.committer import rewrite_files
from backfill_assets.kernel.tables.data_files import files_of_version
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.model import Pipeline, Table
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets.pipeline.lake_pipeline import pipeline_of
from backfill_assets.reading.claims import holding_plans
from backfill_assets_tests.builders import (
    CODE,
    CONTRACTS,
    STAGING,
    WINDOW,
    day,
    receipt,
    write_rows,
)
from backfill_assets_tests.copies import keep
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.logs import place_of
from backfill_assets_tests.synthetic import arrival, landed

DAYS = 8
BUILT = ("staging", "features")


@dataclass
class Planned:
    """Raw, staging and features of eight days, all fresh; `write` writes days of a table with some
    value."""

    root: Path
    lake: Lake = field(init=False)
    pipeline: Pipeline = field(init=False)
    names_inputs: bool = field(default=True, init=False)  # whether receipts of `write` do

    def __post_init__(self) -> None:
        keep(Planned.prepare).lay_out(self.root)
        self._open()

    @classmethod
    def reopened(cls, root: Path) -> "Planned":
        """The lake as another process made it."""
        self = cls.__new__(cls)
        self.root = root
        self._open()
        return self

    def _open(self) -> None:
        self.lake = bare_lake(self.root)
        used = CONTRACTS[:3]
        self.pipeline = Pipeline(tuple(Table(c) for c in used), {c.name: CODE for c in used})

    @classmethod
    def prepare(cls, root: Path) -> None:
        """The lake as every test begins with it."""
        self = cls.__new__(cls)
        self.root = root
        self._open()
        everything = range(DAYS)
        self.write("raw", dict.fromkeys(everything, 1))
        rows = [arrival(day(n), f"F-{n}") for n in everything]
        said = receipt(
            "arrivals", {day(n): DayEntry(1, f"F-{n}", "") for n in everything}, inputs={"raw": 1}
        )
        write_rows(self.lake.table_place(ARRIVALS.name).local(), ARRIVALS, rows, said)
        for table in BUILT:
            self.write(table, dict.fromkeys(everything, 1))

    def list_files(self) -> None:
        """Write the ledger of landed files, without which the gate takes raw's rows for rows that
        never landed."""
        rows = [landed(day(n), datetime(2026, 1, 1, tzinfo=UTC)) for n in range(DAYS)]
        write_rows(self.lake.table_place(FILES.name).local(), FILES, rows, receipt(FILES.name, {}))

    def contract(self, table: str) -> Contract:
        """The contract of a table."""
        return self.pipeline.table(table).contract

    def states(self) -> States:
        """The states of all days."""
        return self.pipeline.states(read_view(self.lake, self.pipeline.contracts))

    def write(self, table: str, values: Mapping[int, int], run_id: str = "", **tags: str) -> int:
        """Publish days of a table, a row of that value each, signed as the load path signs; the
        table's version."""
        contract, states = self.contract(table), self.states()
        column = contract.day_column
        staged = stage_by_hand(
            self.lake,
            contract,
            [{"entity": "A", "value": v, column: day(n)} for n, v in values.items()],
        )
        digests = {day(n): states.digests.of(table, day(n)) for n in values}
        found = audit_files(self.lake, staged.paths, contract)
        entries = {d: DayEntry(found[d].rows, found[d].fingerprint, digests[d]) for d in digests}
        made_with, codes = (
            {PARAMETERS: todays_parameters(contract, states.view).to_json()},
            self.pipeline.codes[table],
        )
        known = self.pipeline.codes if self.names_inputs else ()
        inputs = {
            i.table: states.view.table(i.table).version for i in contract.inputs if i.table in known
        }
        said = Provenance(
            "plan" if tags else "test",
            run_id,
            "",
            codes.code_digest,
            codes.settings_digest,
            inputs=inputs,
            tags={**made_with, **tags},
        )
        version = states.view.table(table).version
        return replace_days(
            self.lake, Write(contract, staged, entries, version, said), lambda _: digests
        ).version

    def chunk(self, number: int, days: Iterable[int], value: int, plan: str = "p1") -> None:
        """What a plan's chunk writes: staging, then features."""
        for table in BUILT:
            self.write(
                table,
                dict.fromkeys(days, value),
                f"run-{plan}-{number}",
                plan=plan,
                chunk=str(number),
            )

    def view(self, table: str) -> TableView:
        """The table's receipts."""
        return LOGS.state(self.lake.table_place(table), self.contract(table).day_column)

    def values(self, table: str, version: int | None = None) -> list[int]:
        """The value of every day that has a row, ascending by day, as delta-rs reads them."""
        rows = (
            DeltaTable(str(self.lake.table_place(table).local()), version=version)
            .to_pyarrow_table()
            .to_pylist()
        )
        return [r["value"] for r in sorted(rows, key=lambda r: r[self.contract(table).day_column])]

    def of(self, table: str, state: State) -> list[date]:
        """The days in a state."""
        states = self.states()
        return [day(n) for n in range(DAYS + WINDOW) if states.of(table, day(n)) is state]


def scatter(made: Planned, table: str, number: int) -> None:
    """Lay a day of a table out in two files, as an engine of several tasks does."""
    contract = made.contract(table)
    path, [live] = (
        made.lake.table_place(table).local(),
        [f for f in files_of_version(made.lake, contract) if f.partition == str(day(number))],
    )
    staged = stage_by_hand(
        made.lake, contract, [{"entity": "A", "value": 1, contract.day_column: day(number)}]
    )
    [first] = staged.files
    second = staged.file(Path(first.path).with_name("part-1.parquet"), first.partition)
    pq.write_table(pq.read_table(Path(first.path), partitioning=None).slice(0, 0), second.path)
    staged.tried = True
    rewrite_files(
        place_of(path),
        contract,
        Receipt(staged.write_id, table, "test", {}),
        [first, second],
        [live],
    )
    staged.keep({first.name, second.name})


def narrower(lake: Lake) -> Pipeline:
    """The pipeline as it was when `value` of staging was an INT."""
    narrow = tuple(replace(c, type="INT") if c.name == "value" else c for c in STAGING.columns)
    return pipeline_of(
        lake, [Table(replace(c, columns=narrow) if c == STAGING else c) for c in CONTRACTS[:3]]
    )


def with_narrow_staging(folder: Path) -> Planned:
    """A lake of which staging's files have INT, where its contract says BIGINT now; features are
    made from it."""
    found = Planned(folder / "lake")
    found.lake.table_place("staging").local().rename(folder / "staging of BIGINT")
    found.pipeline = narrower(found.lake)
    for table in BUILT:
        found.write(table, dict.fromkeys(range(DAYS), 1))
    found.pipeline = pipeline_of(found.lake, map(Table, CONTRACTS[:3]))
    return found


def lines_held_back(lake: Lake, also_idle: bool = False) -> dict[str, str]:
    """The line of each plan that holds days back, by the plan's id."""
    return {held.plan.id: held.line for held in holding_plans(lake, also_idle)}
