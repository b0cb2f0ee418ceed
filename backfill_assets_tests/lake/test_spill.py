"""What the embedded engine spills: whatever a killed process left of it is removed by the next one that spills.

Tested here: `lake.audit.SPILL` as DuckDB keeps it. Not tested here: what is computed (`test_audit`).
"""

import signal
import subprocess
from pathlib import Path

import pytest

from backfill_assets.lake.embedded import SPILL
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.processes import start

SPILLS = """
import sys
from pathlib import Path
from backfill_assets.lake.embedded import new_engine
from backfill_assets_tests.files import bare_lake
engine = new_engine(bare_lake(Path(sys.argv[1])).root)
engine.execute("SET memory_limit = '40MB'; SET threads = 1")
rows = "SELECT md5(x::VARCHAR) AS s FROM range(600000) t(x)"
batches = engine.execute(f"SELECT s FROM ({rows}) ORDER BY s").to_arrow_reader(1000)
batches.read_next_batch()
print("spilled", flush=True)
sys.stdin.readline()
"""


@pytest.mark.usefixtures("processes")
def test_what_a_killed_process_spilled_is_removed_by_the_next_one_that_spills(tmp_path: Path) -> None:
    lake = bare_lake(tmp_path)
    (lake.root / SPILL).parent.mkdir()
    left = set[str]()
    for number in range(2):
        with start("-c", SPILLS, lake.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "spilled"
            found = {path.name for path in (lake.root / SPILL).iterdir()}
            assert not number or not left & found
            left = found
            assert left
            process.send_signal(signal.SIGKILL)
            process.wait(60)
