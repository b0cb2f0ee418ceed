"""`doctor --deep`: rows that differ from their receipts are found, told by their days, with the command that helps.

Tested here: `cli.deep` on the quarantine's own rows. Not tested here: fingerprints (`lake.test_fingerprints`).
"""

from pathlib import Path
from typing import Any

from backfill_assets.cli.deep import examine_contents
from backfill_assets.core.days import midnight
from backfill_assets.lake.home import Lake
from backfill_assets.operations.diagnosis import Level
from backfill_assets.pipeline import contracts
from backfill_assets_tests.files import bare_lake, publish_by_hand, stage_by_hand
from backfill_assets_tests.operations.synthetic import START


def version(key: str) -> dict[str, Any]:
    at = midnight(START)
    return {
        "event_key": key, "event_ts": at, "entity": "A", "value": 1, "flag": 0, "version_ts": at, "seq": 1,
        "known_from": at, "known_until": None, "event_date": START,
    }  # fmt: skip


def written(root: Path) -> Lake:
    lake = bare_lake(root)
    publish_by_hand(lake, contracts.staging(), [version("k"), version("l")])
    return lake


def test_a_table_that_holds_what_its_receipts_say_is_fine(tmp_path: Path) -> None:
    (found,) = examine_contents(written(tmp_path).root)
    assert found.level is Level.OK
    assert found.what == "1 day(s), 2 rows equal their receipts"


def test_a_row_that_somebody_changed_is_told_by_its_day_with_the_command_that_helps(tmp_path: Path) -> None:
    lake = written(tmp_path)
    (live,) = lake.table_path("staging").rglob("*.parquet")
    staged = stage_by_hand(lake, contracts.staging(), [version("other")])
    live.write_bytes(staged.files[0].path.read_bytes())
    staged.keep(set())
    (found,) = examine_contents(lake.root)
    assert found.level is Level.ERROR
    assert found.what.startswith("1 day(s) differ from their receipts")
    assert f"--force --from {START} --to {START} --tables staging`" in found.advice
