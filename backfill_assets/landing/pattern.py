"""The meaning of `[source] files`: a folder without wildcards, and how the path of a file below it must look.

Lives here: reading such a pattern and matching names against it. Does not live here: looking into folders (`landing`).
Matching is case-sensitive everywhere, and a wildcard never spans a slash, so that two machines list the same files.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from backfill_assets.core.errors import SettingsError

WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Glob:
    """A pattern in two parts: the fixed root, and one wildcard text per folder and file below it.

    `depth`: how many folders below the root it can reach into (None: any number). `only`: the one name that a pattern
    without wildcard asks for.
    """

    root: Path
    segments: tuple[str, ...]
    depth: int | None
    only: str | None

    def matches(self, name: str) -> bool:
        """Whether the posix path `name` below the root is one that the pattern asks for."""
        if self.only is not None:
            return name == self.only
        return _matches(tuple(name.split("/")), self.segments)


def parse_pattern(pattern: str, base: Path) -> Glob:
    """Read a pattern relative to `base`, or absolute; raises SettingsError where it cannot be meant."""
    if not pattern.strip() or "\0" in pattern or pattern.endswith("/"):
        raise bad_pattern(pattern, "it names no file")
    if "{" in pattern or "}" in pattern:
        raise bad_pattern(pattern, "braces are no wildcard here")
    parts = (base / pattern).parts
    plain = len(base.parts) if not Path(pattern).is_absolute() else 0  # brackets in the lake's own path are no wildcard
    first = next((i for i in range(plain, len(parts)) if WILDCARD.search(parts[i])), None)
    if first is None:
        return Glob(Path(*parts[:-1]), (), 0, parts[-1])
    below = parts[first:]
    if ".." in below:
        raise bad_pattern(pattern, "it goes up again behind a wildcard")
    return Glob(Path(*parts[:first]), below, None if "**" in below else len(below) - 1, None)


def bad_pattern(pattern: str, why: str) -> SettingsError:
    """The error for a pattern that cannot be meant."""
    return SettingsError(
        f"[source] files = {pattern!r}", why, "The landing folder was not looked at",
        "Name a file, or a glob with * ? [seq] and ** such as landing/**/*.csv",
    )  # fmt: skip


def _matches(parts: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    if not segments or not parts:
        return not segments and not parts
    if segments[0] == "**":
        rest = segments[1:] or ("*",)
        return any(_matches(parts[i:], rest) for i in range(len(parts)))
    return fnmatchcase(parts[0], segments[0]) and _matches(parts[1:], segments[1:])
