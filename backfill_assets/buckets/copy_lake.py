"""`copy-lake`: the content of a lake in another folder or bucket, byte for byte, as of one moment.

The target holds `.copy-lake.json` until it holds all, and gets its `lake.toml`, which makes it a
lake, last. Stopped at any moment, the same command goes on. A target is taken for somebody else's
until all that lies there is known to be this user's, and no link is followed on either side. Not
here: what only one machine needs (locks, marks of runs, scratch, Dagster's home, the engine), which
is not copied; and landing folders elsewhere, which stay where they are.
"""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from backfill_assets.intake.landings import local_roots
from backfill_assets.kernel.core.addresses import CANDIDATES, address_of, bucket_address
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.ownership import refuse_foreign_lake, whoami
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.log.file_names import OTHERS
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import (
    LOCKS,
    RUNS,
    AlreadyThere,
    Gone,
    Place,
    Token,
)
from backfill_assets.kernel.tables.folder import (
    DAGSTER_FOLDER,
    FORGOTTEN,
    OWN_FOLDERS,
    TABLES,
    refuse_file,
)
from backfill_assets.kernel.tables.home import Lake, refuse_unreachable
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.staging import tables_being_written
from backfill_assets.kernel.tables.versions import unfinished_switches

UNFINISHED_COPY_FILE = (
    ".copy-lake.json"  # in a target that does not hold all yet: which lake is copied there
)
OF_MACHINES = (LOCKS, RUNS, DAGSTER_FOLDER)
CONTENTS_FOLDER = (
    ".stock"  # of contents: links there lead to landed files, and a copy does without them
)
COPIED_OWN_FOLDERS = tuple(folder for folder in OWN_FOLDERS if folder not in OF_MACHINES)
MOST_ROUNDS = 3  # looks at a lake that is written meanwhile
AT_ONCE = 8  # files
Content = Mapping[str, Token]  # the files of a lake by name


CopiedForm = TypedDict(
    "CopiedForm", {"from": str, "to": str, "files": int, "bytes": int, "copied": int}
)


@dataclass(frozen=True)
class CopiedLake:
    """A lake that was copied."""

    source: str  # folder or address
    target: str
    files: int  # that the lake holds
    bytes: int  # of them
    copied: int  # files that this call brought: the others were there already

    def __str__(self) -> str:
        """The copy as one line."""
        return (
            f"{self.target} holds what {self.source} holds: {self.files} file(s), "
            f"{self.bytes / 1e6:,.1f} MB, every "
            f"byte compared; {self.copied} came with this command"
        )

    def to_dict(self) -> CopiedForm:
        """The copy as JSON values."""
        return {
            "from": self.source,
            "to": self.target,
            "files": self.files,
            "bytes": self.bytes,
            "copied": self.copied,
        }


def copy_lake(lake: Lake, root: Path) -> CopiedLake:
    """Copy a lake to the place of the folder `root` (`kernel.core.addresses`): tables with their
    logs, ledgers, contents, plans, snapshots, candidates, records, `lake.toml` and what people keep
    beside it.

    The lake is looked at before and after each round; if anything changed, one more round follows,
    so that the copy is the lake of one moment. Raises BackfillError for a lake that is written for
    so long, an unfinished publication or rollback, a table that is a link to one of others, any
    other link, and a target that is another lake's, another user's or not empty; Held while another
    command copies to the target.
    """
    target = place_at(root)
    _refuse_source(lake, root)
    if not bucket_address(root):
        _refuse_foreign_target(root)
    _mark_target(lake, target)
    with target.lock(f"{LOCKS}/copy-lake.lock", f"the copy to {target}", seconds=0):
        if not target.exists(UNFINISHED_COPY_FILE):
            fix = "Look at the target: it may be a lake in use by now"
            raise BackfillError(
                f"the target {target}",
                "another command finished the copy",
                "Nothing was copied",
                fix,
            )
        return _copy_in_rounds(lake, target)


def _copy_in_rounds(lake: Lake, target: Place) -> CopiedLake:
    """Copy in rounds until one finds the lake as it left it."""
    if target.exists(FILE_NAME):
        # It held all when the command was killed, and may have been used since.
        return _finish_copy(lake, target, _lake_content(lake), 0)
    done, copied, no_lake = dict[str, Token](), 0, "The target is no lake yet"
    for _ in range(MOST_ROUNDS):
        if busy := tables_being_written(lake.place):
            culprit = f"another command writes {', '.join(busy)}"
            raise _uncopied_lake_error(
                lake, culprit, no_lake, "Wait until it ends; the same command goes on"
            )
        before, settings = _lake_content(lake), lake.place.read(FILE_NAME)
        done, brought = _copy_round(lake.place, target, before, done)
        copied += brought
        if _lake_content(lake) == before == done:
            target.write(FILE_NAME, settings, if_absent=True)
            return _finish_copy(lake, target, done, copied)
    fix = (
        "Stop what writes it (schedules, sensors, commands), then run the same command: it goes on"
    )
    raise _uncopied_lake_error(
        lake, f"it was written during each of {MOST_ROUNDS} rounds", no_lake, fix
    )


