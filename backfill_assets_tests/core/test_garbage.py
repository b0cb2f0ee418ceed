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


def test_a_step_that_makes_a_table_looks_seldom_for_garbage_and_gives_the_umask_back(tmp_path: Path) -> None:
    code = """
import gc, os
os.umask(0o022)
from backfill_assets.core.process import COLLECT_AFTER
from backfill_assets.definitions import defs
print(gc.get_threshold() == COLLECT_AFTER)
done = defs.resolve_job_def("rebuild").execute_in_process(partition_key="2026-11-01", raise_on_error=False)
print(done.success, gc.get_threshold() == COLLECT_AFTER, oct(os.umask(0)))
"""
    told = run_python(code, env={"BACKFILL_ASSETS_LAKE": str(tmp_path)}, fresh=True).splitlines()
    assert told == ["False", "False True 0o22"]  # without a lake a step has nothing to make


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
