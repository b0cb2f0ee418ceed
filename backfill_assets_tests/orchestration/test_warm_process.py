"""What is imported before runs are forked: everything of installed packages, nothing of the lake, no second thread.

Tested here: what `orchestration.warm_process` imports. Not tested here: forks of it that are runs
(`test_run_launcher`), and when it is begun (`test_warm_starts`).
"""

import pytest

from backfill_assets.orchestration.warm_process import ONE_THREAD
from backfill_assets_tests.processes import run_python

IMPORT = """
import sys
from backfill_assets.orchestration.warm_process import import_all
before = list(sys.path)
import_all()
print(sorted({"backfill_assets.definitions", "duckdb", "pandas", "own_tables"} & set(sys.modules)), sys.path == before)
"""


@pytest.mark.usefixtures("processes")
def test_what_is_imported_begins_no_thread_and_knows_no_lake() -> None:
    said = run_python(IMPORT, env={"BACKFILL_ASSETS_LAKE": "nowhere", **ONE_THREAD}, fresh=True)
    assert said.strip() == "['duckdb', 'pandas'] True"
