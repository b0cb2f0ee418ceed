"""The versions of the package's own code: whoever changes what makes a built-in table decides
whether rows can differ. Not here: what a version does to days (`kernel/write/test_model.py`). Where
a test fails: if the new code can give other rows from the same inputs, raise the version
(`code_version` of the table, or `kernel.write.model.LOADER_VERSION`), which makes days of before
outdated; else only correct the digest below."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest

from backfill_assets import LakeSettings
from backfill_assets.kernel.write.code import python_digest
from backfill_assets.kernel.write.model import LOADER_VERSION, Table, make_pipeline
from backfill_assets.pipeline.sql_tables import sql_table
from backfill_assets.pipeline.tables import tables

# What decides the rows of raw: parsers, mapping, casts, reasons, what is kept of a file, what is
# too late.
LOADERS = (
    "backfill_assets.intake.raw",
    "backfill_assets.engines.abilities",
    "backfill_assets.engines.sail",
    "backfill_assets.intake.forgotten",
    "backfill_assets.intake.heirs",
    "backfill_assets.intake.batches",
    "backfill_assets.intake.casting",
    "backfill_assets.intake.content_store",
    "backfill_assets.intake.counting",
    "backfill_assets.intake.csv_records",
    "backfill_assets.intake.declared_totals",
    "backfill_assets.intake.deleted_rows",
    "backfill_assets.intake.deliveries",
    "backfill_assets.intake.dialect",
    "backfill_assets.intake.dumps",
    "backfill_assets.intake.expression_types",
    "backfill_assets.intake.ingest",
    "backfill_assets.intake.json_lines",
    "backfill_assets.intake.key_texts",
    "backfill_assets.intake.landed_days",
    "backfill_assets.intake.landed_rows",
    "backfill_assets.intake.ledger",
    "backfill_assets.intake.limited_decoding",
    "backfill_assets.intake.log_files",
    "backfill_assets.intake.log_reading",
    "backfill_assets.intake.mapping",
    "backfill_assets.intake.parquet_files",
    "backfill_assets.intake.paths",
    "backfill_assets.intake.placing",
    "backfill_assets.intake.select",
    "backfill_assets.intake.session_free",
    "backfill_assets.intake.source_log",
    "backfill_assets.intake.source_position",
    "backfill_assets.intake.stored_names",
    "backfill_assets.intake.table_changes",
    "backfill_assets.intake.table_rows",
    "backfill_assets.intake.tasks",
    "backfill_assets.intake.text_lines",
    "backfill_assets.intake.too_late",
    "backfill_assets.kernel.place.folder",
)
# What the loaders use to read, write and time; none of it decides a row of raw.
DECIDES_NO_ROW = {
    "intake.settings",
    "kernel.place.port",
    "kernel.place.lease_watch",
    "kernel.place.processes",
    "kernel.place.schemes",
    "kernel.tables.columns",
    "kernel.tables.table_places",
    "buckets.bucket",
    "buckets.leases",
    "buckets.store_errors",
    "reading.kept_files",
    "reading.whole",
    "engines.auditor",
    "engines.cache",
    "engines.confs",
    "engines.engine_paths",
    "engines.lake_session",
    "engines.loss",
    "engines.sail_differences",
    "engines.sail_plans",
    "engines.server",
    "engines.session",
    "engines.spark_functions",
    "engines.supervisor",
    "engines.workers",
    "intake.arrivals",
    "intake.column_kinds",
    "intake.declared",
    "intake.files",
    "intake.landed_changes",
    "intake.landings",
    "intake.listing",
    "intake.object_listing",
    "intake.scan",
    "kernel.tables.committer",
    "kernel.log.file_names",
    "kernel.log.features",
    "kernel.log.log",
    "intake.log_bounds",
    "kernel.log.log_bounds",
    "kernel.tables.versions",
    "kernel.place.choice",
    "kernel.log.adopted",
    "kernel.tables.data_files",
    "kernel.tables.folder",
    "kernel.tables.home",
    "kernel.tables.sections",
    "kernel.tables.settings",
    "kernel.tables.staging",
    "kernel.tables.store",
    "kernel.tables.view",
    "kernel.write.audit",
    "kernel.write.candidate",
    "kernel.write.derived",
    "kernel.tables.embedded",
    "kernel.tables.fingerprints",
    "kernel.write.judging",
    "kernel.write.replace",
    "engines.steadiness",
    "engines.frame_files",
    "kernel.tables.query_files",
    "kernel.write.session",
}
PINNED = {
    "raw 1": "168b981055f9a2355d3a13db68efdec1",
    "staging 2": "5d9e9f87dc820def5f1014fc9d047752",
    "staging of a table 1": "75a888d0ad900927e5163e3936270831",
    "features 1": "baa5824af6c682eecdfc5c2b57a9e28e",
    "features_as_known 1": "baa5824af6c682eecdfc5c2b57a9e28e",
    "labels 1": "fb8ea5228f297ce70e21e5ff8a832fee",
    "training 1": "8785229ea94b24fbb3e9a130b2be089a",
    "declared features 1": "baa5824af6c682eecdfc5c2b57a9e28e",
    "declared labels 1": "fb8ea5228f297ce70e21e5ff8a832fee",
    "declared training 1": "8785229ea94b24fbb3e9a130b2be089a",
    "sql as known 1": "0ca6aa52ba39ecbe695e631de10c9a9f",
    "sql 1": "4cae9dc408a8b4587d647ef89a59c870",
}
SOURCE = {"files": "*", "format": "jsonl", "select": "*"}
OF_TABLE = {"table": "orders", "select": "*"}
DECLARED = {
    "features": {"columns": [{"name": "n", "agg": "count", "days": 2}], "entity": ["entity"]},
    "labels": {"label": "sum_ahead(value) > 2"},
}
SQL = """/*
description = "Rows."
day = "day"
key = ["entity"]
columns = { entity = "STRING", day = "DATE" }
inputs = { staging = { as_known = %s } }
*/
SELECT entity, event_date AS day FROM staging
"""


def _content(module: str) -> bytes:
    spec = find_spec(module)
    assert spec is not None
    return Path(str(spec.origin)).read_bytes()


def _built_in(folder: Path) -> Iterator[Table]:
    for more in ({"source": OF_TABLE}, {}, DECLARED):
        settings = LakeSettings.model_validate(
            {"start_date": "2024-03-01", "source": SOURCE, **more}
        )
        yield from (t for t in tables(settings) if not t.is_landed)
    for known in ("true", "false"):
        path = folder / f"known_{known}.sql"
        path.write_text(SQL % known)
        yield sql_table(path, settings)


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digest over the sources of each version."""
    sources = {LOADER_VERSION: {*LOADERS}}
    for table in _built_in(tmp_path_factory.mktemp("sql")):
        assert table.code_version, f"{table.name} has no version"
        sources.setdefault(table.code_version, set()).update(
            s for s in table.sources if isinstance(s, str)
        )
    return {
        version: sha256(
            "".join(sorted(python_digest(_content(m)) for m in modules)).encode()
        ).hexdigest()[:32]
        for version, modules in sources.items()
    }


