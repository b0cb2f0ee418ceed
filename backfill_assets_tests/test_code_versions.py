"""The versions of the package's own code: whoever changes what makes a built-in table decides
whether rows can differ. Not here: what a version does to days (`kernel/write/test_model.py`). Where a test
fails: if the new code can give other rows from the same inputs, raise the version (`code_version`
of the table, or `kernel.write.model.LOADER_VERSION`), which makes days of before outdated; else only
correct the digest below."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest

from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.code import python_digest
from backfill_assets.kernel.write.model import LOADER, LOADER_VERSION, Table, make_pipeline
from backfill_assets.pipeline.sql_tables import sql_table
from backfill_assets.pipeline.tables import tables

LANDING, LOAD = "backfill_assets.landing", "backfill_assets.load"
# What decides the rows of raw: parsers, mapping, casts, reasons, what is kept of a file, what is
# too late.
LOADERS = (
    LOADER,
    *(
        f"{LOAD}.{name}"
        for name in (
            "counting",
            "declared_totals",
            "deliveries",
            "dumps",
            "landed_rows",
            "placing",
            "table_changes",
        )
    ),
    "backfill_assets.intake.source_log",
    "backfill_assets.intake.source_position",
    *(f"{LANDING}.{name}" for name in ("casting", "content_store", "mapping", "paths", "select")),
    f"{LANDING}.expression_types",
    f"{LANDING}.key_texts",
    f"{LANDING}.session_free",
    f"{LANDING}.limited_decoding",
    *(
        f"{LANDING}.{name}"
        for name in ("batches", "csv_records", "dialect", "ingest", "json_lines", "parquet_files")
    ),
    f"{LANDING}.tasks",
    f"{LANDING}.text_lines",
    "backfill_assets.engines.sail",
    "backfill_assets.kernel.place.folder",
    "backfill_assets.erasure.forgotten",
    "backfill_assets.erasure.heirs",
    "backfill_assets.intake.ledger",
    "backfill_assets.intake.too_late",
)
# What the loaders use to read, write and time; none of it decides a row of raw.
DECIDES_NO_ROW = {
    "engine.cache",
    "engine.confs",
    "engine.loss",
    "engine.sail_differences",
    "engine.sail_plans",
    "engine.server",
    "engine.session",
    "engine.supervisor",
    "engine.workers",
    "lake.audit",
    "lake.auditor",
    "lake.committer",
    "lake.data_files",
    "lake.embedded",
    "lake.engine_paths",
    "lake.adopted",
    "lake.file_names",
    "lake.folder",
    "lake.home",
    "lake.log_bounds",
    "lake.kept_files",
    "lake.numbers",
    "lake.whole",
    "lake.landings",
    "lake.log",
    "places.bucket",
    "places.choice",
    "places.leases",
    "places.store_errors",
    "lake.replace",
    "lake.session",
    "lake.settings",
    "lake.staging",
    "lake.store",
    "lake.versions",
    "lake.view",
    "lake.writing",
    "landing.files",
    "landing.listing",
    "lake.fingerprints",
    "landing.declared",
    "load.arrivals",
    "load.candidate",
    "load.derived",
    "landing.column_kinds",
    "landing.object_listing",
    "lake.decoding",
    "lake.sections",
    "load.judging",
    "lake.traces",
    "load.landed_changes",
    "load.scan",
    "load.steadiness",
}
PINNED = {
    "raw 1": "68b58a44b8416c388c2acab127e15948",
    "staging 2": "53bef20906033c0df3532cc9bc5cacf8",
    "staging of a table 1": "551f53ef579eb5928bffbe0f93f07a81",
    "features 1": "abee4c5c3057014d4554214e5a74c6ad",
    "features_as_known 1": "abee4c5c3057014d4554214e5a74c6ad",
    "labels 1": "cd22f7db8c3ab7758b59944ff8bde592",
    "training 1": "cfac9a3f36d3e40bde0e9e472a024861",
    "declared features 1": "abee4c5c3057014d4554214e5a74c6ad",
    "declared labels 1": "cd22f7db8c3ab7758b59944ff8bde592",
    "declared training 1": "cfac9a3f36d3e40bde0e9e472a024861",
    "sql as known 1": "64d65e847e9eb9c0cb465fa4f53bd4a9",
    "sql 1": "1d89b686e1ad0eae183296e98c96c39a",
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
    assert digests == PINNED, "rows can differ: raise the version; else: correct PINNED"


def test_no_module_that_a_loader_uses_is_forgotten() -> None:
    """A new one: name it in `LOADERS` if it decides rows of raw, else in `DECIDES_NO_ROW`."""
    loaders = {m.removeprefix("backfill_assets.") for m in LOADERS}
    used: set[str] = set()
    for name in loaders:
        for node in ast.walk(ast.parse(_content(f"backfill_assets.{name}"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "backfill_assets."
            ):
                room = str(node.module).removeprefix("backfill_assets.")
                used |= {room} if "." in room else {f"{room}.{a.name}" for a in node.names}
    assert {u for u in used if not u.startswith("core.")} - loaders - DECIDES_NO_ROW == set()
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
