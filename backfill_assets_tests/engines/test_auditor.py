"""The engine counts what DuckDB counts, figure by figure, in rows of every type; and who is asked
for which files. Not here: the counting by DuckDB (`test_audit`), and whole runs with either auditor
(`kernel.write.test_derived`)."""

import math
import os
import struct
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from backfill_assets.engines.auditor import EngineAuditor, audit_by_engine
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.settings import AuditSettings
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.core.column_types import ColumnType
from backfill_assets.kernel.core.contracts import Column, Contract, Rule
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.profiles import REST, VALUES_KEPT, receipt_counts
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.sections import SparkSettings
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.write.audit import Profiles, audit_files
from backfill_assets_tests.builders import day
from backfill_assets_tests.engine_choice import wants_spark
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.strategies import examples

KINDS = (
    "BOOLEAN",
    "INT",
    "BIGINT",
    "DOUBLE",
    "DECIMAL(18,2)",
    "DECIMAL(38,10)",
    "DECIMAL(5,0)",
    "STRING",
    "DATE",
    "TIMESTAMP",
    "BINARY",
)
COLUMNS = (
    Column("day", "DATE", "d", nullable=True),
    Column("key", "BIGINT", "k", nullable=True),
    Column("x", "DOUBLE", "x", nullable=True),
    Column("few", "STRING", "f", nullable=True),
    Column("an odd name", "STRING", "s", nullable=True),
    *(Column(f"c{i}", kind, "c", nullable=True) for i, kind in enumerate(KINDS)),
    *(Column(f"a{i}", f"ARRAY<{kind}>", "a", nullable=True) for i, kind in enumerate(KINDS)),
)
RULES = (
    Rule("whole", "c1 >= 0 OR c1 IS NULL", "r"),
    Rule("money", "c4 BETWEEN -1.5 AND 20 AND NOT c5 IS NULL", "r"),
    Rule("named", "few IN ('a', 'text b') OR key = 3", "r", only_warns=True),
    Rule("texts", "`an odd name` < 'b' AND c2 <> 7 OR c6 IN (0, -5)", "r"),
    Rule("even", "c2 >= key OR key IS NULL", "r"),
    Rule("few_of_a_key", "count(*) <= 2", "r", per=("key", "c3")),
)
TABLE = Contract(
    "t", "t", COLUMNS, "day", ("key", "c3"), (), rules=RULES, read_by=(("few",), ("c3", "key"))
)
PARTS = {"some": ("day", "key", "c3"), "texts": ("day", "few", "a7")}
DOUBLES = (
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    -2.225073858507201e-308,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    2.0**62,
    -(2.0**63),
    1 - 2.0**-53,
    1 + 2.0**-52,
    7.999999999999999,
)
EXACT = Context(prec=60)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    EPOCH,
    EPOCH - timedelta(microseconds=1),
    datetime(1582, 10, 10, tzinfo=UTC),
)
texts = st.sampled_from(
    ["", "|", "-", "1:x", "é", "😀", "NULL", "a\nb", "\x00", "[", "ab" * 40]
) | st.text(max_size=6)
bits = st.integers(0, 2**64 - 1).map(lambda n: struct.unpack("<d", struct.pack("<Q", n))[0])


def decimals(kind: ColumnType) -> st.SearchStrategy[Decimal]:
    most = 10**kind.precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-kind.scale, context=EXACT))


def values(kind: ColumnType) -> st.SearchStrategy[Any]:
    """Values of a type, NULL too, the awkward ones often."""
    if kind.element is not None:
        return st.none() | st.lists(values(kind.element), max_size=3)
    near = st.integers(-9, 9)
    by_kind: dict[str, st.SearchStrategy[Any]] = {
        "BOOLEAN": st.booleans(),
        "INT": near | st.sampled_from([2**31 - 1, -(2**31)]),
        "BIGINT": near | st.sampled_from([2**63 - 1, -(2**63)]) | st.integers(-(2**62), 2**62),
        "DOUBLE": st.sampled_from(DOUBLES) | bits | st.floats(-1e6, 1e6),
        "STRING": texts,
        "DATE": st.sampled_from([m.date() for m in MOMENTS]) | st.dates(),
        "TIMESTAMP": st.sampled_from(MOMENTS) | st.datetimes(timezones=st.just(UTC)),
        "BINARY": st.binary(max_size=4),
    }
    return st.none() | (decimals(kind) if kind.kind == "DECIMAL" else by_kind[kind.kind])


