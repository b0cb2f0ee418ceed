"""The landing folder: the files that `[source] files` offers for reading, and a reason for each
other file.

Not here: objects of a bucket (`object_listing`), reading the files (`files`, `ingest`), what their
paths say (`paths`), and comparing them with the ledger (`intake.landed_changes`).
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from backfill_assets.intake.declared import FOLDER_MANIFEST, TOTALS_SUFFIX, Declarations
from backfill_assets.intake.files import LandedFile
from backfill_assets.intake.text_lines import Limits
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.texts import printable_text

SCHEMES = ("s3", "az", "gs")
WILDCARD = re.compile(r"[*?\[]")
EXTENSIONS = {
    "parquet": (".parquet",),
    "csv": (".csv", ".csv.gz"),
    "jsonl": (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz"),
}
# Of files that lie beside data (sums, signs that a delivery is whole, texts for people) or are of
# formats not read.
OTHER_KINDS = (
    ".crc",
    ".md5",
    ".sha1",
    ".sha256",
    ".sha512",
    ".sig",
    ".asc",
    ".done",
    ".ok",
    ".ready",
    ".ctl",
    ".lock",
    ".md",
    ".pdf",
    ".html",
    ".xml",
    ".xls",
    ".xlsx",
    ".avro",
    ".orc",
    ".zip",
    ".bz2",
    ".xz",
    ".zst",
    ".7z",
    ".tar",
    ".tgz",
)
TEMPORARY = (".tmp", ".part", ".partial", ".crdownload", ".inprogress", ".swp", "~")


@dataclass(frozen=True)
class RefusedFile:
    """A file or folder below the root that is not read."""

    name: str  # escaped for printing; of a folder it ends in `/`
    reason: str


@dataclass(frozen=True)
class Listing:
    """The files below the fixed root of a pattern, sorted by name."""

    files: tuple[LandedFile, ...] = ()  # offered for reading
    refused: tuple[RefusedFile, ...] = ()  # all others
    root_missing: bool = False  # the root does not exist
    manifests: tuple[LandedFile, ...] = ()  # they may declare totals of files
    # what manifests say, once they were read
    declared: Declarations = field(default_factory=Declarations)


@dataclass(frozen=True)
class Glob:
    """A parsed pattern. Case counts, and a wildcard never spans a slash, so that all machines list
    alike."""

    root: Path  # the fixed root; of a bucket `/BUCKET/PREFIX`
    segments: tuple[str, ...]  # one wildcard text per folder and file below the root
    names_file: bool = False  # it has no wildcard: the only segment is a name
    scheme: str = ""  # of a bucket's address

    @property
    def address(self) -> str:
        """The address of the fixed root in a bucket."""
        return f"{self.scheme}:/{self.root}"

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the posix path `name` below the root."""
        if self.names_file:
            return name == self.segments[0]
        return _path_matches(tuple(name.split("/")), self.segments)

    def reaches(self, depth: int) -> bool:
        """Whether it reaches into folders so many levels below the root."""
        return "**" in self.segments or depth < len(self.segments)


def list_landing(pattern: str, base: Path, format: str) -> Listing:
    """List the files of a folder that `pattern` (below `base`, or absolute; `**` spans folders)
    offers for reading.

    Every other file below the glob's fixed root is refused with a reason; a folder that is hidden,
    a link, or deeper than the pattern reaches counts as one. A pattern without wildcard ignores the
    file's neighbours. The fixed root itself may be a link or lie behind one: `lake.toml` names it,
    not the deliverer. Opens no file. Raises SettingsError for an unusable pattern.
    """
    glob = parse_pattern(pattern, base)
    if not glob.root.exists():
        return Listing(root_missing=True)
    if not glob.root.is_dir() or (glob.names_file and (glob.root / glob.segments[0]).is_dir()):
        raise _pattern_error(pattern, "it names a file as folder, or a folder as file")
    found = sorted(_folder_entries(glob, EXTENSIONS[format]), key=lambda f: f.name)
    files = tuple(f for f in found if isinstance(f, LandedFile) and not is_manifest(f.name))
    manifests = tuple(f for f in found if isinstance(f, LandedFile) and is_manifest(f.name))
    return Listing(
        files, tuple(f for f in found if isinstance(f, RefusedFile)), manifests=manifests
    )


def is_manifest(name: str) -> bool:
    """Whether a path names totals of deliveries: `_manifest.csv`, or FILE.totals.json for a FILE of
    any format."""
    if name.endswith(TOTALS_SUFFIX):
        return name.removesuffix(TOTALS_SUFFIX).lower().endswith(sum(EXTENSIONS.values(), ()))
    return name == FOLDER_MANIFEST or name.endswith("/" + FOLDER_MANIFEST)


def parse_pattern(pattern: str, base: Path) -> Glob:
    """Parse a pattern that is relative to `base`, absolute, or an address in a bucket; raises
    SettingsError for an unusable one."""
    if not pattern.strip() or "\0" in pattern or pattern.endswith("/"):
        raise _pattern_error(pattern, "it names no file")
    if "{" in pattern or "}" in pattern:
        raise _pattern_error(pattern, "braces are no wildcard here")
    scheme, parts = _pattern_parts(pattern, base)
    is_below = not (scheme or Path(pattern).is_absolute())
    own = len(base.parts) if is_below else 0  # brackets in the lake's own path are no wildcard
    first = next((i for i in range(own, len(parts)) if WILDCARD.search(parts[i])), None)
    if first is None:
        return Glob(Path(*parts[:-1]), parts[-1:], names_file=True, scheme=scheme)
    below = parts[first:]
    if ".." in below:
        raise _pattern_error(pattern, "it goes up again behind a wildcard")
    return Glob(Path(*parts[:first]), below, scheme=scheme)


