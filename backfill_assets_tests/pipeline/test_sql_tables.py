"""Tables written as SQL: the header becomes a contract, the query a pure transform; mistakes are
told by file and line.

Tested here: `pipeline.sql_tables`. Not tested here: that a run makes their days
(`end_to_end.test_own_tables`).
"""

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from backfill_assets.kernel.core.contracts import Input, InputKind, Rule
from backfill_assets.kernel.core.days import day_range
from backfill_assets.kernel.core.errors import ContractBroken, SettingsError
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.write.model import Chunk, Table
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.sql_tables import sql_table
from backfill_assets_tests.engine_choice import DataFrame, SparkSession
from backfill_assets_tests.files import SMALLEST, bare_lake

pytestmark = pytest.mark.on_spark("its SQL is refused by name on Sail")
SPENDING = """
/*
description = "Money per customer and day, over two days."
day = "day"
key = ["customer"]
columns = { customer = "STRING -- whose", day = "DATE", spent = "BIGINT NULL -- how much" }
inputs = { staging = { before = 1 } }
parameters = { least = 2 }
*/
SELECT entity AS customer, d AS day, sum(value) AS spent  -- {not a placeholder}
FROM staging LATERAL VIEW explode(sequence(event_date, date_add(event_date, 1))) t AS d
WHERE known_until IS NULL AND value >= :least
GROUP BY ALL;
"""
KNOWN = (
    SPENDING.replace("before = 1", "before = 1, as_known = true")
    .replace(
        "LATERAL VIEW explode(sequence(event_date, date_add(event_date, 1))) t AS d\nWHERE "
        "known_until IS NULL AND",
        "WHERE",
    )
    .replace("d AS day", "known_on AS day")
)
SCHEMA = (
    "event_key string, entity string, value bigint, known_from timestamp, known_until timestamp, "
    "event_date date"
)


def written(folder: Path, text: str = SPENDING) -> Table:
    lake = bare_lake(folder)
    (folder / "spending.sql").write_text(text)
    return sql_table(folder / "spending.sql", lake.settings)


def test_the_header_is_the_contract(tmp_path: Path) -> None:
    table = written(tmp_path)
    contract = table.contract
    assert (contract.name, contract.day_column, contract.key) == ("spending", "day", ("customer",))
    assert contract.inputs == (Input("staging", before=1),)
    assert [(c.name, c.type, c.nullable, c.description) for c in contract.columns] == [
        ("customer", "STRING", False, "whose"),
        ("day", "DATE", False, "day"),
        ("spent", "BIGINT", True, "how much"),
    ]
    assert table.settings == {"least": 2}
    assert table.brings_code
    known = written(tmp_path, KNOWN).contract
    assert (known.inputs[0].kind, known.waits_for_cut) == (InputKind.KNOWN_AT_CUT, True)


def test_rules_of_rows_and_of_groups_stand_in_the_header(tmp_path: Path) -> None:
    told = """
[rules]
paid = "spent >= 0 -- money is not negative"
named = "length(customer) > 0"
few = { expression = "count(*) <= 3", per = ["day"], only_warns = true, description = "few customers" }
*/"""
    assert written(tmp_path, SPENDING.replace("*/", told, 1)).contract.rules == (
        Rule("paid", "spent >= 0", "money is not negative"),
        Rule("named", "length(customer) > 0", "named"),
        Rule("few", "count(*) <= 3", "few customers", ("day",), only_warns=True),
    )


