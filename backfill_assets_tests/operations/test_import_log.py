"""An append-only table becomes deliveries: nothing is lost, nothing is written twice, and a kill costs nothing.

Tested here: `operations.import_log` up to the load. Not tested here: the load and its proof (`cli.test_init`).
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import open_lake
from backfill_assets.operations.import_log import ImportRequest, import_log

ROWS = """
    SELECT * FROM (VALUES
        ('a', TIMESTAMP '2024-03-01 10:00', TIMESTAMP '2024-03-01 11:00', 1),
        ('a', TIMESTAMP '2024-03-01 10:00', TIMESTAMP '2024-03-03 11:00', 2),
        ('b', TIMESTAMP '2024-02-29 23:00', TIMESTAMP '2024-03-01 00:30', 3),
        ('b', TIMESTAMP '2024-02-29 23:00', TIMESTAMP '2024-03-01 00:30', 3),
        (NULL, TIMESTAMP '2024-03-02 10:00', TIMESTAMP '2024-03-03 11:00', 4),
        ('c', TIMESTAMP '2024-03-02 10:00', NULL, 5)) t(id, happened, came, amount)
"""


def log(folder: Path, kind: str = "parquet", rows: str = ROWS) -> ImportRequest:
    """A log of six rows as a file, and the request to import it."""
    source = folder / f"log.{kind}"
    if kind == "delta":
        duckdb.connect().execute(f"COPY ({rows}) TO '{source}.rows' (FORMAT parquet)")
        write_deltalake(str(source), pq.read_table(f"{source}.rows"))
    elif kind == "query":
        duckdb.connect().execute(f"COPY ({rows}) TO '{source}' (FORMAT csv, DELIMITER '~')")
        return ImportRequest(f"duckdb:FROM read_csv('{source}', delim = '~')", ("id",), "happened", "came")
    else:
        duckdb.connect().execute(f"COPY ({rows}) TO '{source}' (FORMAT {kind})")
    return ImportRequest(str(source), ("id",), "happened", "came")


def landed(root: Path) -> list[tuple[Any, ...]]:
    found = f"read_parquet('{root}/landing/*.parquet', filename = true)"
    return (
        duckdb.connect()
        .execute(f"SELECT parse_filename(filename), amount FROM {found} ORDER BY 1, file_row_number")
        .fetchall()
    )


@pytest.mark.usefixtures("storages")
@pytest.mark.parametrize("kind", ["parquet", "csv", "delta", "query"])
def test_each_row_lands_once_in_the_file_of_its_arrival_day_in_the_order_of_arrival(tmp_path: Path, kind: str) -> None:
    done = import_log(tmp_path / "lake", log(tmp_path, kind))
    assert (done.rows, done.keys, done.unusable, done.duplicates) == (6, 2, 2, 2)
    first, second, third = "2024-03-01.parquet", "2024-03-02.parquet", "2024-03-03.parquet"
    assert landed(tmp_path / "lake") == [(first, 3), (first, 3), (first, 1), (second, 5), (third, 2), (third, 4)]
    settings = open_lake(tmp_path / "lake").settings
    assert str(settings.start_date) == "2024-02-29", "an event may lie before all arrivals"
    newest = f"SELECT event_key, amount FROM read_parquet('{tmp_path}/lake/.import/latest.parquet') ORDER BY 1"
    latest = duckdb.connect().execute(newest)
    assert latest.fetchall() == [("a", 2), ("b", 3)]


@pytest.mark.usefixtures("storages")
@pytest.mark.parametrize("lost", [("2024-03-02", "2024-03-03", ".import/latest"), (".import/latest",), ()])
def test_a_killed_import_goes_on_where_it_was_and_half_of_it_is_no_lake(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """The folder as a kill leaves it: files that are not there yet, half a file under its own name, no `lake.toml`."""
    asked, root = log(tmp_path), tmp_path / "lake"
    import_log(root, asked)
    before = landed(root)
    (root / "lake.toml").unlink()
    for name in lost:
        file = root / f"{name}.parquet" if "/" in name else root / "landing" / f"{name}.parquet"
        file.rename(file.with_name(f".{file.name}.part"))
        file.with_name(f".{file.name}.part").write_bytes(b"half")
    elsewhere = replace(asked, source=os.path.relpath(asked.source))
    assert import_log(root, elsewhere).written == max(len(lost) - 1, 0)
    assert landed(root) == before
    assert not list(root.rglob("*.part"))
    assert open_lake(root).settings.source.files == "landing/*.parquet"


def test_a_log_that_changed_since_and_another_lake_are_refused(tmp_path: Path) -> None:
    asked, root = log(tmp_path), tmp_path / "lake"
    import_log(root, asked)
    log(tmp_path, rows=f"{ROWS} UNION ALL SELECT 'd', TIMESTAMP '2024-03-03', TIMESTAMP '2024-03-03', 6")
    with pytest.raises(BackfillError, match="the log has changed since"):
        import_log(root, asked)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "lake.toml").write_text("start_date = 2024-03-01")
    with pytest.raises(BackfillError, match="it is a lake already"):
        import_log(tmp_path / "other", asked)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"key": ("nothing",)}, "has no column nothing"),
        ({"columns": ("amount", "nothing")}, "has no column nothing"),
        ({"event_ts": "amount"}, "has a key and both times"),
    ],
)
def test_columns_that_do_not_fit_are_named_and_nothing_is_written(
    tmp_path: Path, asked: dict[str, Any], told: str
) -> None:
    request = ImportRequest(**{**vars(log(tmp_path)), **asked})
    with pytest.raises(BackfillError, match=f"{told}.*Nothing was (done|imported)"):
        import_log(tmp_path / "lake", request)
    assert not list((tmp_path / "lake" / "landing").iterdir())


def test_keys_that_would_become_one_text_are_refused_and_others_with_a_bar_are_not(tmp_path: Path) -> None:
    rows = "SELECT 'x|y' AS id, 'z' AS part, TIMESTAMP '2024-03-01 10:00' AS happened, happened AS came"
    twin = "SELECT 'x' AS id, 'y|z' AS part, TIMESTAMP '2024-03-01 11:00' AS happened, happened AS came"
    asked = replace(log(tmp_path, rows=rows), key=("id", "part"))
    assert import_log(tmp_path / "one", asked).keys == 1
    log(tmp_path, rows=f"{rows} UNION ALL {twin}")
    with pytest.raises(BackfillError, match="would be one"):
        import_log(tmp_path / "two", asked)
    assert not (tmp_path / "two" / "lake.toml").exists()
