"""Who works at this machine: a user and a host, as the system knows them, also where it knows no name.

Tested here: `core.ownership`. Not tested here: the receipts that name it (`lake.test_audit`).
"""

import os
import pwd
import socket

import pytest

from backfill_assets.core.ownership import whoami
from backfill_assets_tests.strangers import STRANGER


@pytest.mark.parametrize("variable", ["LOGNAME", "USER", "LNAME", "USERNAME", "SUDO_USER"])
def test_no_variable_says_who_a_user_is(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "cfo")
    assert whoami() == f"{pwd.getpwuid(os.geteuid()).pw_name}@{socket.gethostname()}"


def test_a_user_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert whoami().startswith(f"{STRANGER}@")
