"""`checklist` prints each item with its evidence and what mends it. No JVM.

Not here: the judgement (`operations.test_checklist`).
"""

import json
from pathlib import Path

from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets_tests.operations.late_lake import late_lake


def test_each_item_is_ticked_or_names_what_mends_it_and_80_columns_are_enough(tmp_path: Path) -> None:
    lake, _ = late_lake(tmp_path / "lake")
    result = CliRunner().invoke(app, ["checklist", "--lake", str(lake.root)])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "loads:"
    assert "[x] a load is seen whole or not at all" in lines
    assert lines[lines.index("[ ] a rerun changes nothing") + 2] == "    -> backfill-assets prove --random 3"
    assert lines[-1].endswith(" of 12 hold")
    assert max(map(len, lines)) <= 80
    as_json = CliRunner().invoke(app, ["checklist", "--json", "--lake", str(lake.root)])
    assert [i["holds"] for i in json.loads(as_json.stdout)["items"]].count(True) == int(lines[-1].split()[0])