def test_the_code_of_every_version_is_as_it_was_when_it_was_last_looked_at(
    digests: dict[str, str],
) -> None:
    changed = {
        version: digest for version, digest in digests.items() if PINNED.get(version) != digest
    }
    assert digests == PINNED, (
        "where rows can differ from the same inputs, raise the version (`code_version` of the table, "
        f"`LOADER_VERSION` of raw); else write into PINNED of this file: {changed}"
    )


def _module_of(package: str, name: str) -> str:
    """The module below the package that `from package import name` reads."""
    spec = find_spec(package)
    assert spec is not None
    door = Path(str(spec.origin))
    is_module = door.name == "__init__.py" and (door.parent / f"{name}.py").is_file()
    return (f"{package}.{name}" if is_module else package).removeprefix("backfill_assets.")


@pytest.mark.whole_house
def test_no_module_that_a_loader_uses_is_forgotten() -> None:
    """A new one: name it in `LOADERS` if it decides rows of raw, else in `DECIDES_NO_ROW`."""
    loaders = {m.removeprefix("backfill_assets.") for m in LOADERS}
    used: set[str] = set()
    for name in loaders:
        for node in ast.walk(ast.parse(_content(f"backfill_assets.{name}"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "backfill_assets."
            ):
                used |= {_module_of(str(node.module), alias.name) for alias in node.names}
    assert {u for u in used if not u.startswith("kernel.core.")} - loaders - DECIDES_NO_ROW == set()
    assert [m for m in sorted(DECIDES_NO_ROW) if find_spec(f"backfill_assets.{m}") is None] == [], (
        "they are gone"
    )


def test_days_of_a_table_that_were_loaded_without_the_order_of_its_log_stay_as_good() -> None:
    settings = LakeSettings.model_validate({"start_date": "2024-03-01", "source": OF_TABLE})
    raw = next(t for t in tables(settings) if t.is_landed)
    before = replace(raw.contract, columns=tuple(c for c in raw.contract.columns if not c.is_later))
    as_before = replace(raw, contract=before, code_version="", earlier_versions=())
    now, then = (make_pipeline([t]).codes["raw"] for t in (raw, as_before))
    assert len(raw.contract.columns) > len(before.columns)
    assert now.code_digest != then.code_digest
    assert then.code_digest in now.earlier
