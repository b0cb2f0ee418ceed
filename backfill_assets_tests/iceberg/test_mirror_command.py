"""`backfill-assets mirror` brings a folder up to a table of a catalog that pyiceberg knows, or says why
not. Not here: the mirror itself (`test_mirror`)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from moto import mock_aws
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog

from backfill_assets.cli.app import app
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.iceberg.rest_catalog import SECRET, TOKEN, rest_catalog

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlCatalog:
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__WAREHOUSE", warehouse)
    found = SqlCatalog("shop", uri=uri, warehouse=warehouse)
    found.create_namespace("sales")
    return found


def run(lake: Lake, *words: str) -> Result:
    return CliRunner().invoke(app, ["--lake", str(lake.root), "mirror", *words])


def test_a_folder_beside_the_lake_is_brought_up_to_the_table(
    lake: Lake, catalog: SqlCatalog
) -> None:
    catalog.create_table("sales.orders", ROWS.schema).append(ROWS)
    first = run(lake, "shop.sales.orders", "mirror")
    assert first.exit_code == 0, first.output
    assert "1 snapshot(s), 1 file(s) copied: version 0" in first.output
    assert [*(lake.root / "mirror" / "_delta_log").iterdir()]
    again = json.loads(run(lake, "shop.sales.orders", "mirror", "--json").stdout)
    assert (again["snapshots"], again["version"]) == (0, 0)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("shop.sales.absent", "the catalog shop does not give it"),
        ("nowhere.sales.orders", "the catalog nowhere does not give it"),
        ("shop.orders", "use CATALOG.NAMESPACE.TABLE"),
    ],
)
def test_a_table_that_no_catalog_has_is_refused(
    lake: Lake, catalog: SqlCatalog, name: str, told: str
) -> None:
    found = run(lake, name, "mirror")
    assert (found.exit_code != 0, told in " ".join(found.output.split())) == (True, True), (
        found.output
    )


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("sqlite:////absent/catalog.db", "unable to open database file"),
        ("postgresql+absent://ada:s3cret@127.0.0.1:9/catalog", "postgresql"),
    ],
)
def test_a_database_that_cannot_be_asked_is_refused_in_one_sentence_without_its_password(
    lake: Lake, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, uri: str, told: str
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", uri)
    found = run(lake, "shop.sales.orders", "mirror")
    assert isinstance(found.exception, SystemExit), found.exception
    said = " ".join(found.output.split())
    assert "the catalog shop does not give it" in said, said
    assert (told in said, "s3cret" in said) == (True, False), said


def test_a_table_of_a_glue_catalog_is_mirrored(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "PYICEBERG_CATALOG__GLUED__TYPE": "glue",
    }.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        glue = load_catalog("glued", type="glue", warehouse=f"file://{tmp_path}/glue")
        glue.create_namespace("sales")
        glue.create_table("sales.orders", ROWS.schema).append(ROWS)
        first = run(lake, "glued.sales.orders", "mirror")
        absent = run(lake, "glued.sales.absent", "mirror")
    assert "1 snapshot(s), 1 file(s) copied: version 0" in first.output, first.output
    assert "the catalog glued does not give it" in " ".join(absent.output.split()), absent.output


@pytest.fixture
def rest(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A REST catalog called `far` with the tables of `catalog`, known by variables alone."""
    with rest_catalog(catalog) as address:
        monkeypatch.setenv("PYICEBERG_CATALOG__FAR__URI", address)
        monkeypatch.setenv("PYICEBERG_CATALOG__FAR__TOKEN", TOKEN)
        yield address


def test_a_table_of_a_rest_catalog_is_mirrored(lake: Lake, catalog: SqlCatalog, rest: str) -> None:
    table = catalog.create_table("sales.orders", ROWS.schema)
    table.append(ROWS)
    first = run(lake, "far.sales.orders", "mirror")
    assert (first.exit_code, TOKEN in first.output) == (0, False), first.output
    assert "1 snapshot(s), 1 file(s) copied: version 0" in first.output
    table.append(ROWS)
    assert (
        "1 snapshot(s), 1 file(s) copied: version 1"
        in run(lake, "far.sales.orders", "mirror").output
    )


def test_a_catalog_that_gives_tokens_for_a_name_and_a_secret_is_asked_for_one(
    lake: Lake, catalog: SqlCatalog, rest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_table("sales.orders", ROWS.schema).append(ROWS)
    monkeypatch.delenv("PYICEBERG_CATALOG__FAR__TOKEN")
    monkeypatch.setenv("PYICEBERG_CATALOG__FAR__OAUTH2_SERVER_URI", f"{rest}/tokens")
    monkeypatch.setenv("PYICEBERG_CATALOG__FAR__CREDENTIAL", f"ada:{SECRET}")
    first = run(lake, "far.sales.orders", "mirror")
    assert "1 snapshot(s), 1 file(s) copied: version 0" in first.output, first.output
    monkeypatch.setenv("PYICEBERG_CATALOG__FAR__CREDENTIAL", f"ada:other-{SECRET}")
    denied = run(lake, "far.sales.orders", "mirror")
    assert "the catalog far does not give it" in " ".join(denied.output.split()), denied.output
    assert SECRET not in denied.output


def test_what_a_rest_catalog_does_not_give_is_refused_without_its_token(
    lake: Lake, rest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = run(lake, "far.sales.absent", "mirror")
    monkeypatch.setenv("PYICEBERG_CATALOG__FAR__TOKEN", f"other-{TOKEN}")
    denied = run(lake, "far.sales.absent", "mirror")
    monkeypatch.setenv("PYICEBERG_CATALOG__FAR__URI", "http://127.0.0.1:9")
    unreachable = run(lake, "far.sales.absent", "mirror")
    for found in (absent, denied, unreachable):
        assert isinstance(found.exception, SystemExit), found.output
        assert "the catalog far does not give it" in " ".join(found.output.split()), found.output
        assert TOKEN not in found.output
