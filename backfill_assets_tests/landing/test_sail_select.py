"""Expressions of `select` on Sail: the tried ones pass, the others are refused by name. Nothing is computed here."""

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.landing.sail_select import refuse_untried, uncast

TYPES = {"a": "string", "n": "bigint", "t": "timestamp_ntz"}


@pytest.mark.parametrize(
    "expression",
    [
        "a AS x", "`a` AS c", "'upsert' AS op", "t AS version_ts", "nullif(a, '') AS entity", "n IS NULL AS f",
        "coalesce(try_cast(nullif(a, '') AS bigint), 0) AS value", "try_cast(a AS timestamp_ntz) AS t",
        "CASE WHEN a = 'D' THEN 'delete' ELSE 'upsert' END AS op", "concat(a, '-', a) AS k", "substring(a, 1, 3) AS s",
        "absent AS value",
    ],
)  # fmt: skip
def test_what_was_tried_may_run(expression: str) -> None:
    refuse_untried([expression], TYPES)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("n * 1 AS value", "`n \\* 1`"),
        ("lower(a) AS k", "LOWER"),
        ("try_cast(a AS date) AS d", "a cast to DATE"),
        ("coalesce(n, 'x') AS y", "mixing types"),
        ("CASE WHEN n = 'D' THEN 1 ELSE 0 END AS flag", "mixing types"),
        ("concat(n, n) AS k", "number where text is meant"),
        ("a[0] AS x", "a\\["),
    ],
)
def test_what_may_raise_or_differ_is_refused_by_name(expression: str, named: str) -> None:
    with pytest.raises(SettingsError, match=rf'{named}.*was not tried on Sail.*engine = "embedded"'):
        refuse_untried([expression], TYPES)


def test_a_cast_that_cannot_be_told_from_null_is_left_to_the_payload() -> None:
    assert "the cast of total" in str(uncast("total"))