def _pattern_parts(pattern: str, base: Path) -> tuple[str, tuple[str, ...]]:
    """The scheme of an address in a bucket, else nothing; and the parts of the path, the bucket's
    name among them."""
    scheme, is_address, rest = pattern.partition("://")
    if not is_address:
        return "", (base / pattern).parts
    bucket, *below = rest.split("/")
    is_bucket = scheme in SCHEMES and not WILDCARD.search(bucket)
    has_odd_part = not {"", ".", ".."}.isdisjoint((bucket, *below))
    if not is_bucket or not below or has_odd_part:
        raise _pattern_error(
            pattern, "it is no address in a bucket of s3, az or gs with a name in each of its parts"
        )
    return scheme, ("/", bucket, *below)


def _pattern_error(pattern: str, why: str) -> SettingsError:
    return SettingsError(
        f"[source] files = {pattern!r}",
        why,
        "The landing folder was not looked at",
        "Name a file, or a glob with * ? [seq] and ** such as landing/**/*.csv or "
        "s3://BUCKET/landing/**/*.csv",
    )


def _path_matches(parts: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    """Whether the parts of a path match the segments of a pattern, one by one; `**` matches any
    number of folders, and at the end any file below them."""
    if not segments or not parts:
        return not segments and not parts
    if segments[0] == "**":
        rest = segments[1:] or ("*",)
        return any(_path_matches(parts[i:], rest) for i in range(len(parts)))
    return fnmatchcase(parts[0], segments[0]) and _path_matches(parts[1:], segments[1:])


def _folder_entries(glob: Glob, extensions: tuple[str, ...]) -> Iterator[LandedFile | RefusedFile]:
    """Yield every entry below the root that is not a folder, and the folders that are not
    entered."""
    pending: list[tuple[str, Path]] = [("", glob.root)]
    while pending:
        prefix, folder = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError as error:
            yield RefusedFile(
                printable_text(prefix) or "./", f"the folder cannot be listed ({error.strerror})"
            )
            continue
        if not glob.reaches(prefix.count("/")):
            if entries:
                yield RefusedFile(
                    printable_text(prefix),
                    "a folder that the pattern does not reach into (** reaches into all)",
                )
            continue
        for entry in entries:
            name, why = prefix + entry.name, bad_name(entry.name)
            if glob.names_file and entry.name not in named_files(glob):
                continue
            if not entry.is_dir(follow_symlinks=False):
                yield from _judged_file(
                    name,
                    entry.path,
                    None if entry.name == FOLDER_MANIFEST else why,
                    glob,
                    extensions,
                )
            elif why:
                yield RefusedFile(printable_text(name) + "/", why)
            else:
                pending.append((name + "/", Path(entry.path)))


def named_files(glob: Glob) -> tuple[str, ...]:
    """What is looked at below the root of a pattern without wildcards: the file that it names, the
    file's totals, and the folder's manifest."""
    name = glob.segments[0]
    return name, name + TOTALS_SUFFIX, FOLDER_MANIFEST


def bad_name(name: str) -> str | None:
    """Why a file or folder of this name, without its folder, is not read; None if it may be."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in name):
        return "its name has control characters"
    return "hidden: its name starts with . or _" if name.startswith((".", "_")) else None


def _judged_file(
    name: str, path: str, why: str | None, glob: Glob, extensions: tuple[str, ...]
) -> Iterator[LandedFile | RefusedFile]:
    """Yield the file if it may be read, else its refusal; nothing if it vanished since the folder
    was listed."""
    with suppress(FileNotFoundError):
        status = os.lstat(path)
        why = why or _file_fault(name, path, status, glob, extensions)
        if why:
            yield RefusedFile(printable_text(name), why)
        else:
            yield LandedFile(name, Path(path), status.st_size, status.st_mtime_ns)


def _file_fault(
    name: str, path: str, status: os.stat_result, glob: Glob, extensions: tuple[str, ...]
) -> str | None:
    """Why a file of this status is not read; None if it may be."""
    if name.endswith(TOTALS_SUFFIX) and is_manifest(name):
        return None  # its own reader says what is wrong with it
    if stat.S_ISLNK(status.st_mode):
        return "a symbolic link, which is never followed"
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    why = name_or_size_fault(name, status.st_size, glob, extensions)
    return why or (None if os.access(path, os.R_OK) else "this user may not read it")


def name_or_size_fault(name: str, size: int, glob: Glob, extensions: tuple[str, ...]) -> str | None:
    """Why a regular file of this name and size is not read; None if it may be."""
    lower = name.lower()
    if name.endswith(TOTALS_SUFFIX) and is_manifest(name):
        return None  # one that cannot be read must not let its file pass
    if lower.endswith(TEMPORARY):
        return "temporary: its name says that it is still being written"
    if not is_manifest(name):
        if not glob.matches(name):
            return "does not match the pattern"
        if not lower.endswith(extensions) and lower.endswith(
            (*sum(EXTENSIONS.values(), ()), *OTHER_KINDS)
        ):
            return f"its name is of another kind: it does not end in {' or '.join(extensions)}"
    if size > Limits.max_bytes:
        return f"it has {size} bytes, more than the limit of {Limits.max_bytes}"
    return "a gzip file of 0 bytes: it was cut off" if size == 0 and lower.endswith(".gz") else None
