"""Addresses of PostgreSQL: what they name, and what no message shows.

Tested here: `operations.postgres` without a server. Not tested here: a real one (`end_to_end.test_reconcile_postgres`,
`end_to_end.test_export_postgres`).
"""

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.operations.postgres import connected


def refused(name: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(name, culprit, "Nothing was done", fix)


@pytest.mark.parametrize(
    ("address", "words"),
    [("postgresql://ann:secret@host/shop", "names no table"), ("postgresql://ann:secret@/shop?host=/nowhere#t", "#t")],
)
def test_an_address_that_leads_nowhere_is_named_without_its_password(address: str, words: str) -> None:
    pytest.importorskip("adbc_driver_postgresql", reason="the driver of PostgreSQL is not installed")
    with pytest.raises(BackfillError, match=words) as raised, connected(address, refused):
        raise AssertionError("it connected")
    assert "secret" not in str(raised.value)
