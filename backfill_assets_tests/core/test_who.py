"""Who works at this machine: a user and a host, also where the system knows no name.

Tested here: `core.who`. Not tested here: the receipts that name it (`lake.test_audit`).
"""

import getpass
import os

import pytest

from backfill_assets.core.who import whoami


def test_a_user_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise OSError

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert whoami().startswith(f"{os.getuid()}@")
