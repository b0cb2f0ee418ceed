"""`backfill-assets example` lists the examples and makes one of them, for people and for programs. No JVM."""

import json
from pathlib import Path

from click.testing import CliRunner

from backfill_assets.cli.app import app


def test_the_list_names_each_example_and_the_next_command() -> None:
    result = CliRunner().invoke(app, ["example"])
    assert result.exit_code == 0, result.output
    assert "orders" in result.stdout
    assert "example NAME --lake DIR" in result.stdout
    assert "orders" in json.loads(CliRunner().invoke(app, ["example", "--json"]).stdout)


def test_one_is_made_where_there_is_nothing_and_the_steps_are_pointed_to(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["example", "orders", "--lake", str(tmp_path / "shop")])
    assert made.exit_code == 0, made.output
    assert f"Read {tmp_path / 'shop' / 'STEPS.md'}" in made.stdout
    again = CliRunner().invoke(app, ["example", "orders", "--lake", str(tmp_path / "shop")])
    assert (again.exit_code, "the folder is not empty" in again.stderr) == (2, True)
    told = CliRunner().invoke(app, ["example", "orders", "--lake", str(tmp_path / "other"), "--json"])
    assert json.loads(told.stdout)["steps"] == str(tmp_path / "other" / "STEPS.md")
