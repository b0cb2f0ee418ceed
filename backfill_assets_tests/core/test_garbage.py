"""How often processes of ours look for garbage.

Tested here: `core.process`, and that a process which runs what a person launched in the browser keeps to it. Not tested
here: the commands (`cli.test_app`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.processes import run_python

pytestmark = pytest.mark.usefixtures("processes")


def test_a_process_looks_seldom_for_garbage_once_it_says_so_and_not_by_an_import() -> None:
    code = (
        "import gc; from backfill_assets.core.process import COLLECT_AFTER, collect_seldom; "
        "before = gc.get_threshold(); "
        "collect_seldom(); print(before != COLLECT_AFTER, gc.get_threshold() == COLLECT_AFTER)"
    )
    assert run_python(code).split() == ["True", "True"]


def test_the_process_of_a_run_in_the_browser_looks_seldom_for_garbage_before_it_imports_the_rest(
    tmp_path: Path,
) -> None:
    code = """
import gc, sys
class Look:
    def find_spec(self, name, path=None, target=None):
        if name == "backfill_assets.orchestration":
            print(gc.get_threshold())
sys.meta_path.insert(0, Look())
from backfill_assets.core.process import COLLECT_AFTER
print(COLLECT_AFTER)
import backfill_assets.definitions
"""
    wanted, found = run_python(code, env={"BACKFILL_ASSETS_LAKE": str(tmp_path)}, fresh=True).splitlines()
    assert wanted == found


def test_libraries_are_told_to_keep_little_unless_a_person_told_them_otherwise() -> None:
    code = """
import os
from backfill_assets.core.process import ALLOCATORS, collect_seldom
collect_seldom()
import pyarrow
print(all(name in os.environ for name in ALLOCATORS), os.environ["_RJEM_MALLOC_CONF"])
print(pyarrow.default_memory_pool().backend_name)
"""
    told = run_python(code, env={"_RJEM_MALLOC_CONF": "dirty_decay_ms:7"}, fresh=True).splitlines()
    assert told == ["True dirty_decay_ms:7", "system"]