def _refuse_source(lake: Lake, root: Path) -> None:
    """Raise for a lake that cannot be copied there; nothing is written yet."""
    nothing = "Nothing was copied"
    if lake.shared is not None:
        fix = "Copy its lake, which brings its candidates along"
        raise _uncopied_lake_error(lake, "it is a candidate", nothing, fix)
    _refuse_nested(lake, root)
    if stopped := unfinished_switches(lake):
        raise _uncopied_lake_error(lake, str(stopped[0]), nothing, "Then copy it")
    if linked := ", ".join(_linked_tables(lake)):
        raise _uncopied_lake_error(
            lake,
            f"{linked} is read from the folder of others by a link, which no copy has",
            nothing,
            "Take it out of lake.toml and its folder out of the lake, or copy by hand",
        )
    if not bucket_address(lake.root):
        _refuse_links(lake)
    if bucket_address(root):
        refuse_unreachable(root, lake.settings)
    else:
        refuse_file(root)


def _refuse_nested(lake: Lake, root: Path) -> None:
    """Raise if `root` lies in `lake` or in another lake, or `lake` lies in `root`."""
    nothing = "Nothing was copied"
    here, there = f"{lake.address}/", f"{address_of(root)}/"
    if here.startswith(there) or there.startswith(here):
        raise _uncopied_lake_error(
            lake,
            f"{address_of(root)} lies in it, or it lies there",
            nothing,
            "Name a place beside it",
        )
    if not bucket_address(root) and (other := _lake_above(root)):
        raise BackfillError(
            f"the target {root}",
            f"it lies in the lake {other}",
            nothing,
            "Name a place beside that",
        )


def _linked_tables(lake: Lake) -> list[str]:
    """The tables of `lake` that a link into the folder of others makes, and the adopted ones."""
    tables, linked = lake.place.at(TABLES), set[str]()
    in_buckets = {name for name in lake.settings.tables if lake.address_of_adopted(name)}
    for table in {*tables.names(), *in_buckets}:
        leads_away = any(name.startswith(OTHERS) for name in tables.names(table))
        if leads_away or lake.is_adopted(table):
            linked.add(table)
    return sorted(linked)


def _lake_above(root: Path) -> Path | None:
    """The lake in a folder above, of which a target's files would be taken for files."""
    return next((folder for folder in root.parents if place_at(folder).exists(FILE_NAME)), None)


def _refuse_links(lake: Lake) -> None:
    """Raise for a lake in a folder of which a file that a copy holds is a link, a pipe or the like:
    what lies behind one is not of the lake, and would be left out."""
    passed_over = (f"{CONTENTS_FOLDER}/", *_absolute_landings(lake))
    odd = [name for name in _irregular_files(lake.root) if not name.startswith(passed_over)]
    if copied := sorted(name for name in odd if _is_copied(name)):
        raise _uncopied_lake_error(
            lake,
            f"{printable_text(copied[0])} is a link, or no regular file, and no link is followed",
            "Nothing was copied",
            "Put the file or folder itself there, or take it out of the lake; a landing folder "
            "elsewhere is named by its whole path in lake.toml",
        )


def _refuse_foreign_target(root: Path) -> None:
    """Raise unless a target folder, and all that lies there, is this user's alone and without
    links. Where a lake is complete, only what names code is looked at: its programs made links of
    their own since."""
    refuse_foreign_lake(root)
    odd = sorted(_irregular_files(root))
    if place_at(root).exists(FILE_NAME) and FILE_NAME not in odd:
        return
    for name in odd:
        raise BackfillError(
            f"the target {root}",
            f"{printable_text(name)} there is a link, or no regular file, and no link is followed",
            "Nothing was copied",
            "Look who made it, and name an empty folder of your own",
        )
    refuse_foreign_lake(root, _paths_below(root))


def _mark_target(lake: Lake, target: Place) -> None:
    """Mark the target as a copy that does not hold all. Raises unless it is empty or such a copy of
    this lake."""
    known = target.read_json(UNFINISHED_COPY_FILE)
    if known.get("from") == address_of(lake.root):
        return
    culprit = f"a copy of {known.get('from')} begins there" if known else "it is not empty"
    if not target.names():
        body = {"from": address_of(lake.root), "by": whoami()}
        with suppress(AlreadyThere):
            target.write(UNFINISHED_COPY_FILE, json.dumps(body).encode(), if_absent=True)
            return
    fix = "Name an empty folder or prefix; what a copy that was given up left there can be deleted"
    raise BackfillError(f"the target {target}", culprit, "Nothing was copied", fix)


