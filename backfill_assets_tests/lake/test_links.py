"""Folders of links: what an engine reads off them. Does not live here: engines that read them (`end_to_end`)."""

from pathlib import Path

from backfill_assets.lake.links import linked


def test_every_file_lies_once_below_its_value_even_where_names_are_equal(tmp_path: Path) -> None:
    files = []
    for write in ("one", "two"):
        path = tmp_path / write / "part-0.parquet"
        path.parent.mkdir()
        path.write_text(write)
        files.append(("2024-03-01", path))
    folder = linked(tmp_path, "day", files)
    assert sorted(p.read_text() for p in (folder / "day=2024-03-01").iterdir()) == ["one", "two"]
    assert linked(tmp_path, "day", files) != folder
