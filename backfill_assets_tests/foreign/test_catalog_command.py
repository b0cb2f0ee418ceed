"""`locate` and `register` as typed: what they refuse before any engine starts.

Tested here: `foreign.catalog_command`. Not tested here: what a catalog answers (`test_catalog.py`).
"""

from pathlib import Path

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.readable_lake import readable_lake


def test_a_name_without_its_schema_is_wrong_usage(tmp_path: Path) -> None:
    done = run("--lake", tmp_path, "locate", "orders")
    assert done.exit_code == 2
    assert "use SCHEMA.TABLE or CATALOG.SCHEMA.TABLE" in done.output


def test_names_in_a_catalog_want_a_schema(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    done = run("--lake", tmp_path, "register")
    assert done.exit_code == 2
    assert "name a schema" in done.output