def test_an_edit_makes_it_outdated_and_a_comment_or_a_line_break_does_not(tmp_path: Path) -> None:
    (bare_lake(tmp_path).root / "lake.toml").write_text(f'{SMALLEST}[pipeline]\nsql = "*.sql"\n')

    def digest(text: str) -> str:
        (tmp_path / "spending.sql").write_text(text)
        return chosen_pipeline(open_lake(tmp_path)).codes["spending"].code_digest

    before = digest(SPENDING)
    assert digest(SPENDING.replace("{not a placeholder}", "another\n")) == before
    assert digest(SPENDING.replace("sum(value)", "max(value)")) != before
    assert digest(SPENDING.replace("before = 1", "before = 2")) != before
    assert (
        digest(SPENDING.replace("*/", 'rules = { paid = "spent >= 0" }\n*/', 1)) == before
    )  # rules judge, not make


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("/*", "--", "it has no header"),
        ('day = "day"\n', "", "day: Field required"),
        ('key = ["customer"]', "key = []", "key: it names 0, and at least 1 is needed"),
        ('key = ["customer"]', 'key = ["spent"]', "its key may be NULL in spent"),
        ('key = ["customer"]', 'key = ["nix"]', "day column and key must be columns"),
        ('description = "Money', "description = Money", r"its header is not TOML: .*line 3"),
        ("STRING -- whose", "", "columns.customer: '' is not `TYPE"),
        ("least = 2", "first_day = 2", "first_day says the days"),
        (
            "*/",
            "rules = { paid = 'gone > 0' }\n*/",
            r"the rule paid of .* has no column gone\. Nothing was done\. Write",
        ),
        ("*/", "rules = { paid = 'spent >' }\n*/", "the rule paid of .*: it is no expression"),
        (
            "*/",
            "rules = { paid = { per = ['day'] } }\n*/",
            "rules.paid._Rule.expression: Field required",
        ),
        (
            "before = 1",
            "joined = { staging = {} }",
            "inputs.staging: `joined` names other inputs, and `by`",
        ),
        ("before = 1", "salt = 2", "input staging: .* a choice against skew needs `by`"),
        (
            "before = 1",
            "before = -1",
            "inputs.staging.before: Input should be greater than or equal to 0",
        ),
    ],
)
def test_a_mistake_in_the_header_is_told_with_the_file(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert old in SPENDING
    with pytest.raises(SettingsError, match=rf"spending\.sql: .*{told}"):
        written(tmp_path, SPENDING.replace(old, new, 1))


@pytest.mark.slow
def test_parameters_stand_as_literals_where_they_are_meant(tmp_path: Path) -> None:
    """Spark Connect takes frames or parameters with a query, not both."""
    asked: list[str] = []
    session = SimpleNamespace(
        sql=lambda text, _, **frames: asked.append(text.format(**dict.fromkeys(frames, "F")))
    )
    query = (
        "SELECT x:least, ':least', '{}' FROM staging WHERE value>=:least AND d=:first_day AND "
        "t<:frontier AND n=:name"
    )
    text = (
        SPENDING.partition("SELECT")[0].replace("least = 2", """least = 2, name = "it's" """)
        + query
    )
    transform = written(tmp_path, text).transform
    assert transform is not None
    chunk = Chunk(day_range("2024-03-02"), datetime(2024, 4, 1, tzinfo=UTC))
    transform(
        {"staging": cast("DataFrame", SimpleNamespace(sparkSession=session, dtypes=[]))}, chunk
    )
    assert (
        "SELECT x:least, ':least', '{}' FROM staging WHERE value>=2 AND d=DATE '2024-03-02' AND "
        r"t<TIMESTAMP '2024-04-01 00:00:00.000000Z' AND n='it\'s'"
    ) in asked[0]
    assert asked[0].startswith("WITH `staging` AS (SELECT * FROM F) SELECT * FROM (")


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("known_from < TIMESTAMP 'now'", "takes its date from the clock"),
        ("known_from > event_key", "makes a time of the text event_key"),
        ("try_cast(event_key AS timestamp) IS NOT NULL", ""),
        ("event_key = '${env:HOME}'", ""),
        ("event_key <> user", "no column of its inputs is named user"),
        ("upper(`current_catalog`) <> entity", "no column of its inputs is named current_catalog"),
    ],
)
def test_nothing_of_the_session_enters_a_row(
    spark: "SparkSession", tmp_path: Path, expression: str, why: str
) -> None:
    moment = datetime(2024, 3, 1, 12, tzinfo=UTC)
    rows = [
        (key, "A", 2, moment, None, date(2024, 3, 1))
        for key in ("10:30:00", "${env:HOME}", "${system:user.name}")
    ]
    query = (
        "SELECT entity AS customer, event_date AS day, value AS spent FROM staging WHERE "
        f"{expression}"
    )
    transform = written(tmp_path, SPENDING.partition("SELECT")[0] + query).transform
    assert transform is not None
    frames = {"staging": spark.createDataFrame(rows, SCHEMA)}
    chunk = Chunk(day_range("2024-03-01"), moment)
    if why:
        with pytest.raises(ContractBroken, match=why):
            transform(frames, chunk)
    else:
        assert transform(frames, chunk).count() == ("HOME" in expression)


def test_the_query_sees_inputs_parameters_and_days_and_gives_no_others(
    spark: "SparkSession", tmp_path: Path
) -> None:
    at = [datetime(2024, 3, n, 12, tzinfo=UTC) for n in range(1, 8)]
    rows = [
        ("a", "A", 2, at[0], None, date(2024, 3, 1)),
        ("b", "A", 1, at[0], None, date(2024, 3, 1)),  # less than least
        ("c", "A", 5, at[1], at[4], date(2024, 3, 2)),
        ("c", "A", 7, at[4], None, date(2024, 3, 2)),  # a correction, on the 5th
    ]
    frames = {"staging": spark.createDataFrame(rows, SCHEMA)}
    chunk = Chunk(day_range("2024-03-02", "2024-03-03"), at[6])

    def made(text: str) -> list[tuple[int, int]]:
        transform = written(tmp_path, text).transform
        assert transform is not None
        return sorted((r["day"].day, r["spent"]) for r in transform(frames, chunk).collect())

    assert made(SPENDING) == [(2, 2 + 7), (3, 7)]
    assert made(KNOWN) == [(2, 2 + 5), (3, 5)]


RANKS = """
/*
description = "Money per rank and day."
day = "day"
key = ["rank"]
columns = { rank = "STRING", day = "DATE", spent = "BIGINT" }
inputs = { staging = { by = ["entity"], joined = { ranks = { event_date = "rank_date" } }, CHOICE }, ranks = {} }
*/
SELECT coalesce(rank, 'none') AS rank, event_date AS day, sum(value) AS spent FROM staging GROUP BY ALL
"""


@pytest.mark.parametrize(
    "choice", ["salt = 1", "isolate_nulls = true", "isolate_nulls = true, salt = 16"]
)
def test_a_header_joins_inputs_and_no_choice_changes_rows(
    spark: "SparkSession", tmp_path: Path, choice: str
) -> None:
    rows = [("k", e, 1, None, None, date(2024, 3, 2)) for e in ("A", "A", "A", None, None, "B")]
    told = [("A", "gold", 2), (None, "never", 2), ("A", "of another day", 1)]
    ranks = spark.createDataFrame(
        [(e, r, date(2024, 3, n)) for e, r, n in told], "entity string, rank string, rank_date date"
    )
    table = written(tmp_path, RANKS.replace("CHOICE", choice))
    assert table.transform is not None
    made = table.transform(
        {"staging": spark.createDataFrame(rows, SCHEMA), "ranks": ranks},
        Chunk(day_range("2024-03-02"), None),
    )
    assert sorted((r["rank"], r["spent"]) for r in made.collect()) == [("gold", 3), ("none", 3)]
