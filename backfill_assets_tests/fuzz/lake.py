"""The lake that is damaged: small, with everything that a lake can have, as an archive beside this.

Here: laying it out, and making the archive anew (`python -m backfill_assets_tests.fuzz --make`,
after a change of a lake's files). Not here: what is done to it (`damage`).
"""

import json
import os
import runpy
import tarfile
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.place.processes import PlacedProcess
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.copies import Kept, keep
from backfill_assets_tests.processes import CHECKOUT

ARCHIVE = Path(__file__).with_name("lake.tar.xz")
OF_THE_MACHINE = (".dagster", ".server")
ENGINE = "BACKFILL_ASSETS__SPARK__ENGINE"
NAME = "lake"
DAY = "2024-03-02"
BUCKET = "BACKFILL_ASSETS_FUZZ_BUCKET"  # its address; unset: lakes lie in folders
AT_ONCE = 8
MANY = 20  # commits, after which states of a table are kept, and checkpoints


def kept_lake() -> Kept:
    """The lake of the archive."""
    return keep(_unpack)


@contextmanager
def laid_out() -> Iterator[str]:
    """A lake of the archive, by its folder, or by its address in the bucket that `BUCKET` names;
    what this machine has of that goes away at the end."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_VARIABLE, folder)
        bucket = os.environ.get(BUCKET)
        if not bucket:
            kept_lake().lay_out(Path(folder, NAME))
            yield str(Path(folder, NAME))
            return
        address = f"{bucket}/{uuid.uuid4().hex}"
        _send(place_at(local_root(address)))
        yield address


def _send(place: Place) -> None:
    """Write the lake's files as objects, many at once."""
    with ThreadPoolExecutor(AT_ONCE) as senders:
        for _ in senders.map(lambda file: place.write(file[0], file[1]), kept_lake().files):
            pass


def _unpack(folder: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")


def make_archive() -> None:
    """Make the lake by commands, and pack it."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE, "sail")
        root = Path(folder) / NAME
        _make(root)
        with tarfile.open(ARCHIVE, "w:xz") as packed:
            for path in sorted(root.iterdir()):
                if path.name not in OF_THE_MACHINE:
                    packed.add(path, path.name, filter=_without_owner)


def _without_owner(found: tarfile.TarInfo) -> tarfile.TarInfo:
    found.uid = found.gid = 0
    found.uname = found.gname = ""
    return found


def _make(root: Path) -> None:
    """Late data, a correction, a refused file, totals, one plan that ended, one that waits and one
    that nobody started, a day put back, a snapshot, a candidate, comparisons, proofs."""
    earlier: Any = runpy.run_path(str(CHECKOUT / ".ci" / "lakes_before.py"))
    do = partial(_do, root)
    _land_days(root, earlier, do)
    _plan_days(root, earlier["FIRST"], do)
    put_back_often(root)
    do("server", "stop", "--force")
    dead = PlacedProcess("elsewhere", "boot", "numbering", 1, 0.0)
    (root / ".runs" / "instance").mkdir(parents=True, exist_ok=True)
    _land(root / ".runs" / "instance" / "run-1", json.dumps(json_of(dead)))
    _land(root / ".runs" / "instance" / "run-1.beat", "x")


def _do(root: Path, *words: object) -> None:
    """Run a command on the lake, which may find something to complain of."""
    done = run(*words, "--lake", root)
    assert done.exit_code in (0, 1, 3), (words, done.output, done.exception)


def _plan(root: Path, *words: object) -> str:
    """Make a plan, and give its id."""
    return str(read(run("plan", *words, "--force", "--json", "--lake", root))["id"])


def _land_days(root: Path, earlier: Any, do: Callable[..., None]) -> None:
    """Five days, totals that a file and a manifest declare, late data, and a refused file."""
    first, landing = earlier["FIRST"], root / "landing"
    (root / "sql").mkdir(parents=True)
    (root / "sql" / "daily.sql").write_text(earlier["DAILY"], encoding="utf-8")
    settings = earlier["ONE_SOURCE"] + '[pipeline]\nsql = "sql/*.sql"\n'
    (root / "lake.toml").write_text(settings, encoding="utf-8")
    earlier["land_days"](landing, 5)
    _land(landing / f"{first}.jsonl.totals.json", '{"rows": 2, "sums": {"value": "3"}}\n')
    _land(landing / "_manifest.csv", f"path,rows,sum_value\n{first + timedelta(1)}.jsonl,2,5\n")
    do("catch-up")
    earlier["land_late"](landing)
    _land(landing / "bad.jsonl", '{"seq": 1, "arrival_ts": "no"}\n')
    do("catch-up")


def _plan_days(root: Path, first: date, do: Callable[..., None]) -> None:
    """Plans that ended, wait and were never started, a snapshot, a candidate, comparisons."""
    plan = partial(_plan, root)
    second, third = first + timedelta(1), first + timedelta(2)
    do("snapshot", "create", "kept", "--from", first, "--to", third, "--tables", "staging")
    ended = plan("--from", first, "--to", third, "--tables", "staging", "--chunk", 2)
    do("run", ended)
    do("rollback", "--plan", ended, "--chunk", 1, "--yes")
    days = ("--from", first + timedelta(3), "--to", first + timedelta(4))
    do("run", plan(*days, "--tables", "labels", "--chunk", 1, "--canary", 1))
    plan("--from", third, "--to", third, "--tables", "features")
    do("candidate", "create", "beside", "--tables", "daily")
    do("reconcile", "--layers")
    do("prove", "--random", 1)
    do("maintain", "--yes")
    days = ("--from", first, "--to", second)
    do("run", plan(*days, "--tables", "daily", "--stop-after", "chunk", "--chunk", 1))


def put_back_often(root: Path) -> None:
    """Put a day of staging back to two of its versions in turn, which an engine is not needed
    for."""
    for n in range(MANY):
        words = ("--table", "staging", "--from", DAY, "--to", DAY, "--to-version", 1 + n % 2 * 3)
        done = run("rollback", *words, "--over-newer", "--yes", "--lake", root)
        assert done.exit_code == 0, done.output


def _land(file: Path, text: str) -> None:
    """A file of a time that nothing waits for."""
    file.write_text(text, encoding="utf-8")
    os.utime(file, (0, 0))
