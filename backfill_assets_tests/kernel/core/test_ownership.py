"""Whose lakes are taken: this user's, root's, and those that this user has named; links are not
followed.

Tested here: `kernel.core.ownership`. Not tested here: the doors that ask it
(`kernel.tables.test_home`, `cli.test_server`), and whose caches are taken (`engines.test_cache`).
"""

import grp
import os
import pwd
import socket
import stat
from pathlib import Path

import pytest

from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.ownership import (
    PROGRAMS,
    TRUSTED_VARIABLE,
    open_unless_link,
    refuse_foreign_lake,
    remove_rights,
    whoami,
)
from backfill_assets_tests.strangers import STRANGER, give_away

MODES = (0o777, 0o1777, 0o702)  # others may write


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "lake.toml").touch()
    for name in (".server", ".dagster", ".plans"):
        (tmp_path / "lake" / name).mkdir()
    return tmp_path / "lake"


@pytest.mark.parametrize("part", PROGRAMS)
def test_a_lake_that_others_own_or_may_write_is_refused(
    lake: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_foreign_lake(lake)
    mode = (lake / part).stat().st_mode
    for open_to_all in MODES:
        (lake / part).chmod(open_to_all)
        with pytest.raises(
            SettingsError, match=rf"may be written by everyone.* chmod go-w {lake / part}"
        ):
            refuse_foreign_lake(lake)
        with monkeypatch.context() as trusting:
            trusting.setenv(TRUSTED_VARIABLE, str(lake))
            refuse_foreign_lake(lake)
    (lake / part).chmod(mode)
    give_away(lake / part, monkeypatch)
    with pytest.raises(
        SettingsError,
        match=rf"the lake {lake}.*belongs to.*Nothing was read.*{TRUSTED_VARIABLE}={lake}",
    ):
        refuse_foreign_lake(lake)


def test_a_lake_that_this_user_trusts_is_taken_and_no_other(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_away(lake, monkeypatch)
    monkeypatch.setenv(TRUSTED_VARIABLE, f"/nowhere{os.pathsep}{lake}/")
    refuse_foreign_lake(lake)
    refuse_foreign_lake(lake / ".." / "lake")
    monkeypatch.chdir(lake.parent)
    for listed in ("", ".", "lake", str(lake.parent), str(lake / ".server")):
        monkeypatch.setenv(TRUSTED_VARIABLE, listed)
        with pytest.raises(SettingsError):
            refuse_foreign_lake(lake)


@pytest.mark.parametrize("part", ["sql/daily/a.sql", "sql/daily", "sql"])
def test_a_file_of_the_pipeline_counts_with_its_folders(
    lake: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = lake / "sql/daily/a.sql"
    file.parent.mkdir(parents=True)
    file.touch()
    refuse_foreign_lake(lake, [file])
    (lake / part).chmod(0o777)
    with pytest.raises(SettingsError, match="may be written by everyone"):
        refuse_foreign_lake(lake, [file])
    (lake / part).chmod(0o700)
    give_away(lake / part, monkeypatch)
    with pytest.raises(SettingsError, match="belongs to"):
        refuse_foreign_lake(lake, [file])


def test_settings_behind_a_link_are_their_owners(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lake / "lake.toml").rename(tmp_path / "theirs.toml")
    (lake / "lake.toml").symlink_to(tmp_path / "theirs.toml")
    refuse_foreign_lake(lake)
    give_away(tmp_path / "theirs.toml", monkeypatch)
    with pytest.raises(SettingsError):
        refuse_foreign_lake(lake)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that is root's")
def test_what_is_roots_may_be_anybodys_lake(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    refuse_foreign_lake(lake)


def test_neither_rights_nor_files_are_touched_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o755)
    (tmp_path / "theirs").chmod(0o755)
    (tmp_path / "folder").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="folder"):
        remove_rights(tmp_path / "folder", 0o077)
    assert stat.S_IMODE((tmp_path / "theirs").stat().st_mode) == 0o755
    remove_rights(tmp_path / "theirs", 0o077)
    assert stat.S_IMODE((tmp_path / "theirs").stat().st_mode) == 0o700
    (tmp_path / "file").symlink_to(tmp_path / "text")
    for text in (None, "theirs"):
        if text:
            (tmp_path / "text").write_text(text)
        with pytest.raises(OSError, match="file"):
            open_unless_link(tmp_path / "file", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    assert (tmp_path / "text").read_text() == "theirs"


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give a folder to a group that it is not in"
)
@pytest.mark.parametrize(
    ("named", "members", "first_of", "is_ours", "innocent"),
    [
        (
            "me",
            (),
            ("me",),
            True,
            True,
        ),  # useradd, where the numbers of users and groups went apart
        ("me", ("me",), ("me",), True, True),
        ("me", ("other",), ("me",), True, False),
        ("me", (), ("me", "other"), True, False),
        ("users", (), ("me",), True, False),  # a directory may not list who is in it
        (None, (), (), True, True),  # the volume of a container, by number
        (None, (), (), False, False),
    ],
)
def test_a_group_of_nobody_else_counts_as_the_user(
    lake: Path,
    named: str | None,
    members: tuple[str, ...],
    first_of: tuple[str, ...],
    is_ours: bool,
    innocent: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for part in PROGRAMS:
        os.chown(lake / part, STRANGER, STRANGER + 1)
    lake.chmod(0o2775)
    users = [
        pwd.struct_passwd((n, "x", STRANGER, STRANGER + 1, "", "/", "/bin/sh")) for n in first_of
    ]

    def group_of(number: int) -> grp.struct_group:
        if named is None:
            raise KeyError(number)
        return grp.struct_group((named, "x", number, list(members)))

    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    monkeypatch.setattr(os, "getegid", lambda: STRANGER + 1 if is_ours else STRANGER + 2)
    monkeypatch.setattr(grp, "getgrgid", group_of)
    monkeypatch.setattr(
        pwd,
        "getpwuid",
        lambda number: pwd.struct_passwd(("me", "x", number, 0, "", "/", "/bin/sh")),
    )
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    if innocent:
        refuse_foreign_lake(lake)
    else:
        with pytest.raises(SettingsError, match="may be written by the group"):
            refuse_foreign_lake(lake)


@pytest.mark.parametrize("variable", ["LOGNAME", "USER", "LNAME", "USERNAME", "SUDO_USER"])
def test_no_variable_says_who_a_user_is(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "cfo")
    assert whoami() == f"{pwd.getpwuid(os.geteuid()).pw_name}@{socket.gethostname()}"
