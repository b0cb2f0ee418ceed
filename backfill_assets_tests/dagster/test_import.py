"""Whoever imports the public door, or our definitions, has the process that they had before.

Tested here: what `backfill_assets`, `backfill_assets.dagster` and `backfill_assets.definitions`
leave alone. Not tested here: what the names of the door do.
"""

from pathlib import Path

import pytest

from backfill_assets_tests.processes import run_python
from backfill_assets_tests.synthetic import synthetic_lake

pytestmark = pytest.mark.usefixtures("processes")
PROBE = """
import gc, os, sys
from importlib import import_module
os.umask(0o022)
done = []
def note(event, args):
    if event in {"os.chmod", "os.mkdir", "os.remove", "os.rename", "socket.connect"}:
        done.append(f"{event} {args}")
def state():
    umask = os.umask(0)
    os.umask(umask)
    return oct(umask), gc.get_threshold(), gc.get_freeze_count(), gc.isenabled(), dict(os.environ)
before = state()
sys.addaudithook(note)
module = import_module(sys.argv[1])
for name in getattr(module, "__all__", ()):
    getattr(module, name)
print(before == state(), [name for name, now, then in zip(
    ("umask", "thresholds", "frozen", "collector", "environment"), before, state()) if now != then])
print(done)
"""


@pytest.mark.parametrize(
    "module", ["backfill_assets", "backfill_assets.dagster", "backfill_assets.definitions"]
)
def test_an_import_changes_nothing_in_the_process(module: str, tmp_path: Path) -> None:
    synthetic_lake(tmp_path / "lake", 1)
    env = {"BACKFILL_ASSETS_LAKE": str(tmp_path / "lake"), "PYTHONDONTWRITEBYTECODE": "1"}
    assert run_python(PROBE, module, env=env, fresh=True).splitlines() == ["True []", "[]"]
