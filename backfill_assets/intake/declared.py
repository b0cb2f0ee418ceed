"""Totals that deliveries declare: manifests `FILE.totals.json` and `_manifest.csv` of the landing
folder, parsed.

Not here: holding contents against them (`intake.declared_totals`). A manifest is never read as
data.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from posixpath import dirname, normpath
from typing import Any

from backfill_assets.intake.files import LandedFile, opened_file
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import TransientError
from backfill_assets.kernel.core.texts import printable_text

TOTALS_SUFFIX, FOLDER_MANIFEST = ".totals.json", "_manifest.csv"
SUM = "sum_"  # before a column's name in the header of a `_manifest.csv`
# Before or behind the point: beyond a double's; to add 1E+999999999 would take a gigabyte.
MOST_DIGITS = 400
REASON_CHARS = 300
MOST_BYTES = 16 << 20  # lines for some 200,000 files
KEPT_BYTES = 16 << 10  # of a text that this process keeps


@dataclass(frozen=True)
class DeclaredTotals:
    """What a manifest declares of a file."""

    manifest: str  # its path
    rows: int | None = None  # None: it declares none
    sums: Mapping[str, Decimal] = field(default_factory=dict)  # by column
    fault: str = ""  # why it cannot be read; it then declares nothing


@dataclass(frozen=True)
class Declarations:
    """What the manifests of a listing declare."""

    # by the path of the file
    by_file: Mapping[str, Sequence[DeclaredTotals]] = field(default_factory=dict)
    # path of a manifest that cannot be read -> reason
    refused: Mapping[str, str] = field(default_factory=dict)
    # path of a declared file that does not exist -> manifest
    absent: Mapping[str, str] = field(default_factory=dict)


def read_declared(manifests: Iterable[LandedFile], files: Iterable[LandedFile]) -> Declarations:
    """Read the manifests of a listing. A declared file that exists, and that this source does not
    deliver, is left out.

    Raises StillChanging where a `_manifest.csv` changes meanwhile, what a store says that does not
    answer, and nothing for what a manifest holds.
    """
    by_file: dict[str, list[DeclaredTotals]] = {}
    offered, refused, absent = {f.name for f in files}, dict[str, str](), dict[str, str]()
    for manifest in manifests:
        try:
            totals = list(_parsed_totals(manifest))
        except TransientError:
            raise
        except Exception as error:  # noqa: BLE001  # one manifest must not keep the files beside it from being read
            refused[printable_text(manifest.name)] = f"it declares no totals: {_error_line(error)}"
            continue
        for name, declared in totals:
            if name in offered:
                by_file.setdefault(name, []).append(declared)
            elif not manifest.has_beside(name):
                absent[name] = printable_text(manifest.name)
    return Declarations(by_file, refused, absent)


def declared_by_content(
    found: Declarations, contents: Iterable[tuple[str, str]]
) -> dict[str, list[DeclaredTotals]]:
    """What is declared of each content, by (path, content): at whichever path it lies."""
    declared: dict[str, list[DeclaredTotals]] = {}
    for path, sha256 in sorted(contents) if found.by_file else ():
        declared.setdefault(sha256, []).extend(found.by_file.get(path, ()))
    return declared


def totals_digest(declared: Sequence[DeclaredTotals]) -> str:
    """A digest of what is declared of a content; empty for nothing."""
    values = [
        [d.manifest, d.rows, sorted((c, str(v)) for c, v in d.sums.items()), d.fault]
        for d in declared
    ]
    return digest_of(values) if values else ""


def _parsed_totals(manifest: LandedFile) -> Iterator[tuple[str, DeclaredTotals]]:
    """Yield paths of files and what the manifest declares of them. Raises ValueError for a
    `_manifest.csv` of another kind; a `FILE.totals.json` that cannot be read, or a line, is a
    declaration with a fault."""
    if not manifest.name.endswith(TOTALS_SUFFIX):
        yield from _totals_of_lines(manifest.name, _manifest_text(manifest))
        return
    file, shown = manifest.name.removesuffix(TOTALS_SUFFIX), printable_text(manifest.name)
    try:
        yield file, _totals_of_file(shown, _manifest_text(manifest))
    except Exception as error:  # noqa: BLE001  # whatever it holds is a fault of this manifest
        yield file, DeclaredTotals(shown, fault=_error_line(error))


def _totals_of_file(manifest: str, text: str) -> DeclaredTotals:
    """What the text of a `FILE.totals.json` declares. Raises ValueError for another text."""
    body = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    sums = (body.get("sums") or {}) if isinstance(body, dict) else None
    if not isinstance(sums, dict):
        raise ValueError('it is no object like {"rows": 1200, "sums": {"total": "12345.60"}}')
    return _checked_totals(manifest, body.get("rows"), sums)


def _error_line(error: Exception) -> str:
    """Why a manifest cannot be read, in a line: some errors of Python's say nothing but their
    kind."""
    return printable_text(" ".join(str(error).split()))[:REASON_CHARS] or type(error).__name__


def _manifest_text(manifest: LandedFile) -> str:
    """The text of a manifest; of a small object it is fetched once. Raises ValueError for one that
    is too large."""
    if manifest.size > MOST_BYTES:
        raise ValueError(f"it has {manifest.size} bytes, more than the limit of {MOST_BYTES}")
    is_kept = manifest.place is not None and manifest.size <= KEPT_BYTES
    return _cached_text(manifest) if is_kept else _read_text(manifest)


def _read_text(manifest: LandedFile) -> str:
    """The text of a manifest in UTF-8, with a byte order mark or without."""
    with opened_file(manifest) as descriptor, open(descriptor, "rb", closefd=False) as source:
        return source.read().decode("utf-8-sig")


@lru_cache(maxsize=10_000)
def _cached_text(manifest: LandedFile) -> str:
    """The text of an object, which another look of this process need not fetch again while it is
    the same."""
    return _read_text(manifest)


def _totals_of_lines(name: str, text: str) -> Iterator[tuple[str, DeclaredTotals]]:
    """Yield the lines of a `_manifest.csv`; other columns than file, rows and sum_COLUMN are left
    out."""
    try:
        header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    except csv.Error as error:
        raise ValueError(f"it is no CSV: {error}") from None
    wanted = [c for c in header if c == "rows" or c.startswith(SUM)]
    if "file" not in header or not wanted:
        raise ValueError("its header must name the columns file, and rows or sum_COLUMN")
    summed = [c for c in wanted if c.startswith(SUM)]
    for line in filter(None, lines):
        cells = dict(zip(header, line, strict=False))
        file = normpath(f"{dirname(name)}/{cells.get('file', '')}".lstrip("/"))
        if len(line) != len(header):
            why = f"its line has {len(line)} cells, its header {len(header)}"
            yield file, DeclaredTotals(printable_text(name), fault=why)
            continue
        sums = {column.removeprefix(SUM): cells[column] for column in summed if cells[column]}
        yield file, _checked_totals(printable_text(name), cells.get("rows") or None, sums)


def _checked_totals(manifest: str, rows: Any, sums: Mapping[str, Any]) -> DeclaredTotals:
    """What a manifest declares of one file by these values; with a fault where one is no number, or
    there is none."""
    try:
        counted = None if rows is None else _row_count(rows)
        exact = {column: _declared_number(value) for column, value in sums.items()}
    except Exception as error:  # noqa: BLE001  # whatever a cell holds is a fault of its line
        return DeclaredTotals(manifest, fault=_error_line(error))
    if counted is None and not exact:
        return DeclaredTotals(manifest, fault="it names neither rows nor sums")
    return DeclaredTotals(manifest, counted, exact)


def _row_count(value: Any) -> int:
    """A declared number of rows. Raises ValueError for what is none."""
    number = _declared_number(value)
    if number < 0 or number != number.to_integral_value():
        raise ValueError(f"{printable_text(str(value))[:80]} is no number of rows")
    return int(number)


def _declared_number(value: Any) -> Decimal:
    """A declared number, exactly. Raises ValueError for what is none; true and false are none."""
    number = exact_number(value if isinstance(value, Decimal) else str(value))
    if number is None or isinstance(value, bool):
        raise ValueError(f"{printable_text(str(value))[:80]!r} is no number")
    return number


def exact_number(text: str | Decimal) -> Decimal | None:
    """The number that a text is, exactly; None for any other text, NaN and infinity."""
    try:
        number = Decimal("NaN" if "_" in str(text) else text)  # Python takes 1_000 for a number
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= MOST_DIGITS else None
