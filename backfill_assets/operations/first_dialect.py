"""The dialect that landed text files suggest: encoding, separator and decimal commas, where they leave no doubt.

Not here: what columns mean (`first_source`), and reading by a dialect (`landing.dialect`). The parser judges a guess.
"""

import os
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress

from backfill_assets.landing.csv_records import CsvRecords
from backfill_assets.landing.dialect import PLAIN_TEXT, Dialect
from backfill_assets.landing.files import LandedFile, opened
from backfill_assets.landing.ingest import DEFAULT_LIMITS
from backfill_assets.landing.text_lines import GZIP_MAGIC, Unreadable

SEEN_BYTES = 1 << 18  # of each file
SEPARATORS = (",", ";", "\t", "|")
MOST_BAD = 0.1  # of the records of a file that is read as it is meant
COMMAS = Dialect(numbers=("any",), decimal=",", thousands=".")

Columns = Mapping[str, Sequence[str]]


def first_dialect(files: Sequence[LandedFile], form: str) -> Dialect:
    """How files of text are written, by their beginnings; as plain files are where these say nothing else, or no one
    thing. Parts of an encoding that is not seen, or of several, are set aside by name when the files are read."""
    if form == "parquet":
        return PLAIN_TEXT
    heads = [_head(f) for f in files]
    encoding = next((e for e in ("utf-8", "utf-16", "cp1252") if all(_is_in(h, e) for h in heads)), "utf-8")
    if form != "csv":
        return Dialect(encoding=encoding)
    read = {s: [_columns(h, Dialect(separator=s, encoding=encoding)) for h in heads] for s in SEPARATORS}
    fit = [s for s, found in read.items() if found and all(len(columns) > 1 for columns in found)]
    if len(fit) != 1 or fit == [","]:
        return Dialect(encoding=encoding)
    values = dict[str, list[str]]()
    for columns in read[fit[0]]:
        for name, texts in columns.items():
            values.setdefault(name, []).extend(t for t in texts if t.strip())
    numbers = {n: v for n, v in values.items() if v and all(re.fullmatch(COMMAS.number, t) for t in v)}
    texts = "".join(t for v in numbers.values() for t in v)
    if "," not in texts:
        return Dialect(encoding=encoding, separator=fit[0])
    thousands = "." if "." in texts else ""
    return Dialect(encoding=encoding, separator=fit[0], numbers=tuple(numbers), decimal=",", thousands=thousands)


def _head(file: LandedFile) -> bytes:
    """The first bytes of a file, unpacked; whole signs of two bytes."""
    with opened(file) as descriptor:
        head = os.read(descriptor, SEEN_BYTES)
    if head.startswith(GZIP_MAGIC):
        with suppress(zlib.error):
            head = zlib.decompressobj(wbits=31).decompress(head, SEEN_BYTES)
    return head[: len(head) // 2 * 2] if len(head) == SEEN_BYTES else head


def _is_in(head: bytes, encoding: str) -> bool:
    """Whether the bytes can be text of this encoding; a last sign may be cut off."""
    if encoding == "utf-16" and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    try:
        head.decode(encoding)
    except UnicodeDecodeError as error:
        return len(head) == SEEN_BYTES and error.end == len(head)
    return True


def _columns(head: bytes, dialect: Dialect) -> Columns:
    """The texts of the usable records per column; none where a dialect does not fit."""
    found, rows, bad = dict[str, list[str]](), 0, 0
    with suppress(Unreadable):
        lines = dialect.lines(iter((head,)), len(head), DEFAULT_LIMITS)
        for batch in CsvRecords(DEFAULT_LIMITS, dialect).batches(lines):
            rows, bad = rows + batch.size, bad + len(batch.bad)
            for name, texts in batch.columns.items():
                found.setdefault(name, []).extend(str(t) for t in texts if t is not None)
    cut = len(head) == SEEN_BYTES
    return found if bad <= cut + MOST_BAD * rows else {}
