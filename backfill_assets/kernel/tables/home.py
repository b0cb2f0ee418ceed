"""An opened lake: its folder, its settings, and the store of its tables; in a bucket copies of what
people keep there.

Not here: its paths (`folder`), its address (`kernel.core.addresses`), and which lake is meant
(`kernel.core.process`).
"""

import contextlib
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.kernel.core.addresses import address_of, bucket_address, local_root
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import LOCKS, Place
from backfill_assets.kernel.tables.folder import (
    OWN_FOLDERS,
    TABLES,
    LakeFolder,
    close_folder,
    refuse_file,
)
from backfill_assets.kernel.tables.settings import FILE_NAME, LakeSettings, load_settings
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.tables.table_places import candidate_facts


@dataclass(frozen=True)
class Lake(LakeFolder):
    """A lake whose settings were read (`LakeFolder`), and the `store` of its tables. Created by
    `open_lake`."""

    @property
    def store(self) -> TableStore:
        """The store of its tables."""
        return TableStore(self)


def open_lake(root: Path | str, is_further: bool = False, proposed: Path | None = None) -> Lake:
    """The lake at `root`, a folder or an address; raises SettingsError if its `lake.toml` is
    missing or bad. `proposed`: the folder of a lake.toml that is tried before the lake has one.

    From then on only the users that `[access]` names can read files that this process writes, and
    the lake's own folders. A `is_further` lake, opened beside that of the process, never adds
    users: files may hold rows of both.
    """
    lake = read_lake(root, proposed)
    before = os.umask(umask := lake.settings.access.umask)
    if is_further:
        os.umask(umask | before)
    _close_folders(lake)
    return lake


def read_lake(root: Path | str, proposed: Path | None = None) -> Lake:
    """The lake at `root` as `open_lake` gives it; neither this process nor any folder is changed,
    but for this machine's copies of the own files of a lake in a bucket."""
    root = local_root(root)
    refuse_file(root)
    settings = load_settings(proposed or root)
    if bucket_address(root):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_unreachable(root, settings)
        if proposed is None:
            fetch_own_files(root, settings)
    if not (candidate := candidate_facts(root)):
        return Lake(root, settings)
    return Lake(root, settings, shared=root.parent.parent, own=frozenset(candidate["tables"]))


@contextlib.contextmanager
def restricted_access(lake: Lake) -> Iterator[None]:
    """Within, only the users that `[access]` names can read files that this process writes; then
    its umask is as it was."""
    before = os.umask(lake.settings.access.umask)
    try:
        _close_folders(lake)
        yield
    finally:
        os.umask(before)


def _close_folders(lake: Lake) -> None:
    for name in OWN_FOLDERS:
        close_folder(lake.root / name, lake.settings.access.umask)


def unwritable_folder(lake: Lake) -> Path | None:
    """Return a folder of the lake that this user may not write into; None without any."""
    folders = (lake.root, lake.root / ".runs", lake.root / LOCKS, lake.tables)
    return next((f for f in folders if f.exists() and not os.access(f, os.W_OK | os.X_OK)), None)


def refuse_unwritable(lake: Lake) -> None:
    """Raise BackfillError if this user may not write into the lake."""
    if (folder := unwritable_folder(lake)) is not None:
        fix = "Run as the owner of the lake, or have the rights changed"
        raise BackfillError(
            str(folder), "this user may not write there", "Nothing was started", fix
        )


OWN_FILE = re.compile(r"\.(py|sql)$")
# Engines whose machines do not see the copies of this one.
REMOTE_ENGINE = re.compile(r"^(sc|spark|k8s)://|^yarn$")
# The folder of older code that a plan works by (`plans.code`).
FROZEN = re.compile(r"\.plans/code/\w+")
CODE_KEYS = ("tables", "sql", "definitions")  # keys of [pipeline] that name files of the lake


def fetch_own_files(root: Path, settings: LakeSettings) -> None:
    """Not atomic. Give this machine's folder of the lake today's `lake.toml`, for people to look
    at, and the files that its pipeline may reach; those that are gone from the bucket are deleted
    here."""
    place, here, wanted = place_at(root), Folder(str(root)), {FILE_NAME}
    named = [text for key in CODE_KEYS if (text := getattr(settings.pipeline, key))]
    if named:
        landings = {source.files.partition("/")[0] for source in settings.delivered.values()}
        wanted |= {*_own_files(place, {TABLES, *landings})}
    for text in named:
        if frozen := FROZEN.match(text):
            wanted |= {*place.below(frozen[0])}
    for name in wanted:
        if (content := place.read(name)) != _local_content(here, name):
            here.write(name, content)
    for name in {*_own_files(here, {TABLES})} - wanted:
        here.delete(name)


def _local_content(here: Folder, name: str) -> bytes | None:
    return here.read(name) if here.token(name) is not None else None


def _own_files(place: Place, others: Collection[str]) -> Iterator[str]:
    """The names of Python and SQL files beside a lake's own folders: at its top, and below folders
    that are not its."""
    for name in place.names():
        if OWN_FILE.search(name):
            yield name
        elif "." not in name and name not in others:
            yield from (file for file in place.below(name) if OWN_FILE.search(file))


def refuse_unreachable(root: Path, settings: LakeSettings) -> None:
    """Raise SettingsError for settings that need the lake's folder, where the lake lies in a
    bucket."""
    for name, table in sorted(settings.tables.items()):
        if Path(table.external).is_absolute():
            raise _bucket_setting_error(
                root,
                f"[tables.{name}] external = {table.external!r} lies in a folder, which other "
                "machines need not see",
                "Name its address in a bucket, or keep this lake in a folder",
            )
    if REMOTE_ENGINE.match(settings.spark.engine) and not address_of(root).startswith("s3://"):
        raise _bucket_setting_error(
            root,
            f"[spark] engine = {scrub_secrets(settings.spark.engine)!r} computes on machines that "
            "reach "
            "lakes in S3 only",
            'Set engine = "embedded", or keep this lake at s3://… or in a folder that all of them '
            "see",
        )


def _bucket_setting_error(root: Path, culprit: str, fix: str) -> SettingsError:
    return SettingsError(f"{address_of(root)}/{FILE_NAME}", culprit, "Nothing was done", fix)
