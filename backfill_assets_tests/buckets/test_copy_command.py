"""`copy-lake` as typed.

Tested here: `buckets.copy_command`, between two folders. Not tested here: copying
(`test_copy_lake.py`), and buckets (`end_to_end/test_copy_lake.py`).
"""

from pathlib import Path

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.readable_lake import readable_lake


def test_a_copy_is_told_in_one_line(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    readable_lake(first)
    done = run("copy-lake", first, second)
    assert done.exit_code == 0, done.output
    assert str(second) in "".join(done.output.split())
