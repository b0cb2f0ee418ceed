"""Addresses of PostgreSQL: what they name, and what no message shows.
Not here: a real one (`end_to_end.test_reconcile_postgres`, `end_to_end.test_export_postgres`)."""

from dataclasses import replace

import duckdb
import pytest

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.reading.postgres import _passwords_in, postgres_connection, text_with_nul
from backfill_assets_tests.builders import STAGING


def refused(name: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(name, culprit, "Nothing was done", fix)


SECRET = "S3cr3t"
ODD = [
    "a#{}",
    "a/{}",
    "12/{}",
    "12#{}",
    "a%{}",
    "a?{}",
    "12?{}",
    "a@{}",
    "[{}",
    "a {}",
    "{}\u2100",
    "{}\n",
    'a"{}',
]


@pytest.mark.parametrize("password", ODD)
def test_nothing_is_shown_of_an_address_that_a_sign_of_its_password_splits_elsewhere(
    password: str,
) -> None:
    address = f"postgresql://u:{password.format(SECRET)}@127.0.0.1:9/db#t"
    with (
        pytest.raises(BackfillError, match="no address of its kind") as raised,
        postgres_connection(address, refused),
    ):
        raise AssertionError("it connected")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("password", ["a%23{}", "a:{}", "a%25{}", "{}%e2%84%80"])
@pytest.mark.parametrize("target", ["t", '"My shop".t', "select '#', a from t", "a.b.c"])
def test_a_password_is_taken_with_its_signs_written_as_codes(password: str, target: str) -> None:
    pytest.importorskip(
        "adbc_driver_postgresql", reason="the driver of PostgreSQL is not installed"
    )
    address = f"postgresql://u:{password.format(SECRET)}@127.0.0.1:9/db?connect_timeout=1#{target}"
    with (
        pytest.raises(BackfillError, match="port 9 failed") as raised,
        postgres_connection(address, refused),
    ):
        raise AssertionError("it connected")
    assert SECRET not in str(raised.value)
    assert f"postgresql://127.0.0.1/db#{target}" in str(raised.value)


def test_each_password_of_an_address_is_known_as_written_and_as_meant() -> None:
    address = "postgresql://u:a%23b@127.0.0.1/db?sslpassword=c%2Bd&connect_timeout=1"
    assert {*_passwords_in(address)} == {"a%23b", "a#b", "c+d"}
    assert not any(_passwords_in("postgresql://127.0.0.1/db")), "no password, nothing to hide"


def test_a_text_that_postgresql_cannot_hold_is_named_with_its_column_and_day() -> None:
    texts = "CASE n WHEN 2 THEN 'a' || chr(0) ELSE 'b' END AS entity FROM range(4) t(n)"
    rows = f"SELECT DATE '2024-02-26' + CAST(n AS INT) AS event_date, {texts}"
    with duckdb.connect() as engine:
        contract = replace(
            STAGING, columns=tuple(c for c in STAGING.columns if c.name in ("event_date", "entity"))
        )
        told = text_with_nul(engine, rows, contract)
        assert told.startswith("entity holds the sign NUL in 1 row(s) from 2024-02-28 on")
        assert text_with_nul(engine, f"SELECT * FROM ({rows}) WHERE entity = 'b'", contract) == ""