def _lake_content(lake: Lake) -> dict[str, Token]:
    """Return the files of a lake that a copy holds, by name, with their tokens."""
    names = lake.place.below()
    _refuse_odd_names(lake, names)
    landing_folders = _absolute_landings(lake)
    files = {name for name in names if not name.startswith(landing_folders)}
    content = {}
    for name, token in lake.place.tokens().items():
        if name in files and _is_copied(name):
            content[name] = token
    return content


def _absolute_landings(lake: Lake) -> tuple[str, ...]:
    """The landing folders in the lake that `lake.toml` names by whole paths, which stay where they
    are; each ends with `/`."""
    sources = [s for s in lake.settings.delivered.values() if Path(s.files).is_absolute()]
    inside = [r for r in local_roots(sources, lake.root) if r.is_relative_to(lake.root)]
    return tuple(f"{root.relative_to(lake.root).as_posix()}/" for root in inside)


def _refuse_odd_names(lake: Lake, names: Iterable[str]) -> None:
    """Raise for a name, as an object may have it, that would lead out of a folder or be another
    file there."""
    for name in names:
        leads_out = not {"", ".", ".."}.isdisjoint(name.split("/"))
        if leads_out or "\0" in name:
            fix = "Look who wrote it, and delete or rename the object"
            raise _uncopied_lake_error(
                lake,
                f"{printable_text(name)} is no name of a file",
                "The target is no lake yet",
                fix,
            )


def _is_copied(name: str) -> bool:
    """Whether a file of a lake, or of a candidate in it, is of more than one machine."""
    first, _, rest = name.partition("/")
    if first.startswith(".") and first not in COPIED_OWN_FOLDERS:
        return False
    inner = rest.partition("/")[2] if first == CANDIDATES else ""
    return not inner or _is_copied(inner)


def _copy_round(
    source: Place, target: Place, content: Content, done: Content
) -> tuple[dict[str, Token], int]:
    """Bring what the target lacks or has otherwise, and delete what the source lacks; gives the
    files that are proven to be the same, of which `done` are known, and the number of those that
    came."""
    here = {name: token.size for name, token in target.tokens().items() if _is_copied(name)}
    for name in here.keys() - content.keys():
        target.delete(name)
    proven = {n: t for n, t in content.items() if n == FILE_NAME or done.get(n) == t}
    todo = [name for name in content if name not in proven]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        brought = [*pool.map(lambda n: _copy_file(source, target, n, here.get(n)), todo)]
    came = [name for name, is_new in zip(todo, brought, strict=True) if is_new]
    target.sync_new(came)
    for name, is_new in zip(todo, brought, strict=True):
        if is_new is not None:
            proven[name] = content[name]
    return proven, len(came)


def _copy_file(source: Place, target: Place, name: str, here: int | None) -> bool | None:
    """Make a file of the target what the source's is; says whether it was another (`here`: its
    bytes). None if it is not yet the same, because the source's changed meanwhile."""
    try:
        digest = source.sha256(name)
        if here is not None and here == source.size(name) and target.sha256(name) == digest:
            return False
        if name.startswith(f"{FORGOTTEN}/"):
            target.write(name, source.read(name), is_private=True)
        else:
            target.copy(name, source, name)
        return True if target.sha256(name) == digest else None
    except Gone:
        return None


def _finish_copy(lake: Lake, target: Place, content: Content, copied: int) -> CopiedLake:
    target.delete(UNFINISHED_COPY_FILE)
    size = sum(token.size for token in content.values())
    return CopiedLake(address_of(lake.root), str(target), len(content), size, copied)


def _uncopied_lake_error(lake: Lake, culprit: str, consequence: str, fix: str) -> BackfillError:
    return BackfillError(f"the lake {address_of(lake.root)}", culprit, consequence, fix)


def _irregular_files(root: Path) -> Iterator[str]:
    """The names, from `root`, of what lies at any depth below that folder and is neither a folder
    nor a regular file: links, pipes, sockets and devices, in no order. `Folder.below` leaves links
    out; nobody goes through one here."""
    for folder, subfolders, files in os.walk(root):
        for path in (f"{folder}/{name}" for name in (*subfolders, *files)):
            mode = os.lstat(path).st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                yield os.path.relpath(path, root)


def _paths_below(root: Path) -> list[Path]:
    """Every folder and file at any depth below a folder, in no order; no link is followed."""
    return [
        Path(folder, name)
        for folder, subfolders, files in os.walk(root)
        for name in (*subfolders, *files)
    ]
