"""What a process that knows nothing asks and spends to look at many tables with long logs.

Lives here: lakes of made-up logs without an engine, in a folder or in a bucket of versitygw, each
step in a process of its own, with its seconds, CPU, peak of memory, and the requests to the bucket. Does not live here: any assertion on figures (`end_to_end.test_bucket_requests` has
budgets), and logs that a writer made.

usage: python -m backfill_assets_tests.benchmarks.long_logs [TABLES DAYS COMMITS [PLACE ...]]

PLACE: `folder`, then `bucket` where versitygw is on PATH. All but the first and the last commits of a
log are names of one file, which nobody has to read.
"""

import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from backfill_assets.intake.ledger import ARRIVALS, FILES
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.process import collect_seldom
from backfill_assets.kernel.core.readings import PARAMETERS, todays_parameters
from backfill_assets.kernel.core.receipts import DayEntry, Receipt
from backfill_assets.kernel.core.view import DayReceipt, LakeView, TableView
from backfill_assets.kernel.log.log_state import KEEP_EVERY
from backfill_assets.kernel.log.state_files import keep_state
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.store import ensure_table
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.reports.status import lake_status
from backfill_assets_tests.builders import make_commit, write_rows
from backfill_assets_tests.end_to_end.test_bucket_lake import machine
from backfill_assets_tests.stores import versitygw
from backfill_assets_tests.synthetic import arrival, landed

START, A_LAYER, MOST_LINKS = date(2014, 1, 1), 20, 60_000
SETTINGS = f"""start_date = {START}
[source]
files = "/landing/**/*.csv"
format = "csv"
select = "id AS event_key, CAST(at AS timestamp) AS event_ts, who AS entity, 1 AS value, 0 AS flag"
[pipeline]
tables = "backfill_assets.pipeline.tables:delivered"
sql = "sql/*.sql"
"""
QUERY = """/*
description = "Numbers of a day."
day = "day"
key = ["entity"]
columns = {{ entity = "STRING", day = "DATE", total = "BIGINT" }}
inputs = {{ {table} = {{ before = 6 }} }}
*/
SELECT entity, {day} AS day, sum({column}) AS total FROM {table} GROUP BY entity, {day}
"""


@dataclass
class Writer:
    """Writes logs of tables of a lake in a folder, each with so many commits."""

    lake: Lake
    pipeline: Pipeline
    commits: int
    view: LakeView
    links: int = 0  # so often the newest data file has a name

    def write(self, contract: Contract, days: DayRange) -> None:
        """Write the log of a table with a file per day: a commit that made them all, commits that
        nobody has to read, the kept state, and as many behind it as there may be."""
        states = self.pipeline.states(self.view)
        codes = self.pipeline.codes[contract.name]
        entries = {d: DayEntry(1, f"F-{d}", states.digests.of(contract.name, d)) for d in days}
        said = Receipt(
            f"write-{contract.name}",
            contract.name,
            "manual",
            entries,
            code_digest=codes.code_digest,
            settings_digest=codes.settings_digest,
            frontier=states.frontier(contract.name),
            inputs={read.table: 1 for read in contract.inputs},
            tags={PARAMETERS: todays_parameters(contract, self.view).to_json()},
        )
        latest = {
            d: DayReceipt(
                entry,
                1,
                said.write_id,
                said.code_digest,
                said.settings_digest,
                "",
                said.tags[PARAMETERS],
                "",
                said.frontier,
            )
            for d, entry in entries.items()
        }
        kept = self.commits - KEEP_EVERY  # the version of the kept state
        state = TableView(kept, latest, said.inputs, said.frontier)
        self._write_log(contract, said, state)
        newest = replace(state, version=self.commits - 1)
        self.view = replace(self.view, tables={**self.view.tables, contract.name: newest})

    def _write_log(self, contract: Contract, said: Receipt, state: TableView) -> None:
        ensure_table(self.lake, contract)
        place = self.lake.table_place(contract.name)
        path = place.local()
        make_commit(path, 1, said, [self._add(path, contract, day) for day in said.days])
        for version in range(state.version, self.commits):
            more = replace(said, write_id=f"{said.write_id}-{version}", days={})
            made = make_commit(path, version, more)
        for version in range(2, state.version):
            os.link(made, made.with_name(f"{version:020d}.json"))
        keep_state(place, contract.day_column, state)
        _write_checkpoint(path, state.version)

    def _add(self, path: Path, contract: Contract, day: date) -> Mapping[str, Any]:
        """The action that adds the file of a day, which is a further name of an empty one."""
        name = f"part-{day}.parquet"
        whole = self.lake.root / f"file-{self.links // MOST_LINKS}"
        if self.links % MOST_LINKS == 0:
            whole.write_bytes(b"PAR1")
        self.links += 1
        os.link(whole, path / name)
        facts = {"path": name, "size": 4, "modificationTime": 0, "dataChange": True}
        return {"add": {**facts, "partitionValues": {contract.day_column: str(day)}}}


