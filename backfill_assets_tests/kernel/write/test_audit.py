"""The audit of files: counts, sums, NULLs and repeated keys are exact per day, and any changed cell
is noticed. Not here: files that Spark wrote (`test_frame_files_conform`)."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.contracts import Column, Contract, Rule
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_files, sample_keys
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.strategies import examples

COLUMNS = (
    Column("day", "DATE", "d"),
    Column("key", "STRING", "k"),
    Column("text", "STRING", "t", nullable=True),
    Column("more", "STRING", "m", nullable=True),
    Column("n", "BIGINT", "n", nullable=True),
)
TABLE = Contract("t", "t", COLUMNS, "day", ("key",), ())
Cells = tuple[date | None, str | None, str | None, str | None, int | None]
ROWS: list[Cells] = [
    (day(0), "a", "x", None, 1),
    (day(0), "b", None, "x", None),
    (day(0), "a", "", "", (1 << 62)),
    (day(0), "c", "x", None, 1 << 62),
    (day(1), "a", "x", "y", -5),
]
texts = st.one_of(
    st.none(),
    st.text(st.characters(codec="utf-8"), max_size=4),
    st.sampled_from(["-", "1:-", "|", "2:é|"]),
)
cells = st.tuples(
    st.just(day(0)), texts, texts, texts, st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return bare_lake(tmp_path_factory.mktemp("lake"))


def audited(
    lake: Lake,
    rows: Sequence[Cells],
    contract: Contract = TABLE,
    parts: Mapping[str, tuple[str, ...]] | None = None,
) -> dict[date | None, DayProfile]:
    staged = stage_by_hand(
        lake, TABLE, [dict(zip(TABLE.column_names, r, strict=True)) for r in rows]
    )
    try:
        return dict(audit_files(lake, staged.paths, contract, parts or {}))
    finally:
        staged.drop()


def test_the_fingerprint_of_some_columns_is_that_of_a_table_that_has_just_these(lake: Lake) -> None:
    kept = ("day", "key", "n")
    narrow = replace(TABLE, columns=tuple(c for c in COLUMNS if c.name in kept))
    found, alone = audited(lake, ROWS, TABLE, {"some": kept}), audited(lake, ROWS, narrow)
    assert {d: p.parts for d, p in found.items()} == {
        d: {"some": p.fingerprint} for d, p in alone.items()
    }
    assert {d: replace(p, parts={}) for d, p in found.items()} == audited(lake, ROWS), (
        "nothing else is another"
    )


def test_a_number_that_is_none_is_seen_though_no_bound_of_its_file_names_it(lake: Lake) -> None:
    """Parquet's least and greatest values leave NaN out; Spark and DuckDB take it for greater than
    any number."""
    made = Contract(
        "x",
        "x",
        (COLUMNS[0], Column("x", "DOUBLE", "x")),
        "day",
        (),
        (),
        rules=(Rule("low", "x < 9", "r"),),
    )
    found = {}
    for name, x in (("is", math.nan), ("is by another sign", -math.nan), ("is none", 2.0)):
        staged = stage_by_hand(
            lake, made, [{"day": day(0), "x": value} for value in (1.0, x, -3.0)]
        )
        found[name] = audit_files(lake, staged.paths, made)[day(0)]
        staged.drop()
    assert found["is"] == found["is by another sign"]
    assert found["is"].histograms == {"x": {1: 1, -3: 1}}
    assert found["is"].broken == {"low": 1}
    assert found["is none"].broken == {}


def test_counts_sums_nulls_and_repeated_keys_are_exact_per_day(lake: Lake) -> None:
    found = audited(lake, [*ROWS, (None, "z", None, None, 0)])
    first = found[day(0)]
    assert (first.rows, first.duplicates) == (4, 1)
    assert first.nulls == {"text": 1, "more": 2, "n": 1}
    assert first.sums == {"n": (1 << 63) + 1}, "a sum may leave 64 bits"
    assert first.histograms == {"n": {1: 1, 63: 2}}
    assert (found[day(1)].rows, found[day(1)].sums, found[day(1)].histograms) == (
        1,
        {"n": -5},
        {"n": {-4: 1}},
    )
    assert (found[None].rows, found[None].nulls["day"]) == (1, 1)


def test_the_greatest_key_is_counted_per_day_for_each_key_that_other_tables_read_by(
    lake: Lake,
) -> None:
    rows = [*ROWS, *((day(1), key, None, None, 1) for key in "bcd")]
    found = audited(lake, rows, replace(TABLE, read_by=(("text",), ("key", "n"), ("more",))))
    assert {d: p.most for d, p in found.items()} == {
        day(0): {"text": 2, "key,n": 1, "more": 1},
        day(1): {"text": 1, "key,n": 1, "more": 1},
    }, "a key with a NULL is no key: NULLs are counted on their own"
    assert {d: replace(p, most={}) for d, p in found.items()} == audited(lake, rows), (
        "nothing else is another"
    )


@pytest.mark.slow
def test_any_changed_cell_changes_the_fingerprint_and_no_order_does(lake: Lake) -> None:
    rows = ROWS[:2]
    changed: list[list[Cells]] = [
        [(day(0), "a", None, "x", 1), rows[1]],  # a value moved to its neighbour
        [(day(0), "a", "x", "", 1), rows[1]],  # NULL became empty
        [(day(0), "a", "x", None, 0), rows[1]],
        [(day(0), "b", "x", None, 1), (day(0), "a", None, "x", None)],  # keys swapped
        [rows[0], rows[0]],
        [rows[0]],
        [*rows, rows[0], rows[0]],
    ]
    prints = [audited(lake, r)[day(0)].fingerprint for r in (rows, rows[::-1], *changed)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == len(prints) - 1


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(cells, cells)
def test_two_rows_have_one_fingerprint_iff_they_are_equal(
    lake: Lake, one: Cells, other: Cells
) -> None:
    prints = [audited(lake, [r])[day(0)].fingerprint for r in (one, other)]
    assert (prints[0] == prints[1]) == (one == other)


def test_samples_name_the_keys_that_break_a_rule(lake: Lake) -> None:
    broken: list[Cells] = [*ROWS, (day(0), None, "x", None, 1), (None, "lost", None, None, 1)]
    staged = stage_by_hand(
        lake, TABLE, [dict(zip(TABLE.column_names, r, strict=True)) for r in broken]
    )
    assert sample_keys(lake, staged.paths, TABLE, day(0), "unique_key") == ['{"key":"a"}']
    assert sample_keys(lake, staged.paths, TABLE, day(0), "not_null") == ['{"key":null}']
    assert sample_keys(lake, staged.paths, TABLE, None, "stray") == ['{"key":"lost"}']
    long = stage_by_hand(lake, TABLE, [{"day": day(0), "key": "x" * 1000}])
    (cut,) = sample_keys(lake, long.paths, TABLE, day(0), "any")
    assert (len(cut), cut[-1]) == (200, "…"), (
        "a key of a megabyte would go into every event and alert"
    )
    long.drop()
    staged.drop()


SMALL = Rule("is_small", "abs(value) < 10 OR value = 99", "small, or the one that is known")
NAMED = Rule("has_name", "length(entity) > 0", "no name is empty")
RULED = replace(STAGING, rules=(SMALL, NAMED))


def shown(entity: str) -> str:
    """What sample keys show of an entity."""
    return f'"{hashlib.md5(entity.encode(), usedforsecurity=False).hexdigest()[:8]}"'


def ruled(
    folder: Path, contract: Contract, *values: tuple[int, str | None, int | None]
) -> tuple[Any, Any]:
    """How many rows or groups break each rule by day, and how to sample the keys of a day."""
    lake = bare_lake(folder)
    staged = stage_by_hand(
        lake, contract, [{"entity": e, "value": v, "event_date": day(n)} for n, e, v in values]
    )
    broken = {d: dict(p.broken) for d, p in audit_files(lake, staged.paths, contract).items()}
    return broken, partial(sample_keys, lake, staged.paths, contract)


def test_rows_that_break_a_rule_are_counted_per_day_and_null_breaks_none(tmp_path: Path) -> None:
    values = ((0, "a", 1), (0, "b", 10), (0, "c", -11), (0, None, None), (0, "d", 99), (1, "", 5))
    broken, keys_of = ruled(tmp_path, RULED, *values)
    assert broken == {day(0): {"is_small": 2}, day(1): {"has_name": 1}}
    keys = keys_of(day(0), "is_small")
    assert len(keys) == 2
    assert all(shown("b") in k or shown("c") in k for k in keys)
    assert not any('"b"' in k or '"c"' in k for k in keys), "events and alerts name no entity"


def test_groups_of_a_days_rows_that_break_a_rule_are_counted_per_day(tmp_path: Path) -> None:
    few = Rule("few", "count(*) <= 2", "at most two an entity", per=("entity",))
    sums = Rule("sums_up", "sum(value) >= 0", "a day's total", per=("event_date",), only_warns=True)
    named = Rule("no_x", "entity <> 'x' OR max(value) < 5", "x is small", per=("entity",))
    values = (
        (0, "a", 1),
        (0, "a", 2),
        (0, "a", 3),
        (0, "b", 4),
        (1, "a", -9),
        (1, "x", 6),
        (1, "b", None),
    )
    broken, keys_of = ruled(tmp_path, replace(STAGING, rules=(SMALL, few, sums, named)), *values)
    assert broken == {day(0): {"few": 1}, day(1): {"sums_up": 1, "no_x": 1}}
    for n, entity, rule in ((0, "a", "few"), (1, "x", "no_x")):
        assert [shown(entity) in k for k in keys_of(day(n), rule)] == [True]
