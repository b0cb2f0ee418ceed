"""Commands on a lake in a bucket whose engine computes elsewhere: whose rows pass this process.

Lives here: the story of `every_command` on a lake that 6f78c832 made, the bytes of its data files
counted by a proxy that this process alone asks. Ends of files, where footers lie, are counted
apart, and ledgers are no rows. Does not live here: that tables are those of a folder, and that
landed files do not pass (`test_bucket_elsewhere`).
"""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import Result

from backfill_assets.engines.session import drop_session
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.place.choice import MACHINE, place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets_tests.end_to_end.every_command import ENDING, FORGET, STORY, tell_story
from backfill_assets_tests.end_to_end.test_bucket_elsewhere import IN_PYTHON, elsewhere, unseen
from backfill_assets_tests.end_to_end.test_lakes_before import LATE, unpacked
from backfill_assets_tests.faulty_store import bytes_passed, faulty
from backfill_assets_tests.processes import free_port
from backfill_assets_tests.stores import StoreServer

THOROUGH = "BACKFILL_ASSETS_ELSEWHERE"
__all__ = ("elsewhere", "unseen")  # fixtures
DATA_FILE = re.compile(r"^/.+?/tables/(\w+?)/(?!_delta_log)[^?]*\.parquet")
LEDGERS = re.compile(r"(files|arrivals)(_\w+)?")  # of contents and of days: no rows of anybody
# Commands that let rows pass this process, each with the reason; the guide `buckets` has them.
LOOKS = "it starts no engine, and measures what landed, which is read here"
COMPARES = "it matches the rows of two sides, which are read here"
ASKED = "rows are what it is asked for, here"
BYTES = "it reads every byte, as another reader than the engine"
ALLOWED = {
    "report": LOOKS,
    "lateness": LOOKS,
    "checklist": LOOKS,
    "compare --plan {OLD}": COMPARES,
    "reconcile --layers": COMPARES,
    "sql 'TABLE staging_events'": ASKED,
    "export features --to {FOLDER}/exported": ASKED,
    "copy-lake {LAKE} {FOLDER}/copy": ASKED,
    "verify --deep": BYTES,
    FORGET: BYTES,
}
# Of the story what starts no engine, so that the address of its engine may be nobody's.
WITHOUT_ENGINE = (
    "status --why",
    "show staging_events 2024-03-01",
    "report",
    "lateness",
    "drift",
    "checklist",
    "controls",
    "audit",
    "plan show {OLD}",
    "compare --plan {OLD}",
    "sql 'TABLE staging_events'",
    "snapshot show kept",
    "reconcile --layers",
    "export features --to {FOLDER}/exported",
    "verify --deep",
)


@dataclass
class Passing:
    """Counts what passed in each command: bytes of rows by table, and requests for ends of files.
    Copies of this machine are deleted after each, so that none hides what the next one reads."""

    proxy: str
    root: Path
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)

    def __call__(self, line: str, done: Result) -> None:
        """Count what passed since the last call for this line."""
        for method, path, asked, size in bytes_passed(self.proxy):
            table = DATA_FILE.match(path)
            if table is None or method != "GET" or LEDGERS.fullmatch(table[1]):
                continue
            if asked.startswith("bytes=-"):
                self.ends[line] += 1
            else:
                self.rows.setdefault(line, Counter())[table[1]] += size
        shutil.rmtree(self.root / MACHINE / "copies", ignore_errors=True)


@pytest.fixture
def proxy(moto_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The way of this process to its store; the engine has another one."""
    with faulty(moto_server.endpoint, share=0) as way:
        monkeypatch.setenv("AWS_ENDPOINT_URL", way)
        yield way


def told(story: Sequence[str], engine: str, address: str, folder: Path, proxy: str) -> Passing:
    """What passes in a story of a lake in a bucket by this engine, of which no line is refused."""
    made, before = unpacked(folder, "sources")
    root = local_root(address)
    here, there = Folder(str(made)), place_at(root)
    for name in here.below():
        there.copy(name, here, name)
    text = (made / FILE_NAME).read_text().replace('engine = "sail"', IN_PYTHON.format(engine))
    there.write(FILE_NAME, f"{text}\n[audit]\nengine_from_mib = 0\n".encode())
    there.write("landing/events-late.jsonl", (json.dumps(LATE) + "\n").encode())
    words = {"OLD": before["plans"][0]["id"], "LAKE": address, "FOLDER": str(folder)}
    passing = Passing(proxy, root)
    bytes_passed(proxy)
    refused = tell_story(story, words, passing)
    drop_session(root)
    assert refused == []
    return passing


@pytest.mark.users_do
@pytest.mark.slow
@pytest.mark.on_spark("its engine is a server of Spark that is not the lake's own")
@pytest.mark.skipif(THOROUGH not in os.environ, reason=f"takes minutes: ${THOROUGH} runs it")
@pytest.mark.usefixtures("spark", "unseen")
def test_no_byte_of_rows_passes_this_process_but_where_the_guide_says_so(
    elsewhere: str,
    bucket_address: str,
    proxy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BACKFILL_ASSETS_LAKE", f"{bucket_address}/lake")
    story = [line for line in (*STORY, FORGET, *ENDING) if not line.startswith("server ")]
    passing = told(story, elsewhere, f"{bucket_address}/lake", tmp_path, proxy)
    assert {*passing.rows} == {*ALLOWED}, (passing.rows, passing.ends)


@pytest.mark.slow
def test_commands_that_start_no_engine_read_rows_only_where_the_guide_says_so(
    bucket_address: str, proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKFILL_ASSETS_LAKE", f"{bucket_address}/lake")
    engine = f"sc://127.0.0.1:{free_port()}"
    passing = told(WITHOUT_ENGINE, engine, f"{bucket_address}/lake", tmp_path, proxy)
    assert {*passing.rows} == {*ALLOWED} & {*WITHOUT_ENGINE}, (passing.rows, passing.ends)
