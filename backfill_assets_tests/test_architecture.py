"""Who may know what, beyond the order of the rooms, which import-linter holds (`pyproject.toml`).
Not here: sizes, signs and the top level of the repository (`test_house.py`). Only syntax trees are
read: nothing is imported, nothing starts."""

import ast
import re
import sys
from collections.abc import Iterable

import pytest

from backfill_assets_tests.sources import PACKAGE, TESTS, Source, sources

OF_DAGSTER = ("dagster_private", "dagster_private_ui", "event_storage")
DAGSTER_PRIVATE_ADAPTER = {f"{PACKAGE}/dagster/adapter/{name}.py" for name in OF_DAGSTER}


KERNEL = ("kernel/core", "kernel/place", "kernel/log", "kernel/tables", "kernel/write")


def _within(module: str, parents: Iterable[str]) -> bool:
    return any(module == parent or module.startswith(f"{parent}.") for parent in parents)


def _offences(files: Iterable[Source], forbidden: Iterable[str]) -> list[str]:
    parents = tuple(forbidden)
    return sorted(
        {
            f"{f.place}:{i.line} imports {i.module}"
            for f in files
            for i in f.imports
            if _within(i.module, parents)
        }
    )


def _naming(*words: str) -> list[Source]:
    """The files that hold all of these words, tests too; the others are not parsed."""
    return [f for f in sources(PACKAGE, TESTS) if all(word in f.text for word in words)]


def _room(*rooms: str) -> list[Source]:
    return [f for f in sources(PACKAGE) if f.room in rooms]


def test_the_package_itself_imports_none_of_its_rooms_unless_a_name_is_asked_for() -> None:
    (package,) = [f for f in sources(PACKAGE) if not f.room]
    when_imported = [
        node for node in package.tree.body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    light = {
        *sys.stdlib_module_names,
        "backfill_assets.kernel.core.rooms",
    }  # which imports the names once they are asked for
    assert not [
        ast.unparse(node) for node in when_imported if getattr(node, "module", "") not in light
    ]


def test_the_rooms_do_not_go_through_the_public_surface() -> None:
    """It names what users may import; a room that went through it would hide which room it
    needs."""
    offences = [
        f"{f.place}:{node.lineno}"
        for f in sources(PACKAGE)
        for node in f.of(ast.ImportFrom, ast.Import)
        if (isinstance(node, ast.ImportFrom) and node.module == PACKAGE and not node.level)
        or (isinstance(node, ast.Import) and PACKAGE in [alias.name for alias in node.names])
    ]
    assert not offences


def test_core_knows_the_standard_library_only() -> None:
    known = {*sys.stdlib_module_names, PACKAGE}
    offences = [
        f"{f.place}:{i.line} imports {i.module}"
        for f in _room("kernel/core")
        for i in f.imports
        if i.module.split(".")[0] not in known
    ]
    assert not offences


def test_transforms_know_core_and_pyspark_only() -> None:
    home = f"{PACKAGE}.pipeline.transforms"
    allowed = ("pyspark", f"{PACKAGE}.kernel.core", home, *sys.stdlib_module_names)
    offences = [
        f"{f.place}:{i.line} imports {i.module}"
        for f in sources(PACKAGE)
        if _within(f.module, (home,))
        for i in f.imports
        if not _within(i.module, allowed)
    ]
    assert not offences


# Rooms that know the six tables: those that make them, and the doors.
KNOWING_TABLES = ("", "cli", "dagster", "definitions", "learn", "pipeline", "reading", "testing")
# Which tables a lake has, and the files of their code.
ASKING = tuple(
    f"{PACKAGE}.pipeline.{module}" for module in ("chosen", "lake_pipeline", "own_files")
)


def test_rooms_ask_which_tables_a_lake_has_and_know_none_by_name() -> None:
    others = [f for f in sources(PACKAGE) if f.room not in KNOWING_TABLES]
    offences = [
        f"{f.place}:{i.line} imports {i.module}"
        for f in others
        for i in f.imports
        if _within(i.module, (f"{PACKAGE}.pipeline",)) and not _within(i.module, ASKING)
    ]
    assert not offences


def test_dagsters_private_modules_stay_in_one_adapter() -> None:
    elsewhere = [
        f for f in _naming("import", "dagster", "_") if f.place not in DAGSTER_PRIVATE_ADAPTER
    ]
    offences = [
        f"{f.place}:{i.line}"
        for f in elsewhere
        for i in f.imports
        if i.module.startswith("dagster._")
    ]
    assert not offences


def test_spark_connects_own_modules_stay_in_the_engine() -> None:
    elsewhere = [f for f in _naming("pyspark", "connect") if f.room != "engines"]
    assert not _offences(elsewhere, ("pyspark.sql.connect",))


def test_of_the_second_engine_only_its_plug_and_the_list_of_engines_know() -> None:
    """The others ask an engine's abilities (`engines.abilities`), so that a third one is a file
    and its line in the list."""
    plug = {"sail", "sail_differences", "sail_plans"}
    knowing = {
        f.module.split(".")[-1]
        for f in sources(PACKAGE)
        if re.search(r"\bsail\b", f.text, re.IGNORECASE)
    }
    assert knowing == plug | {"confs", "engines", "server"}


def test_files_that_dagster_inspects_have_real_annotations() -> None:
    """Dagster looks at annotations as objects; the future import would hand it strings."""
    offences = [
        f.place
        for f in _naming("dagster", "__future__")
        if any(_within(i.module, ("dagster",)) for i in f.imports)
        and any(i.module == "__future__.annotations" for i in f.imports)
    ]
    assert not offences


def test_contracts_have_no_floating_point_types() -> None:
    """Sums of floats depend on their order, and so would fingerprints: our own contracts hold
    integers, text and times.

    What a person declares may hold them: such columns are summed as decimals
    (`transforms.measures`).
    """
    named = (
        "contract",
        "model",
        "tables",
        "features",
        "labels",
        "sums",
        "windows",
        "training",
        "staging",
    )
    contracts = [
        f
        for f in _room("pipeline", "assets", "foreign", *KERNEL)
        if any(n in f.place.split("/")[-1] for n in named)
    ]
    floating = {"float", "double", "real"}
    offences = [
        f"{f.place}:{node.lineno} {node.value!r}"
        for f in contracts
        for node in f.texts
        if str(node.value).strip().lower() in floating
    ]
    assert not offences
    assert not [
        f"{f.place}:{i.line}"
        for f in contracts
        for i in f.imports
        if i.module.endswith((".FloatType", ".DoubleType"))
    ]


# The one place that spells the machinery's own tables.
LEDGER_NAMES = f"{PACKAGE}/kernel/core/ledgers.py"
# A table's name inside SQL, a command or an error.
NAMING = r"(?:FROM|JOIN|--tables|the table) (?:{})\b"


def _table_names() -> frozenset[str]:
    """The first text of every contract that the product makes, and the names of the machinery's
    tables."""
    tables = [f for f in sources(PACKAGE) if f.place.startswith(f"{PACKAGE}/pipeline/daily/")]
    calls = [n for table in tables for n in table.of(ast.Call)]
    named = [c.args[0] for c in calls if ast.unparse(c.func) == "Contract"]
    named += [k.value for c in calls for k in c.keywords if k.arg == "name"]
    first = [n.value for text in named for n in ast.walk(text) if isinstance(n, ast.Constant)]
    ledgers = next(f for f in sources(PACKAGE) if f.place == LEDGER_NAMES)
    assigned = [
        n.value.value
        for n in ledgers.tree.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)
    ]
    return frozenset(map(str, [*first, *assigned]))


