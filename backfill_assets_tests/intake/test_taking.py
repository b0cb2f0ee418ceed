"""Landed objects taken in by tasks: which way each goes, and what becomes of those that no task
manages.

Lives here: tasks run by this process in place of an engine's Python, on moto. Does not live here:
an engine that runs them (`end_to_end.test_bucket_elsewhere`).
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from backfill_assets.intake.content_store import find_content, refuse_replaced
from backfill_assets.intake.files import LandedFile, landed_object
from backfill_assets.intake.ingest import ingest
from backfill_assets.intake.taking import _last_error_line, taken_by_engine
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets_tests.files import SMALLEST

pytestmark = pytest.mark.slow  # it needs a server of moto's
CSV = b"event_key,value\na,1\nb,2\nb\n"
Batches = Iterator[pa.RecordBatch]


class Engine:
    """What `taken_by_engine` asks of a session; a query over the task of a deadly file fails."""

    def __init__(self, deadly: str = "") -> None:
        self.deadly, self.queries = deadly, 0

    def range(self, first: int, end: int, _step: int, parts: int) -> "Engine":
        assert end - first == parts
        self.numbers = pa.record_batch({"id": pa.array(range(first, end), pa.int64())})
        return self

    def mapInArrow(self, run: Callable[[Batches], Batches], _schema: str) -> "Engine":
        self.run, asked = run, getattr(run, "__self__", None)
        names = {f.name for files in getattr(asked, "files", ()) for f in files}
        self.queries, self.is_deadly = self.queries + 1, self.deadly in names
        return self

    def collect(self) -> list[dict[str, Any]]:
        if self.is_deadly:
            raise RuntimeError("Python worker exited unexpectedly (crashed)")
        return [row for batch in self.run(iter([self.numbers])) for row in batch.to_pylist()]


@pytest.fixture
def lake(bucket_address: str) -> Lake:
    root = local_root(bucket_address)
    text = SMALLEST.replace("jsonl", "csv").replace(
        '"*"', '"event_key, cast(value AS timestamp_ntz) AS arrival_ts"'
    )
    place_at(root).write(FILE_NAME, text.encode())
    return open_lake(root)


def session_of(lake: Lake, engine: Engine, *, is_at_bucket: bool = True) -> Any:
    return SimpleNamespace(lake=lake, is_at_bucket=lambda: is_at_bucket, spark=lambda: engine)


def landed(lake: Lake, *names: str, content: bytes = CSV) -> list[LandedFile]:
    found = []
    for name in names:
        lake.place.write(f"landing/{name}", content)
        token = lake.place.token(f"landing/{name}")
        assert token is not None
        found.append(landed_object(lake.place, f"landing/{name}", token))
    return found


def test_a_content_is_what_this_process_would_have_made_and_is_proven_by_its_mark_alone(
    lake: Lake, passing: list[str], tmp_path: Path
) -> None:
    files = landed(lake, "one.csv", "again.csv")
    found = taken_by_engine(session_of(lake, engine := Engine()), files)
    assert (engine.queries, {*found}) == (2, {f.name for f in files}), "one probe, one query"
    one, again = (found[f.name] for f in files)
    assert one == again
    here = place_at(tmp_path / "here")
    wanted = ingest(files[0], "csv", here)
    kept = ("sha256", "name", "types", "schema", "rows", "bad_rows", "refused")
    assert [getattr(one, name) for name in kept] == [getattr(wanted, name) for name in kept]
    passing.clear()
    assert find_content(lake.stock, one.sha256) == one
    refuse_replaced([one])
    assert not [name for name in passing if name.endswith(".parquet")], "the copy is not fetched"


def test_a_file_over_which_a_process_ends_keeps_no_other_one_back_and_is_logged(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"{n}.csv" for n in range(5)]
    files = [landed(lake, name, content=CSV + f"{name},3\n".encode())[0] for name in names]
    with caplog.at_level(logging.WARNING):
        found = taken_by_engine(session_of(lake, Engine(deadly="landing/3.csv")), files)
    assert {f.name for f in files} - {*found} == {"landing/3.csv"}
    assert [r.getMessage() for r in caplog.records] == [
        "landing/3.csv: no task of the engine took it in (Python worker exited unexpectedly "
        "(crashed)): it passes this "
        "process"
    ]


def test_an_object_that_was_replaced_since_it_was_listed_is_left_to_this_process(
    lake: Lake,
) -> None:
    one, other = landed(lake, "one.csv", "other.csv")
    lake.place.write("landing/one.csv", b"event_key\nz\n")
    assert {*taken_by_engine(session_of(lake, Engine()), [one, other])} == {"landing/other.csv"}


def test_no_task_is_run_where_its_python_cannot_do_it(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    files, engine = landed(lake, "one.csv"), Engine()
    assert taken_by_engine(session_of(lake, engine, is_at_bucket=False), files) == {}
    assert engine.queries == 0
    session = session_of(lake, engine)
    lake.place.delete(FILE_NAME)
    with caplog.at_level(logging.WARNING):
        assert [taken_by_engine(session, files), taken_by_engine(session, files)] == [{}, {}]
    assert engine.queries == 1, "it is asked once"
    assert [r.getMessage() for r in caplog.records] == [
        "the engine's machines take in no landed files (they do not find "
        f"{lake.place.uri(FILE_NAME)} as it is): all "
        "pass this process"
    ]


def test_of_an_error_elsewhere_the_last_line_is_told_that_is_no_frame_of_a_stack() -> None:
    text = (
        "An exception was thrown\nOSError: no such folder\n\n\tat org.apache.spark.A\n\tat "
        "java.B\n \n"
    )
    assert _last_error_line(RuntimeError(text)) == "OSError: no such folder"
    assert _last_error_line(RuntimeError("\n")) == "RuntimeError"