cells = st.fixed_dictionaries(
    {
        "day": st.sampled_from([day(0), day(0), day(1), day(2), None]),
        "key": st.none() | st.integers(0, 4),
        "few": st.none() | st.sampled_from(["a", "a", "text b", "c" * 30]),
        "an odd name": texts | st.integers(0, 40).map(str),
        **{c.name: values(c.kind) for c in COLUMNS if c.name[1:].isdecimal() or c.name == "x"},
    }
)


@pytest.fixture(scope="module")
def lake_session(spark: object, tmp_path_factory: pytest.TempPathFactory) -> LakeSession:
    """Of the tests' engine, which `spark` opens; its lake is made after that, since a lake made by
    a test without an engine would be on Spark."""
    return LakeSession(bare_lake(tmp_path_factory.mktemp("lake")))


def receipts(found: Profiles, contract: Contract) -> dict[str, str]:
    """All that a receipt, a gate or an account may take of profiles, in its types, by day and
    figure."""
    shown: dict[str, str] = {}
    for on, p in found.items():
        of_day = {**vars(p), "kept": receipt_counts(p, contract.nullable_columns)}
        of_day["histograms"] = {
            c: dict(sorted(h.items(), key=str)) for c, h in p.histograms.items()
        }  # in no order
        shown |= {f"{on} {name}": repr(figures) for name, figures in of_day.items()}
    return shown


def both(
    lake_session: LakeSession, contract: Contract, rows: Sequence[dict[str, Any]]
) -> tuple[Profiles, Profiles]:
    """The profiles by DuckDB and by the engine, of the same files."""
    parts = {
        n: kept
        for n, some in PARTS.items()
        if (kept := tuple(c for c in some if c in contract.column_names))
    }
    staged = stage_by_hand(lake_session.lake, contract, rows)
    try:
        by_engine = audit_by_engine(lake_session, staged, contract, parts)
        return audit_files(lake_session.lake, staged.paths, contract, parts), by_engine
    finally:
        staged.drop()


def differences(
    lake_session: LakeSession, contract: Contract, rows: Sequence[dict[str, Any]]
) -> dict[str, object]:
    """Per day and figure what DuckDB and the engine say, where that differs."""
    by_duckdb, by_engine = (
        receipts(found, contract) for found in both(lake_session, contract, rows)
    )
    of_days = sorted({*by_duckdb, *by_engine})
    return {
        d: pair
        for d in of_days
        if (pair := (by_duckdb.get(d), by_engine.get(d))) and pair[0] != pair[1]
    }


NOTHING = dict.fromkeys((c.name for c in COLUMNS), None)
EDGES: list[dict[str, Any]] = [
    {**NOTHING, "day": day(n % 2), "x": x, "c3": x} for n, x in enumerate(DOUBLES)
]


@pytest.mark.users_do
@settings(max_examples=2 if wants_spark() else examples(8), phases=[Phase.explicit, Phase.generate])
@given(st.lists(cells, min_size=1, max_size=40))
@example(EDGES)
def test_every_figure_of_a_day_is_duckdbs_for_any_rows(
    lake_session: LakeSession, rows: list[dict[str, Any]]
) -> None:
    assert not differences(lake_session, TABLE, rows)


NARROW = Contract(
    "n",
    "n",
    (*COLUMNS[:2], Column("entity", "STRING", "e"), Column("text", "STRING", "t")),
    "day",
    (),
    (),
)
WIDE = replace(
    TABLE,
    columns=tuple(c for c in COLUMNS if c.name in ("day", "key", "c3", "few", "a7")),
    rules=(),
)


def test_frequent_texts_are_named_on_the_same_days_though_duckdb_only_estimates(
    lake_session: LakeSession,
) -> None:
    """Days of 31 to 33 texts, each in its sample of rows, one of few and one of many texts.
    Entities are not named."""
    many = {day(n): 31 + n % 3 for n in range(12)} | {day(20): 5, day(21): 100}
    rows = [
        {"day": on, "key": i, "entity": "e", "text": f"{on} {i % several}"}
        for on, several in many.items()
        for i in range(100 * several)
    ]
    found, _ = both(lake_session, NARROW, rows)
    assert not differences(lake_session, NARROW, rows)
    unnamed = [several for on, several in many.items() if [*found[on].histograms["text"]] == [REST]]
    assert min(unnamed) <= 2 * VALUES_KEPT < max(unnamed), "DuckDB takes 32 for 33, mostly"
    assert not any("entity" in p.histograms for p in found.values())


