"""`checklist` as typed.

Tested here: `reports.checklist_command`. Not tested here: judging its items (`test_checklist.py`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.late_lake import late_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_each_item_is_ticked_or_names_what_mends_it(tmp_path: Path) -> None:
    lake, _ = late_lake(tmp_path / "lake")
    result = run("checklist", "--lake", lake.root)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "loads:"
    assert "[x] a load is seen whole or not at all" in lines
    assert (
        lines[lines.index("[ ] a rerun changes nothing") + 2]
        == "    -> backfill-assets prove --random 3"
    )
    assert lines[-1].endswith(" of 12 hold")
    document = read(run("checklist", "--json", "--lake", lake.root))
    assert [i["holds"] for i in document["items"]].count(True) == int(lines[-1].split()[0])