def _spelled(source: Source, names: frozenset[str]) -> list[str]:
    """Where a text is a table's name, or names one to an engine or a person. Spared are docstrings,
    keys of dicts in the making (names of what is told, as in JSON) and choices of a setting
    (`Literal`)."""
    spared = {id(k) for n in source.of(ast.Dict) for k in n.keys}
    spared |= {id(n.value) for n in source.of(ast.Expr)}
    choices = [n for n in source.of(ast.Subscript) if ast.unparse(n.value) == "Literal"]
    spared |= {id(c) for n in choices for c in ast.walk(n)}
    naming = re.compile(NAMING.format("|".join(sorted(names))))
    return [
        f"{n.lineno} {str(n.value)[:60]!r}"
        for n in source.texts
        if id(n) not in spared and (n.value in names or naming.search(str(n.value)))
    ]


def test_below_the_pipeline_no_table_is_known_by_its_name() -> None:
    """They are known by facts of their contracts (`is_landed`, `reads`), the ledgers by
    `kernel.core.ledgers`."""
    names = _table_names()
    assert {"raw", "features_as_known", "training", "too_late"} <= names
    rooms = [f for f in sources(PACKAGE) if f.room != "pipeline" and f.place != LEDGER_NAMES]
    assert not [f"{f.place}:{found}" for f in rooms for found in _spelled(f, names)]


# How tables are kept on a file system: what only the adapter of the port of storage
# (`kernel.tables.store`) may know.
PIECES = ("tables.committer", "log.log", "log.log_state", "log.state_files")
KEEPING = tuple(f"{PACKAGE}.kernel.{m}" for m in PIECES)
LOG = "_delta_log"
KEPT = ("table_place", "DeltaTable", "QueryBuilder", "commit_files", "commit_receipt")
UNSAFE = f"{PACKAGE}/learn/lab_lakes.py"  # other programs' writes, on throw-away lakes
# Modules of other rooms that alone there know tables by their logs: the data files that snapshots
# keep, and days put back.
KEEPING_FILES = (f"{PACKAGE}/reading/kept_files.py", f"{PACKAGE}/plans/restore.py")
# Rooms in which tables, or tables of others, are opened by their logs.
KEEPERS = (
    *KERNEL,
    "assets",
    "buckets",
    "candidates",
    "engines",
    "erasure",
    "foreign",
    "iceberg",
    "intake",
    "upkeep",
)
UNOPENED = ("log.log", "log.log.Commit", "log.log.LiveFile")  # plain values


