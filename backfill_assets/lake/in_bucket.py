"""A lake in a bucket as it is opened: copies of what people keep in it, and settings that cannot work there refused.

Not here: reading and writing what lies there (`bucket`), and the address (`core.addresses`).
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from backfill_assets.core.addresses import address_of, bucket_address
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.place import Place, exists, read
from backfill_assets.engine.confs import scrub
from backfill_assets.lake.folder import TABLES
from backfill_assets.lake.settings import FILE_NAME, LakeSettings
from backfill_assets.places.choice import place_at
from backfill_assets.places.folder import Folder

OWN_FILE = re.compile(r"\.(py|sql)$")
ELSEWHERE = re.compile(r"^(sc|spark|k8s)://|^yarn$")  # engines whose machines do not see the copies of this one
FROZEN = re.compile(r"\.plans/code/\w+")  # the folder of older code that a plan works by (`backfill.code`)
CODE = ("tables", "sql", "definitions")  # keys of [pipeline] that name files of the lake


def fetch_own(root: Path, settings: LakeSettings) -> None:
    """Not atomic. Give this machine's folder of the lake today's `lake.toml`, for people to look at, and the files that
    its pipeline may reach; those that are gone from the bucket are deleted here."""
    place, here = place_at(root), Folder(str(root))
    landings = {source.files.partition("/")[0] for source in settings.delivered.values()}
    has_code = any(getattr(settings.pipeline, key) for key in CODE)
    wanted = {FILE_NAME, *(_own_files(place, {TABLES, *landings}) if has_code else ())}
    for folder in {found[0] for key in CODE if (found := FROZEN.match(getattr(settings.pipeline, key) or ""))}:
        wanted |= {*place.below(folder)}
    for name in wanted:
        if (content := read(place, name)) != _known(here, name):
            here.write(name, content)
    for name in {*_own_files(here, {TABLES})} - wanted:
        here.delete(name)


def fetched(root: Path, name: str) -> Path:
    """The path of a file that people keep in a lake, on this machine with its content of now; it need not exist."""
    if bucket_address(root) and exists(place := place_at(root), name):
        Folder(str(root)).write(name, read(place, name))
    return root / name


def _known(here: Folder, name: str) -> bytes | None:
    return read(here, name) if here.token(name) is not None else None


def _own_files(place: Place, others: Collection[str]) -> Iterator[str]:
    """The names of Python and SQL files beside a lake's own folders: at its top, and below folders that are not its."""
    for name in place.names():
        if OWN_FILE.search(name):
            yield name
        elif "." not in name and name not in others:
            yield from (file for file in place.below(name) if OWN_FILE.search(file))


def refuse_unreachable(root: Path, settings: LakeSettings) -> None:
    """Raise SettingsError for settings that need the lake's folder, where the lake lies in a bucket."""
    if here := sorted(name for name, table in settings.tables.items() if Path(table.external).is_absolute()):
        raise _refused(
            root, f"[tables.{here[0]}] external = {settings.tables[here[0]].external!r} lies in a folder, which other "
            "machines need not see", "Name its address in a bucket, or keep this lake in a folder",
        )  # fmt: skip
    if ELSEWHERE.match(settings.spark.engine) and not address_of(root).startswith("s3://"):
        raise _refused(
            root, f"[spark] engine = {scrub(settings.spark.engine)!r} computes on machines that reach lakes in S3 only",
            'Set engine = "embedded", or keep this lake at s3://… or in a folder that all of them see',
        )  # fmt: skip


def refuse_in_bucket(root: Path, what: str, fix: str) -> None:
    """Raise SettingsError where a lake lies in a bucket and `what` works in a folder only."""
    if bucket_address(root):
        culprit = f"it lies in a bucket, and {what} a lake in a folder"
        raise SettingsError(f"the lake {address_of(root)}", culprit, "Nothing was done", fix)


def _refused(root: Path, culprit: str, fix: str) -> SettingsError:
    return SettingsError(f"{address_of(root)}/{FILE_NAME}", culprit, "Nothing was done", fix)
