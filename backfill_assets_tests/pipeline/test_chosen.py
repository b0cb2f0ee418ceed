"""Which tables a lake has: those that its `lake.toml` names, or this product's; and what is told of
a user's mistakes.

Tested here: `pipeline.chosen`. Not tested here: that a run makes the days of such tables
(`end_to_end`).
"""

import re
from pathlib import Path

import pytest

from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline, tables_at
from backfill_assets_tests.own import OWN_PIPELINE, TWO_SOURCES

RULED = OWN_PIPELINE.replace("Input, Table", "Input, Rule, Table").replace(
    'key=("entity",),', 'key=("entity",), rules=(Rule("paid", "paid > 0", ""),),'
)
TOML = """
start_date = 2024-03-01
[source]
files = "landing/*.jsonl"
format = "jsonl"
select = "seq"
"""


def lake(root: Path, own: str | None = None, **pipeline: str) -> Path:
    told = "".join(f"{k} = {v!r}\n" for k, v in pipeline.items())
    (root / "lake.toml").write_text(f"{TOML}[pipeline]\n{told}")
    if own is not None:
        (root / "pipeline.py").write_text(own)
    return root


def names(root: Path) -> list[str]:
    return [t.name for t in chosen_pipeline(open_lake(root)).tables]


def refusal(root: Path) -> str:
    with pytest.raises(SettingsError) as refused:
        names(root)
    return str(refused.value)


def test_a_lake_that_names_no_tables_has_those_of_this_product(tmp_path: Path) -> None:
    assert names(lake(tmp_path))[:2] == ["raw", "staging"]


def test_a_file_beside_the_settings_gives_the_tables_in_an_order_that_works(tmp_path: Path) -> None:
    lake(tmp_path, OWN_PIPELINE, tables="pipeline.py:backwards")
    assert names(tmp_path) == ["raw", "staging", "totals"]
    found = open_lake(tmp_path)
    pipeline = chosen_pipeline(found)
    state = pipeline.states(read_view(found, pipeline.contracts)).of(
        "totals", found.settings.start_date
    )
    assert state is State.MISSING


def test_an_edit_of_the_file_makes_its_table_outdated_and_a_comment_does_not(
    tmp_path: Path,
) -> None:
    def digest() -> str:
        return chosen_pipeline(open_lake(tmp_path)).codes["totals"].code_digest

    lake(tmp_path, OWN_PIPELINE, tables="pipeline.py:tables")
    before = digest()
    lake(tmp_path, f"# why\n{OWN_PIPELINE}", tables="pipeline.py:tables")
    assert digest() == before
    lake(
        tmp_path,
        OWN_PIPELINE.replace(".count()", ".distinct().count()"),
        tables="pipeline.py:tables",
    )
    assert digest() != before


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ("x = 1\ndef tables(:\n", r"pipeline\.py, line 2: SyntaxError"),
        ("import nosuch\n", r"pipeline\.py, line 1: ModuleNotFoundError: No module named 'nosuch'"),
        ("def tables(settings):\n    return 1 / 0\n", r"pipeline\.py, line 2: ZeroDivisionError"),
        ("other = 1\n", "it defines no tables"),
        ("tables = [1]\n", "it gives a int where a Table is meant"),
        ("tables = []\n", "no table that is loaded from landed files"),
        (
            OWN_PIPELINE.replace('key=("entity",)', "key=()"),
            r"pipeline\.py, line \d+: .*totals: it has no key",
        ),
        (
            OWN_PIPELINE.replace('"whose"', '"whose", nullable=True'),
            r"line \d+: .*key may be NULL in entity",
        ),
        (
            OWN_PIPELINE.replace('Input("staging")', 'Input("stagin")'),
            "no such table is given: stagin",
        ),
        (
            OWN_PIPELINE.replace(
                'Input("staging")', 'Input("staging", columns=("entity", "nope"))'
            ),
            "totals reads nope of staging, which has no such column",
        ),
        (
            RULED,
            r"the rule paid of the table totals \(paid > 0\): the table has no column paid\. "
            r"Nothing was done\. Write",
        ),
        (OWN_PIPELINE.replace('"totals",', '"arrivals",'), "'arrivals' cannot name a table"),
        (
            OWN_PIPELINE.replace("return raw, staging, ", "return raw, raw, staging, "),
            "it gives raw more than once",
        ),
    ],
)
def test_a_mistake_in_the_file_is_told_by_its_name_and_line(
    tmp_path: Path, own: str, told: str
) -> None:
    assert re.search(told, refusal(lake(tmp_path, own, tables="pipeline.py:tables")))


def test_tables_of_several_sources_are_lengthened_by_their_names_and_chosen_by_the_sections(
    tmp_path: Path,
) -> None:
    (tmp_path / "lake.toml").write_text(TWO_SOURCES)
    made = {
        t.name: [i.table for i in t.contract.inputs]
        for t in chosen_pipeline(open_lake(tmp_path)).tables
    }
    assert made == {
        "raw_events": ["landing_events"],
        "staging_events": ["raw_events"],
        "raw_truth": ["landing_truth"],
        "staging_truth": ["raw_truth"],
        "features": ["staging_events"],
        "features_as_known": ["staging_events"],
        "labels": ["staging_truth", "features_as_known"],
        "training": ["features_as_known", "labels"],
    }


@pytest.mark.parametrize(
    ("name", "setting", "told"),
    [
        ("own.py", {"tables": "own.py:tables"}, r"/own\.py, line 1: SyntaxError"),
        ("own.sql", {"sql": "own.sql"}, r"/own\.sql: it has no header"),
        ("another.py", {"tables": "own.py:tables"}, "/own.py"),
    ],
)
def test_a_file_of_a_lake_in_a_bucket_is_named_by_its_address(
    bucket_address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    setting: dict[str, str],
    told: str,
) -> None:
    """Not by this machine's copy of it: whoever corrected that one would see it overwritten."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    copies = local_root(bucket_address)
    copies.mkdir(parents=True)
    (copies / name).write_text("1 +")
    settings = open_lake(lake(tmp_path, **setting)).settings
    with pytest.raises(SettingsError, match=re.escape(bucket_address) + told) as refused:
        tables_at(copies)(settings)
    assert str(tmp_path) not in str(refused.value)
