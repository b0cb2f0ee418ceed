"""A disk that is full in the middle of each commit of a load, and after it: told in one line, and a
rerun writes.

Tested here: a small file system of its own, filled at that moment and freed again; the server's
scratch is on it too. Not tested here: which errors count as a full disk (`engines.test_loss`).
Needs the right to mount.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.lakes import content, delivery, land, make_lake
from backfill_assets_tests.processes import run_python

pytestmark = pytest.mark.long

FIRST, LAST = "2024-03-01", "2024-03-03"
PATIENCE_SECONDS = 600.0
LOAD = """
import contextlib, sys
from pathlib import Path
import backfill_assets.kernel.tables.store as store_module
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.lakes import backfill, toy

root, full, moment = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
real = store_module.commit_files

def fill():
    with contextlib.suppress(OSError), (root / "ballast").open("ab", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(bytes(size))

def commit(path, *rest):
    if path.name == full and moment == "in":
        fill()
    version = real(path, *rest)
    if path.name == full and moment == "after":
        fill()
    return version

store_module.commit_files = commit
try:
    backfill(open_lake(root), "2024-03-01", "2024-03-03", None, toy())
    print("done")
except BackfillError as error:
    print(error)
"""


@pytest.fixture
def spark_server(tmp_path: Path) -> Iterator[Lake]:
    """A lake of three days on a file system of 64 MiB; its server is stopped and the file system
    gone at the end."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or shutil.which("umount") is None:
        pytest.skip("there is no mount here")
    if os.geteuid() or subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system here")
    try:
        rows = [delivery(n, f"2024-03-0{n} 10:00:00", None, f"k{n}") for n in (1, 2, 3)]
        lake = make_lake(disk / "lake", rows, FIRST, spark={"engine": "embedded", "memory": "1g"})
        yield lake
        stop_server(lake.root, force=True)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def load(lake: Lake, table: str, moment: str) -> str:
    """What a load of all days says whose disk is filled in, or after, the commit of a table."""
    return run_python(LOAD, lake.root, table, moment, timeout=PATIENCE_SECONDS)


@pytest.mark.slow
def test_a_disk_that_fills_up_at_any_commit_of_a_load_is_named_and_the_rerun_writes(
    spark_server: Lake,
) -> None:
    lake = spark_server
    assert load(lake, "none", "in") == "done\n"
    moments = [("quarantine", "in"), ("raw", "in"), ("arrivals", "in"), ("arrivals", "after")]
    for number, (table, moment) in enumerate(moments, 10):
        bad = delivery(100 + number, f"{LAST} 13:00:00", None, "bad", op="no such operation")
        land(
            lake,
            f"more{number}.jsonl",
            [bad, delivery(number, f"{LAST} 13:00:00", None, f"good{number}")],
        )
        told = load(lake, table, moment)
        assert f"the disk of {lake.root} (" in told, (table, moment, told)
        assert "Free space there, then run the same command again" in told
        (lake.root / "ballast").unlink()
        assert load(lake, "none", "in") == "done\n", (table, moment)
        assert f"good{number}" in {key for key, *_ in content(lake, "echo")}, (table, moment)
        assert len(content(lake, "quarantine")) == number - 9
    assert len(content(lake, "raw")) == 3 + len(moments)
