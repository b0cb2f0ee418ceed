"""The lake of an IO manager or a resource: opened without a change of the process, made where there
is none.

Does not live here: opening a lake for commands (`kernel.tables.home.open_lake`, which gives the
process a umask).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path

from backfill_assets.assets.declared import (
    DeclaredTable,
    declare_table,
    find_declared,
    restore_declaration,
)
from backfill_assets.kernel.core.addresses import bucket_address, local_root
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.ownership import make_closed_folder
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import AlreadyThere, Changed, Token
from backfill_assets.kernel.tables.folder import OWN_FOLDERS, close_folder, refuse_file
from backfill_assets.kernel.tables.home import Lake, read_lake
from backfill_assets.kernel.tables.settings import FILE_NAME

NEW_LAKE = """\
# A lake of backfill_assets that holds what assets of a Dagster project return (`LakeIOManager`).
# It loads no files.

# The first day of any asset; the IO manager lowers it for an earlier one.
start_date = {start}
assets_only = true

# [gates.tables.NAME]                # bounds for the rows of a day, besides those of `lake_checks`
# max_relative_change = 0.5
# [retention]
# rollback_days = 90                 # how long replaced rows can be put back
"""
START = re.compile(r"^start_date *= *\d{4}-\d\d-\d\d", re.MULTILINE)


def lake_at(folder: str | Path) -> Lake:
    """The lake in a folder, with the rights of its own folders as `[access]` says. Raises
    SettingsError where there is none. The umask of the process stays."""
    lake = read_lake(folder)
    root = lake.root
    for name in OWN_FOLDERS:
        close_folder(root / name, lake.settings.access.umask)
    return lake


def lake_for_asset(folder: str | Path, start: date, readers: str = "") -> Lake:
    """The lake in a folder for an asset whose first day is `start`: made where there is none
    (`readers`: with these in `[access]`), its `start_date` lowered where it only holds what assets
    return. Raises SettingsError for a lake of landed files that begins later."""
    root = local_root(folder)
    refuse_file(root)
    place = place_at(root)
    if not place.exists(FILE_NAME):
        with suppress(AlreadyThere):
            access = f'\n[access]\nreaders = "{readers}"\n' if readers else ""
            place.write(FILE_NAME, (NEW_LAKE.format(start=start) + access).encode(), if_absent=True)
    while True:
        seen = place.token(FILE_NAME)
        lake = lake_at(root)
        _make_folders(lake)
        if lake.settings.start_date <= start:
            return lake
        with suppress(Changed):  # somebody else wrote it meanwhile, and may have lowered it further
            _lower_start(lake, start, seen)
            return lake_at(root)


def _make_folders(lake: Lake) -> None:
    """Make the lake's own folders with the rights that `[access]` gives, since the umask of a
    project's process may give the first run's others."""
    for name in OWN_FOLDERS if not bucket_address(lake.root) else ():
        make_closed_folder(lake.root / name, lake.settings.access.umask)


def _lower_start(lake: Lake, start: date, seen: Token | None) -> None:
    """Write the day `start` as the lake's first one to its lake.toml. Raises Changed where that is
    not the file `seen` any more, SettingsError for a lake that loads files."""
    place = lake.place
    text = place.read(FILE_NAME).decode()
    if not lake.settings.assets_only or not START.search(text):
        raise SettingsError(
            place.uri(FILE_NAME),
            f"start_date is {lake.settings.start_date}, and the asset has days from {start} on",
            "Nothing was written",
            "Lower start_date, or give the asset a lake of its own",
        )
    place.write(
        FILE_NAME, START.sub(f"start_date = {start}", text, count=1).encode(), if_unchanged=seen
    )


@contextmanager
def declaring_table(lake: Lake, table: DeclaredTable) -> Iterator[None]:
    """Within, the lake knows the table as it is to be written. Where the block raises it is known
    as before, unless rows were committed or another writer declared it meanwhile: a table with rows
    never becomes unknown."""
    name, day_column = table.contract.name, table.contract.day_column
    with lake.store.lock(name):
        before = find_declared(lake.place, name)
        version = lake.store.view(name, day_column).version
        declare_table(lake.place, table)
    try:
        yield
    except BaseException:
        with lake.store.lock(name):
            is_ours = find_declared(lake.place, name) == table
            if is_ours and lake.store.view(name, day_column).version == version:
                restore_declaration(lake.place, name, before)
        raise