def _write_checkpoint(table: Path, version: int) -> None:
    """The checkpoint of version 1, which nothing changed since, as that of a later version."""
    from deltalake import DeltaTable

    log = table / "_delta_log"
    DeltaTable(table, version=1).create_checkpoint()
    (log / f"{1:020d}.checkpoint.parquet").rename(log / f"{version:020d}.checkpoint.parquet")
    hint = json.loads((log / "_last_checkpoint").read_text())
    (log / "_last_checkpoint").write_text(json.dumps({**hint, "version": version}))


def lake_of(home: Path, tables: int, days: int, commits: int) -> None:
    """A lake of so many tables, raw and staging among them, all days of which are fresh."""
    (home / "sql").mkdir(parents=True)
    (home / "lake.toml").write_text(SETTINGS)
    for number in range(tables - 2):
        layer, place = divmod(number, A_LAYER)
        reads = f"t{layer - 1:03d}_{place:02d}" if layer else "staging"
        day, column = ("day", "total") if layer else ("event_date", "value")
        text = QUERY.format(table=reads, day=day, column=column)
        (home / "sql" / f"t{layer:03d}_{place:02d}.sql").write_text(text)
    lake = open_lake(home)
    pipeline, span = chosen_pipeline(lake), DayRange(START, START + ONE_DAY * days)
    now, told = datetime.now(UTC), {d: DayEntry(1, f"F-{d}", "") for d in span}
    said = Receipt("write-files", FILES.name, "scan", {})
    write_rows(lake.table_place(FILES.name).local(), FILES, [landed(d, now) for d in span], said)
    said = Receipt("write-arrivals", ARRIVALS.name, "manual", told, inputs={"raw": commits})
    rows = [arrival(d, f"F-{d}", 3) for d in span]
    write_rows(lake.table_place(ARRIVALS.name).local(), ARRIVALS, rows, said)
    writer = Writer(lake, pipeline, commits, read_view(lake, pipeline.contracts))
    for contract in pipeline.contracts:
        writer.write(contract, span)


def look(home: Path) -> str:
    """What every command and tick reads of a lake."""
    lake = open_lake(home)
    view = read_view(lake, chosen_pipeline(lake).contracts)
    return f"{sum(len(table.latest) for table in view.tables.values()):,} days"


def status(home: Path) -> str:
    """The states of all days, and whether their files are there, as the command collects
    garbage."""
    collect_seldom()
    gc.disable()
    lake = open_lake(home)
    report = lake_status(lake, chosen_pipeline(lake))
    totals = dict[str, int]()
    for counts in report.totals().values():
        for state, count in counts.items():
            totals[state] = totals.get(state, 0) + count
    return f"{totals} {report.wrong[:2]}"


STEPS: dict[str, Callable[[Path], str]] = {"look": look, "status": status}


def measured(step: str, home: Path) -> None:
    """Print what a step of this process costs, with the start of the program."""
    began = time.monotonic()
    found = STEPS[step](home)
    seconds = time.monotonic() - began
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) >> 10
    print(f"{seconds:.1f} s, {time.process_time():.1f} CPU s, {peak} MiB: {found}")


@contextmanager
def _reached(home: Path, place: str) -> Iterator[tuple[Path, Path | None]]:
    """The lake's folder for a process, and the log of requests of the bucket in which it lies."""
    if place == "folder":
        yield home, None
        return
    requests = home.with_name("requests.log")
    os.environ["LOGFILE"] = str(requests)
    with versitygw() as server:
        address = server.new_bucket()
        assert server.buckets is not None
        home.rename(server.buckets / address.removeprefix("s3://") / "lake")
        os.environ |= server.environment
        yield machine(f"{address}/lake", home.with_name("machine")), requests


def _asked(requests: Path | None, begin: int) -> str:
    """How many requests of which kinds a log has behind a place in it."""
    if requests is None:
        return ""
    kinds = Counter(re.findall(r" s3_(\w+) ", requests.read_text()[begin:]))
    return f"{kinds.total():,} requests: {dict(kinds)}"


def main(sizes: Sequence[int], places: Sequence[str]) -> None:
    """Print what each step costs in each of these places, with the sizes of `lake_of`."""
    tables, days, commits = sizes
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "lake")
        began = time.process_time()
        lake_of(home, tables, days, commits)
        cpu = time.process_time() - began
        print(f"{tables} tables, {days:,} days, {commits:,} commits (made in {cpu:.0f} CPU s)")
        for place in places or ("folder",):
            with _reached(home, place) as (root, requests):
                print(f"in a {place}", flush=True)
                for step in STEPS:
                    _run_step(step, root, requests)


def _run_step(step: str, root: Path, requests: Path | None) -> None:
    """Let a process of its own do a step, and print what it cost."""
    begin = requests.stat().st_size if requests is not None else 0
    command = [sys.executable, "-m", __spec__.name, step, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout.strip() or done.stderr[-2000:]
    print(f"  {step}: {said} {_asked(requests, begin)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in STEPS:
        measured(sys.argv[1], Path(sys.argv[2]))
    else:
        main([int(text) for text in sys.argv[1:4]] or [20, 100, 1_000], sys.argv[4:])
