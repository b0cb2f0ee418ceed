"""Where a source's deliveries lie: the folder, or the prefix in a bucket, of `[source] files` or
`table`.

Not here: what is listed there (`intake.listing`, `intake.object_listing`), and the log of a table
(`source_log`).
"""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlparse

from backfill_assets.intake.listing import Glob, Listing, list_landing, parse_pattern
from backfill_assets.intake.object_listing import list_objects
from backfill_assets.kernel.core.addresses import bucket_address, local_bucket_folder, table_address
from backfill_assets.kernel.place.choice import bucket_prefix_at, place_of_others
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.sections import SourceSettings


def list_files(pattern: str, base: Path, format: str) -> Listing:
    """The landed files or objects that `[source] files` offers for reading; `base`: the lake's
    folder. Raises SettingsError for an unusable pattern."""
    glob = _parsed_glob(pattern, base)
    if glob.scheme:
        return list_objects(glob, bucket_prefix_at(glob.address), format)
    return list_landing(pattern, base, format)


def refuse_unusable_source(source: SourceSettings) -> None:
    """Raise SettingsError for a pattern, or a `select`, that no load could use."""
    from backfill_assets.intake.select import select_expressions  # imports sqlglot

    parse_pattern(source.files, Path())
    select_expressions(source.select)


def deliveries_root(source: SourceSettings, base: Path) -> Path:
    """The folder of a source's deliveries, which lie in no bucket: its table, or the fixed root of
    its glob."""
    if source.table is None:
        return parse_pattern(source.files, base).root
    return resolved_path(source.table, base)


def source_table(source: SourceSettings, base: Path) -> Place:
    """The place of a source's table. Raises SettingsError for an address that none can have."""
    return place_of_others(_deliveries_address(source, base) or str(deliveries_root(source, base)))


def searched_root(source: SourceSettings, base: Path) -> Path:
    """The folder of a source's deliveries; of those in a bucket this machine's folder of their
    prefix, which need not exist."""
    if not is_in_bucket(source, base):
        return deliveries_root(source, base)
    return local_bucket_folder(_deliveries_address(source, base), base)


def resolved_path(named: str, base: Path) -> Path:
    """A path, relative to `base` or absolute, or a file URI, as a path."""
    return base / (unquote(urlparse(named).path) if named.startswith("file:") else named)


def local_roots(sources: Iterable[SourceSettings], base: Path) -> list[Path]:
    """The folders of deliveries of the sources whose deliveries lie in no bucket."""
    return [deliveries_root(source, base) for source in sources if not is_in_bucket(source, base)]


def is_in_bucket(source: SourceSettings, base: Path) -> bool:
    """Whether a source's deliveries are objects of a bucket."""
    return bool(_deliveries_address(source, base))


def _deliveries_address(source: SourceSettings, base: Path) -> str:
    """The address of a source's deliveries in a bucket; "" in a folder."""
    if source.table is not None:
        return table_address(source.table, base, f"[source] table = {source.table!r}")
    glob = _parsed_glob(source.files, base)
    return glob.address if glob.scheme else ""


def _parsed_glob(pattern: str, base: Path) -> Glob:
    """The parsed pattern; a relative one of a lake in a bucket begins at the lake's address."""
    home = bucket_address(base)
    is_below = home and "://" not in pattern and not Path(pattern).is_absolute()
    return parse_pattern(f"{home}/{pattern}" if is_below else pattern, base)
