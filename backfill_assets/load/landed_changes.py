"""The landing folder against the ledger `files`: what is new, altered, missing or merely touched. No JVM.

Lives here: the comparison, which asks for contents only where size or time differ. Does not live here: listing
(`landing`), what a scan does about it (`scan`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from backfill_assets.lake.ledger import FileRecord, read_files
from backfill_assets.lake.session import LakeSession
from backfill_assets.landing.files import Hashes, LandedFile
from backfill_assets.landing.listing import Listing, list_landing
from backfill_assets.landing.row_origin import identity


def look(lake_session: LakeSession) -> tuple[Listing, list[FileRecord]]:
    """The landing folder and the ledger, side by side. No JVM."""
    source, lake = lake_session.lake.settings.source, lake_session.lake
    return list_landing(source.files, lake.root, source.format), read_files(lake.store, lake.source)


@dataclass(frozen=True)
class Comparison:
    """The landing folder against the ledger. `lapsed`: records whose file changed or vanished, and that are
    no basis of raw, or no longer the only path of theirs."""

    fresh: list[LandedFile]
    altered: list[FileRecord]
    missing: list[FileRecord]
    lapsed: list[FileRecord]


def _is_as_recorded(file: LandedFile, record: FileRecord, hashes: Hashes) -> bool:
    sha256 = hashes.sha256(file)
    return record.sha256 in (sha256, identity(sha256, file.name))  # whichever it was by, the bytes are the same


def compare(listing: Listing, records: Sequence[FileRecord], hashes: Hashes) -> Comparison:
    """What is new, altered, missing. Hashes only files of equal size whose time changed, each once; no JVM.

    A record none of whose rows was ever usable is no basis of raw: its file may change or vanish freely. What settings
    of today say of its rows does not matter: raw holds what was made under others. A missing file is not missing while
    the same content lies at another path.
    """
    here = {f.name: f for f in listing.files}
    live = [r for r in records if not r.withdrawn]
    altered, gone, same = [], [], set()
    for record in live:
        file = here.get(record.path)
        if file is None:
            gone.append(record)
        elif file.size == record.size and (file.mtime_ns == record.mtime_ns or _is_as_recorded(file, record, hashes)):
            same.add(record.path)
        else:
            altered.append(record)
    taken = same | {r.path for r in altered if r.is_basis}
    present = {r.sha256 for r in live if r.path in same}
    return Comparison(
        fresh=[f for f in listing.files if f.name not in taken],
        altered=[r for r in altered if r.is_basis],
        missing=[r for r in gone if r.is_basis and r.sha256 not in present],
        lapsed=[
            *(r for r in altered if not r.is_basis),
            *(r for r in gone if not r.is_basis or r.sha256 in present),
        ],
    )


def compared(lake_session: LakeSession) -> tuple[Comparison, Listing, list[FileRecord]]:
    """The comparison as things are now, with both its sides. What was hashed for it is kept for those who look next."""
    listing, records = look(lake_session)
    hashes = Hashes(lake_session.lake.stock)
    found = compare(listing, records, hashes)
    hashes.keep()
    return found, listing, records