def test_a_table_without_rows_rules_keys_or_a_layout_by_day_is_counted_alike(
    lake_session: LakeSession,
) -> None:
    values = {"key": None, "c3": -0.0, "few": None, "a7": [None, "x"]}
    rows = [{"day": on, **values, "key": key} for on in (day(0), None) for key in (1, 1, 2)]
    assert not differences(lake_session, replace(WIDE, key=(), read_by=()), rows)
    assert not differences(lake_session, replace(WIDE, day_column="day"), [rows[-1]])
    assert both(lake_session, WIDE, []) == ({}, {})


CLUSTER = SparkSettings(engine="sc://elsewhere:15002")


def sized(staged: Staged, mib: int) -> Staged:
    """The staging with files of so many MiB, holes all of them."""
    for file in staged.files:
        os.truncate(file.path, mib << 20)
    return staged


def chosen(
    lake: Lake, staged: Staged, contract: Contract, spark: SparkSettings, **audit: Any
) -> str:
    settings = lake.settings.model_copy(update={"spark": spark, "audit": AuditSettings(**audit)})
    auditor = LakeSession(replace(lake, settings=settings)).auditor(contract, staged.files)
    return "engine" if isinstance(auditor, EngineAuditor) else "duckdb"


def test_the_engine_is_asked_on_a_cluster_for_large_files_and_else_duckdb(lake: Lake) -> None:
    staged = stage_by_hand(lake, NARROW, [{"day": day(0), "key": 1, "entity": "e", "text": "t"}])
    small, here = sized(staged, 3), SparkSettings()
    assert (
        chosen(lake, small, NARROW, CLUSTER)
        == chosen(lake, small, NARROW, here, engine_from_mib=2)
        == "duckdb"
    )
    assert chosen(lake, small, NARROW, CLUSTER, engine_from_mib=3) == "engine"
    assert chosen(lake, small, NARROW, CLUSTER, engine_from_mib=4) == "duckdb"
    assert chosen(lake, small, NARROW, CLUSTER, engine_from_mib=0, engine="duckdb") == "duckdb"
    assert chosen(lake, small, NARROW, here, engine="engine") == "engine"
    staged.drop()


@pytest.mark.whole_house
def test_of_a_lake_in_a_bucket_the_engine_is_asked_sooner(lake: Lake) -> None:
    staged = stage_by_hand(lake, NARROW, [{"day": day(0), "key": 1, "entity": "e", "text": "t"}])
    small = sized(staged, 3)
    in_bucket = replace(lake, root=local_root("s3://bucket/lake"))
    assert chosen(in_bucket, small, NARROW, CLUSTER, engine_from_mib=192) == "engine", (
        "DuckDB would fetch the files"
    )
    assert chosen(in_bucket, small, NARROW, CLUSTER, engine_from_mib=256) == "duckdb"
    assert chosen(in_bucket, small, NARROW, SparkSettings(), engine_from_mib=0) == "duckdb"
    staged.drop()


def test_what_only_duckdb_can_judge_stays_with_it_or_is_refused_by_name(lake: Lake) -> None:
    rule = Rule("is_text", "length(text) > 0", "r")
    monthly = replace(
        NARROW, columns=(*NARROW.columns, Column("month", "STRING", "m")), partition_by="month"
    )
    row = {"day": day(0), "key": 1, "entity": "e", "text": "t", "month": "2024-02"}
    for contract, why in (
        (
            replace(NARROW, rules=(rule,)),
            r"engines may judge the rule is_text \(length\(text\) > 0\) differently",
        ),
        (monthly, "its files are laid out by month"),
    ):
        staged = stage_by_hand(lake, contract, [{c: row[c] for c in contract.column_names}])
        assert chosen(lake, staged, contract, CLUSTER, engine_from_mib=0) == "duckdb"
        with pytest.raises(
            SettingsError,
            match=f"the table n can be audited by DuckDB only: {why}. Nothing was written",
        ):
            chosen(lake, staged, contract, CLUSTER, engine="engine")
        staged.drop()
