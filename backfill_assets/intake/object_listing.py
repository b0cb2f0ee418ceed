"""The objects below a prefix of a bucket that `[source] files` offers for reading, and a reason for
each other object.

Not here: the pattern and the rules of names (`listing`), and reading the objects (`files`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache

from backfill_assets.intake.declared import FOLDER_MANIFEST
from backfill_assets.intake.files import LandedFile, landed_object
from backfill_assets.intake.listing import (
    EXTENSIONS,
    Glob,
    Listing,
    RefusedFile,
    bad_name,
    is_manifest,
    name_or_size_fault,
    named_files,
)
from backfill_assets.intake.paths import day_of_path
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.port import OddKeys, Place, Token

NO_PATH = "its key is no path: it has an empty part, dots alone, or control characters"
MANY = 10_000  # objects: listing them takes ten requests and about a second
# Between two whole listings of many objects by one process: so many times what the last one took,
# within these bounds. A late object is found within a day.
WHOLE_FACTOR, WHOLE_SECONDS, MOST_SECONDS = 100.0, 600.0, 86_400.0
LATE_DAYS = 7  # before the newest day; what lands in an older one is seen by the next whole listing


@dataclass
class _KnownListing:
    """What the last whole listing of a prefix by this process found, if there was much."""

    tokens: dict[str, Token] = field(default_factory=dict)
    after: str = ""  # the last name of the days that are not listed again; empty: all are
    due: float = 0.0  # when all are listed again, by `time.monotonic`


def list_objects(glob: Glob, root: Place, format: str) -> Listing:
    """List the objects that a parsed pattern offers for reading; `root` is its fixed root.

    Every other object below the root is refused with a reason, all of a folder at once where
    `list_landing` does not enter one. A pattern without wildcard ignores the object's neighbours.
    Requests: see `listed_tokens`.
    """
    refused, files, manifests = dict[str, str](), list[LandedFile](), list[LandedFile]()
    try:
        if glob.names_file:
            tokens = _named_tokens(glob, root)
        else:
            tokens = listed_tokens(root, time.monotonic())
    except OddKeys as error:
        if not error.odd:
            raise
        tokens, refused = dict(error.good), {printable_text(key): NO_PATH for key in error.odd}
    for name, token in sorted(tokens.items()):
        stands_for_folder = not token.size and "." not in name.rpartition("/")[2]
        if stands_for_folder:
            continue
        unentered = _unentered_folder(name, glob)
        not_read, why = unentered or (name, _object_fault(name, token, glob, format))
        if why is not None:
            refused[printable_text(not_read)] = why
        elif is_manifest(name):
            manifests.append(landed_object(root, name, token))
        else:
            files.append(landed_object(root, name, token))
    others = tuple(RefusedFile(name, why) for name, why in refused.items())
    is_missing = not tokens and not refused and not glob.names_file
    return Listing(tuple(files), others, is_missing, tuple(manifests))


def listed_tokens(root: Place, now: float) -> dict[str, Token]:
    """The tokens of the objects below a root; a request for each thousand. Of many whose names
    ascend by the days in them a process lists the last days alone, and all of them as often as
    takes a hundredth of its time: at most once in ten minutes, at least once a day. `now`:
    `time.monotonic`."""
    known = _known_listing(root)
    if known.after and now < known.due:
        old = {name: token for name, token in known.tokens.items() if name <= known.after}
        return old | root.tokens(after=known.after)
    began, tokens = time.monotonic(), root.tokens()
    known.due = now + seconds_between(time.monotonic() - began)
    known.after = _last_of_old_days(sorted(tokens)) if len(tokens) >= MANY else ""
    known.tokens = tokens if known.after else {}
    return tokens


def seconds_between(took: float) -> float:
    """How long a process waits after a whole listing that took so many seconds for the next one."""
    return min(max(WHOLE_FACTOR * took, WHOLE_SECONDS), MOST_SECONDS)


@lru_cache(maxsize=16)
def _known_listing(_root: Place) -> _KnownListing:
    return _KnownListing()


def _last_of_old_days(names: Sequence[str]) -> str:
    """The last of these names, sorted, whose day is `LATE_DAYS` older than the newest; empty unless
    every name has a day and the days ascend with the names."""
    days = list[date]()
    for name in names:
        day = day_of_path(name)
        if day is None or (days and day < days[-1]):
            return ""
        days.append(day)
    line = days[-1] - timedelta(LATE_DAYS)
    return max((name for name, day in zip(names, days, strict=True) if day < line), default="")


def _named_tokens(glob: Glob, root: Place) -> dict[str, Token]:
    """The tokens of what a pattern without wildcards names, as far as it is there: each is asked
    for by itself, without a listing of its neighbours."""
    found = {name: root.token(name) for name in named_files(glob)}
    return {n: token for n, token in found.items() if token is not None}


def _unentered_folder(name: str, glob: Glob) -> tuple[str, str] | None:
    """The first folder in an object's name that is not entered, and why; None if all are."""
    *folders, _ = name.split("/")
    for depth, folder in enumerate(folders, 1):
        why = bad_name(folder)
        if why is None and not glob.reaches(depth):
            why = "a folder that the pattern does not reach into (** reaches into all)"
        if why is not None:
            return "/".join(folders[:depth]) + "/", why
    return None


def _object_fault(name: str, token: Token, glob: Glob, format: str) -> str | None:
    """Why an object is not read; None if it may be."""
    last = name.rpartition("/")[2]
    why = None if last == FOLDER_MANIFEST else bad_name(last)
    return why or name_or_size_fault(name, token.size, glob, EXTENSIONS[format])
