"""The user of this process, and which owners' files in a lake's folder it may run as programs.

Not here: the same of the cache of jars (`engines.cache`), and the permissions of a lake's files
(`kernel.tables.home`). Root may own them everywhere: root can do anything.
"""

import grp
import os
import pwd
import shlex
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from backfill_assets.kernel.core.errors import SettingsError

TRUSTED_VARIABLE = "BACKFILL_ASSETS_TRUSTED_LAKES"  # absolute folders, separated as in PATH
# Of a lake: what names code to run, or is run itself.
PROGRAMS = (
    "",
    "lake.toml",
    ".server",
    ".dagster",
    ".plans",
)
BY = "by"  # tag of receipts: `USER@HOST`; runs that a sensor or schedule asked for name it beside
_ROOT = 0


def user_name(number: int) -> str:
    """The name of a user; the number where the system knows no name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def refuse_foreign_lake(lake: Path, programs: Iterable[Path] = ()) -> None:
    """Raise SettingsError where the lake's folder, or a file in it that is run or names code,
    belongs to another user or may be written by others. `programs`: files of the pipeline in place
    of these; their folders count, too.

    A folder that $BACKFILL_ASSETS_TRUSTED_LAKES lists is taken whoever owns it. Raises nothing
    where there is no lake.
    """
    lake = lake.resolve()
    if _is_trusted(lake):
        return
    for path in _paths_of_programs(lake, programs) or [lake / name for name in PROGRAMS]:
        for owner in foreign_owners(path):
            theirs, user = user_name(owner), user_name(os.geteuid())
            fix = f"Work as {theirs} (in a container: --user {owner})"
            raise _untrusted_program_error(
                lake, f"{path} belongs to {theirs}, and you are {user}", fix
            )
        writers = other_writers(path.stat()) if path.exists() else ""
        if writers:
            fix = f"Close it to others: chmod go-w {shlex.quote(str(path))}"
            raise _untrusted_program_error(lake, f"{path} may be written by {writers}", fix)


def _is_trusted(lake: Path) -> bool:
    """Whether the variable lists the lake's folder."""
    for text in os.environ.get(TRUSTED_VARIABLE, "").split(os.pathsep):
        folder = Path(text).expanduser()
        if folder.is_absolute() and folder.resolve() == lake:
            return True
    return False


def _paths_of_programs(lake: Path, programs: Iterable[Path]) -> list[Path]:
    """The files, the folder of each, and the folders above it in the lake; each once."""
    found = dict[Path, None]()
    for file in programs:
        above = [folder for folder in file.parents if lake in folder.parents]
        found.update(dict.fromkeys((file, file.parent, *above)))
    return list(found)


def _untrusted_program_error(lake: Path, culprit: str, fix: str) -> SettingsError:
    trust = f"set {TRUSTED_VARIABLE}={shlex.quote(str(lake))}"
    return SettingsError(
        f"the lake {lake}",
        f"{culprit}: a lake is a program, which would run as you",
        "Nothing was read and nothing was started",
        f"{fix}; or, if you trust everybody who may write there, {trust}",
    )


def foreign_owners(path: Path) -> set[int]:
    """The users other than this one and root who own a file or folder, or the link at its place."""
    found = set[int]()
    for follow in (True, False):
        with suppress(OSError):
            found.add(path.stat(follow_symlinks=follow).st_uid)
    return found - {os.geteuid(), _ROOT}


def other_writers(status: os.stat_result) -> str:
    """Who else may write there; empty if nobody."""
    if status.st_mode & stat.S_IWOTH:
        return "everyone"
    if not status.st_mode & stat.S_IWGRP:
        return ""
    group = status.st_gid
    is_own = group in (_ROOT, status.st_uid, os.geteuid()) or _is_private_group(group)
    return "" if is_own else f"the group {group}"


def _is_private_group(group: int) -> bool:
    """Whether a group of this process is this user's alone: it is named as the user and has no
    other members, as many systems make one for each user; or it has no name, as that of a volume
    of Kubernetes (`fsGroup`)."""
    if group not in (os.getegid(), *os.getgroups()):
        return False
    try:
        found = grp.getgrgid(group)
    except KeyError:
        return True
    user = user_name(os.geteuid())
    members = {*found.gr_mem, *(u.pw_name for u in pwd.getpwall() if u.pw_gid == group)}
    return found.gr_name == user and members <= {user}


def open_unless_link(path: Path, flags: int) -> int:
    """A descriptor of the file, made with mode 0600 where `flags` say so; raises OSError where a
    link stands there."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def remove_rights(folder: Path, umask: int) -> None:
    """Remove the permissions in `umask` from a folder of this user: not from what a link leads to,
    nor from what is in it. Raises OSError where there is no folder."""
    descriptor = open_unless_link(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and status.st_mode & umask:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~umask)
    finally:
        os.close(descriptor)


def make_closed_folder(folder: Path, umask: int) -> None:
    """Make a folder without the permissions in `umask`, whatever this process's own umask is, and
    the folders above it where they lack. Leaves one that exists as it is."""
    folder.mkdir(mode=0o777 & ~umask, parents=True, exist_ok=True)


def whoami() -> str:
    """`USER@HOST` of this process; the user's number where the system knows no name."""
    return f"{user_name(os.geteuid())}@{socket.gethostname()}"
