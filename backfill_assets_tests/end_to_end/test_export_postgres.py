"""Days of a table in a real PostgreSQL server, whatever stops the export: old days or new ones, and
in the end new.

Tested here: the place `postgresql://…` of `export.export_days`. Not tested here: folders
(`export.test_export`).
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.export.export import export_days
from backfill_assets_tests.builders import day
from backfill_assets_tests.planned import DAYS, Planned
from backfill_assets_tests.postgres import execute, postgres_server

pytestmark = pytest.mark.usefixtures("storages", "processes")
EXPORTING = """
import sys
from pathlib import Path
from backfill_assets.export.export import export_days
from backfill_assets_tests.planned import Planned
made = Planned.__new__(Planned)
made.root = Path(sys.argv[1])
made._open()
print("ready", flush=True)
export_days(made.lake, made.pipeline, "staging", sys.argv[2])
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with postgres_server() as found:
        yield found


def held(address: str, table: str) -> list[int]:
    return [v for (v,) in execute(address, f"SELECT value FROM {table} ORDER BY event_date")]


def test_changed_days_are_replaced_in_one_transaction_with_what_is_known_of_them(
    address: str, tmp_path: Path
) -> None:
    made, to = Planned(tmp_path / "lake"), f"{address}#shop.versions"
    execute(address, "CREATE SCHEMA shop")
    assert len(export_days(made.lake, made.pipeline, "staging", to).replaced) == DAYS
    made.chunk(1, (1, 2), 2)
    done = export_days(made.lake, made.pipeline, "staging", to)
    assert (done.replaced, done.same) == ((day(1), day(2)), DAYS - 2)
    assert "secret" not in str(done)
    assert held(address, "shop.versions") == [1, 2, 2, 1, 1, 1, 1, 1]
    assert export_days(made.lake, made.pipeline, "staging", to).replaced == ()
    execute(address, "DROP TABLE shop.versions")
    assert len(export_days(made.lake, made.pipeline, "staging", to).replaced) == DAYS


def test_a_table_of_earlier_exports_gets_columns_that_it_lacks_and_wider_types(
    address: str, tmp_path: Path
) -> None:
    made, to = Planned(tmp_path / "lake"), f"{address}#wider"
    export_days(made.lake, made.pipeline, "staging", to)
    execute(
        address,
        "ALTER TABLE wider ALTER value TYPE integer",
        "ALTER TABLE wider RENAME entity TO shop",
    )
    made.write("staging", {1: 5_000_000_000})
    assert export_days(made.lake, made.pipeline, "staging", to).replaced == (day(1),)
    found = execute(address, "SELECT value, entity, shop FROM wider ORDER BY event_date")
    assert found[:3] == [(1, None, "A"), (5_000_000_000, "A", None), (1, None, "A")]


def test_an_export_killed_at_any_moment_leaves_whole_days_and_the_next_ends_it(
    address: str, tmp_path: Path
) -> None:
    made, to = Planned(tmp_path / "lake"), f"{address}#killed"
    export_days(made.lake, made.pipeline, "staging", to)
    for value, delay in enumerate((0.0, 0.01, 0.03, 0.06, 0.1), 2):
        made.write("staging", dict.fromkeys(range(DAYS), value))
        child = subprocess.Popen(
            [sys.executable, "-c", EXPORTING, str(made.root), to], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)  # the moment of the kill, not a wait for something
        child.kill()
        child.wait()
        assert set(held(address, "killed")) in ({value - 1}, {value}), (
            "one transaction: all old or all new"
        )
        export_days(made.lake, made.pipeline, "staging", to)
        assert held(address, "killed") == [value] * DAYS