def test_outside_the_lakes_room_nobody_knows_how_or_where_tables_are_kept() -> None:
    """Tables are asked of `kernel.tables.store` by name, so that an object store has its place."""
    others = [
        f
        for f in sources(PACKAGE)
        if f.room not in KEEPERS and f.place not in (UNSAFE, *KEEPING_FILES)
    ]
    imported = _offences(others, ("deltalake", *KEEPING))
    offences = [o for o in imported if not o.endswith(UNOPENED)]
    for file in others:
        offences += [
            f"{file.place}:{n.lineno} {n.attr}" for n in file.of(ast.Attribute) if n.attr in KEPT
        ]
        offences += [f"{file.place}:{n.lineno} {n.id}" for n in file.of(ast.Name) if n.id in KEPT]
        offences += [
            f"{file.place}:{n.lineno} {n.value!r}"
            for n in file.of(ast.Constant)
            if LOG in str(n.value)
        ]
    assert not offences


SPARKS_WRITERS = (
    "save",
    "saveAsTable",
    "insertInto",
    "writeTo",
    "createOrReplace",
    "overwritePartitions",
)
COMMITS = ("create_write_transaction", "write_deltalake")
# Their statements are for a database or a catalog elsewhere, never for a table of the lake.
ELSEWHERE = ("export/export_sinks", "cli/sql_command", "learn/lab_loads", "foreign/catalog")
WRITES_ELSEWHERE = tuple(f"{PACKAGE}/{place}.py" for place in ELSEWHERE)
STATEMENTS_THAT_WRITE = (
    "replaceWhere",
    "INSERT INTO",
    "MERGE INTO",
    "CREATE TABLE",
    "DELETE FROM",
    "RESTORE TABLE",
)


def test_only_the_committer_writes_tables() -> None:
    """Spark writes plain Parquet (`staging`); tables change by commits of `kernel.tables.committer`
    alone."""
    offences = [
        f"{f.place}:{node.lineno} {node.attr}"
        for f in sources(PACKAGE)
        for node in f.of(ast.Attribute)
        if node.attr in SPARKS_WRITERS
    ]
    offences += [
        f"{f.place}:{node.lineno} {word}"
        for f in sources(PACKAGE)
        for node in f.texts
        for word in STATEMENTS_THAT_WRITE
        if word in str(node.value) and f.place not in WRITES_ELSEWHERE
    ]
    committing = {
        f.place for f in sources(PACKAGE) for n in f.of(ast.Attribute) if n.attr in COMMITS
    }
    assert not offences
    assert committing == {f"{PACKAGE}/kernel/tables/committer.py"}


def test_in_the_lakes_room_only_the_pieces_of_the_adapter_know_where_a_table_lies() -> None:
    knowing = {
        "auditor",
        "damaged_files",
        "data_files",
        "folder",
        "housekeeping",
        "inspection",
        "observing",
        "restore",
        "staging",
        "store",
        "query_files",
        "table_frames",
        "committer",
        "kept_files",
        "adoptable",
        "adopting",
        "forgotten",
    }
    named = {
        f.module.split(".")[-1]
        for f in sources(PACKAGE)
        if ".table_place(" in f.text and f.place != UNSAFE
    }
    assert named - knowing == set(), "ask `kernel.tables.store` for the table by its name"


WRITERS_VERBS = (
    "mode",
    "format",
    "option",
    "options",
    "partitionBy",
    "parquet",
    "save",
    "saveAsTable",
    "insertInto",
)


@pytest.mark.whole_house
def test_frames_are_written_only_where_their_rows_are_counted() -> None:
    """What machines elsewhere write without a count is lost in silence where one of them sees
    another folder (`engines.workers`). Further writers hand their write to
    `engines.session.written_rows`, too, and stand here."""
    counted = {
        "engines/workers",
        "engines/foreign",
        "engines/frame_files",
        "assets/given_rows",
        "intake/landed_rows",
    }
    writers = {
        f.place.removeprefix(f"{PACKAGE}/").removesuffix(".py")
        for f in sources(PACKAGE)
        for node in f.of(ast.Attribute)
        if isinstance(node.value, ast.Attribute)
        and node.value.attr == "write"
        and node.attr in WRITERS_VERBS
    }
    assert writers == counted
