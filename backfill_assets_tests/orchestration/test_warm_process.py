"""What is imported before runs are forked: everything of installed packages, nothing of the lake, no second thread.

Tested here: what `orchestration.warm_process` imports. Not tested here: forks of it that are runs
(`test_run_launcher`), and when it is begun (`test_warm_starts`).
"""

import pytest

from backfill_assets.orchestration.warm_process import ONE_THREAD
from backfill_assets_tests.files import SMALLEST
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


READ = """
from backfill_assets.lake import model
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.orchestration.warm_process import import_all
from backfill_assets.pipeline.tables import tables
import os, tomllib
import_all()
read = model._without_prose.cache_info().misses
made = [model.make_pipeline(tables(LakeSettings.model_validate(tomllib.loads(text)))) for text in {texts}]
print(len(made), read > 20, model._without_prose.cache_info().misses - read, flush=True)
os._exit(0)  # as forks end
"""


@pytest.mark.usefixtures("processes")
def test_the_code_of_the_packages_own_tables_is_read_before() -> None:
    declared = (
        SMALLEST
        + '[labels]\nlabel = "sum_ahead(value) > 2"\n[[features.columns]]\nname = "n"\nagg = "count"\ndays = 7\n'
    )
    said = run_python(READ.format(texts=[SMALLEST, declared]), env=ONE_THREAD, fresh=True)
    assert said.strip() == "2 True 0"
