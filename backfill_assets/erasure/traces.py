"""Search for an entity: the files that hold it, in their bytes or in what these decode to, and
files nobody can search.

Decoded are Parquet (with values of dictionaries that no row uses), gzip, bzip2, xz, zip, and SQLite
files of our own storages. Text is searched as UTF-8, Windows-1252 (Latin-1) and UTF-16, plain and
escaped as JSON, CSV, SQL, HTML, addresses and byte literals do it. A file of another kind, or that
cannot be decoded, is searched as bytes, and counts as not searched. Not here: erasing what was
found (`forgotten`). A short value is found everywhere: it counts only behind its column's name, or
the name of a landed column from which `select` makes it.
"""

import io
import re
import tempfile
import unicodedata
import zipfile
from codecs import getincrementaldecoder
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html.entities import codepoint2name
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from backfill_assets.erasure.decoding import (
    PACKED,
    PARQUET,
    SQLITE,
    WAL,
    ZIP,
    Unsearched,
    database_rows,
    is_text,
    unused_values,
    utf16_readings,
)
from backfill_assets.kernel.core.addresses import bucket_address, local_bucket_folder
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.log.log import LOG
from backfill_assets.kernel.place.choice import copy_folders_of_others, place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import Gone
from backfill_assets.kernel.place.schemes import THEIRS_FOLDER
from backfill_assets.kernel.tables.embedded import duckdb_cursor, sql_literal
from backfill_assets.kernel.tables.folder import DAGSTER_FOLDER, TABLES, LakeFolder

SHORT, SHORT_DIGITS = 4, 6  # characters; digits alone are rows, versions and sizes, too
NEAR = 256  # bytes on each side of a value that decide whether it stands alone
# What a text in front of a value ends with, and a text behind it begins with, where the value
# stands alone. Every repetition has a bound.
WORD_END_BEFORE = re.compile(
    r"(?:\A|[^\w-]|\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2})\Z"
)
WORD_BEGIN_BEHIND = re.compile(r"\Z|[^\w-]")
# The same where the value fills a cell, between quotes or separators.
CELL_BEFORE = re.compile(r"(?:\A|[\"'`,;|\t\n\[({=:<>]|\\[nrt]|%[0-9A-Fa-f]{2})\s{0,64}\Z")
CELL_BEHIND = re.compile(r"\s{0,64}(?:\Z|[\"'`,;|\t\n\])}<>&%]|\\+[nrt\"'])|[\t\r\n]")
BLOCK, OVERLAP = 1 << 20, 1 << 17  # bytes
DEEPEST = 3  # packed files within each other
# Bytes that one file may become in all, whatever it holds; what a scan takes in
# (`text_lines.Limits`) becomes fewer.
UNPACKED, UNPACKED_AT_LEAST, FOLD = 1 << 34, 1 << 26, 256
SINGLE_BYTE = "cp1252"


@dataclass(frozen=True)
class SearchResult:
    """The result for one file: whether it holds the entity, and whether nothing here decodes its
    kind."""

    held: bool = False
    unread: bool = False


@dataclass(frozen=True)
class Trace:
    """An entity as text. A line or row holds it if it holds all its values."""

    values: Mapping[str, str]  # by column
    # per column the landed columns that it is made from
    landed: Mapping[str, Collection[str]] = field(default_factory=dict)
    # A value counts only between quotes or separators, not within a longer one.
    is_whole: bool = False
    # per column other texts of which `select` makes the value
    spellings: Mapping[str, Collection[str]] = field(default_factory=dict)
    # A short value counts without its column's name, too, where it fills a cell.
    in_cells: bool = False

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """A regular expression per value, for DuckDB, that knows it plain and escaped, and does not
        look around it."""
        return tuple(self._value_pattern(column, of_text=True) for column in self.values)

    @cached_property
    def _byte_patterns(self) -> "tuple[tuple[re.Pattern[bytes], re.Pattern[str] | None], ...]":
        """Per value the expression for bytes, and for a short value its column's name with a colon
        or the like, behind which alone it counts (None: the value is not short)."""
        found = []
        for column, value in self.values.items():
            names = "|".join(map(re.escape, sorted({column, *self.landed.get(column, ())})))
            name_before = re.compile(
                rf"(?:\A|[^\w-]|\\[nrtbf])(?:{names})[\"'\\]{{0,9}}[:=\s]{{1,9}}[\"'\\]{{0,9}}\Z"
            )
            is_short = len(value) < (SHORT_DIGITS if value.isdigit() else SHORT)
            pattern = re.compile(self._value_pattern(column, of_text=False).encode("latin-1"))
            found.append((pattern, name_before if is_short else None))
        return tuple(found)

    def _value_pattern(self, column: str, *, of_text: bool) -> str:
        """A regular expression for the column's value and its spellings, composed and decomposed
        (NFC, NFD), in every form of `_sign_pattern`."""
        forms = dict[str, None]()
        for text in (self.values[column], *self.spellings.get(column, ())):
            composed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
            forms |= dict.fromkeys((text, *composed))
        return "|".join("".join(_sign_pattern(s, of_text=of_text) for s in form) for form in forms)

    def is_in(self, text: bytes) -> bool:
        """Whether a line, row or block of one entity's values holds them all."""
        return all(self._holds_value(number, text) for number in range(len(self.values)))

    def has_any(self, text: bytes) -> bool:
        """Whether it holds one of the values."""
        return any(self._holds_value(number, text) for number in range(len(self.values)))

    def _holds_value(self, number: int, text: bytes) -> bool:
        """Whether a text holds the value of this number (in the order of `values`), standing
        alone."""
        pattern, name_before = self._byte_patterns[number]
        end_behind = CELL_BEHIND if self.is_whole else WORD_BEGIN_BEHIND
        for found in pattern.finditer(text):
            behind = text[found.end() : found.end() + NEAR].decode(errors="replace")
            # Looked at first: a short value stands within every other word.
            if end_behind.match(behind) is None:
                continue
            before = text[max(0, found.start() - NEAR) : found.start()].decode(errors="replace")
            if self._begins_behind(before, name_before, behind):
                return True
        return False

    def _begins_behind(
        self, before: str, name_before: "re.Pattern[str] | None", behind: str
    ) -> bool:
        """Whether a value that ends in front of the text `behind` begins where the text `before`
        ends, and is no part of a longer one.

        A short value has a `name_before`: it counts only behind its column's name, or, with
        `in_cells`, where it fills a cell. With `is_whole` every value has to fill its cell.
        """
        may_be_cell = self.is_whole or self.in_cells
        is_cell = bool(may_be_cell and CELL_BEHIND.match(behind) and CELL_BEFORE.search(before))
        if self.is_whole and not is_cell:
            return False
        if name_before is None:
            return WORD_END_BEFORE.search(before) is not None
        return (self.in_cells and is_cell) or name_before.search(before) is not None

    def is_in_blocks(self, blocks: Iterator[bytes]) -> bool:
        """Whether a line of a stream holds the entity. Of a line that is longer than a block, all
        values have to lie within one block and the end of the block before it."""
        tail, held = b"", False
        for (
            block
        ) in blocks:  # to the end, also once it is found: what cannot be unpacked shows there
            if not held:
                data = tail + block
                texts = [data, *(utf16_readings(data) if b"\0" in data else ())]
                held = any(map(self._is_in_lines, texts))
                tail = data[-OVERLAP:]
        return held

    def _is_in_lines(self, text: bytes) -> bool:
        """Whether a line of a text holds all values."""
        if not self.is_in(text):
            return False
        return len(self.values) == 1 or any(map(self.is_in, text.split(b"\n")))

    @property
    def is_single_byte(self) -> bool:
        """Whether all signs of the values are in Windows-1252, the only encoding of one byte per
        sign in which texts are searched; other ones (CP850, Mac Roman) are not told from it."""
        try:
            "".join(self.values.values()).encode(SINGLE_BYTE)
        except UnicodeEncodeError:
            return False
        return True


def _sign_pattern(sign: str, *, of_text: bool) -> str:
    """A regular expression for a sign in all its forms: for texts, or for bytes (as Latin-1)."""
    if sign.isascii() and sign.isalnum():
        return sign
    encodings = [sign.encode()]
    single = sign.encode(SINGLE_BYTE, "ignore")
    if single and single not in encodings:
        encodings.append(single)
    if of_text:
        forms = [_quoted_pattern(sign)]
    else:
        forms = [_quoted_pattern(encoded.decode("latin-1")) for encoded in encodings]
    if sign.isascii():
        forms += [rf"\\{{1,4}}{_quoted_pattern(sign)}", _quoted_pattern(sign * 2)]
    wide = sign.encode("utf-16-be")
    forms += ["".join(rf"\\{{1,4}}u(?i:{wide[i : i + 2].hex()})" for i in range(0, len(wide), 2))]
    forms += _html_forms(sign)
    if sign == " ":
        forms.append(r"\+")
    for encoded in encodings:
        forms.append("".join(f"%(?i:{byte:02x})" for byte in encoded))
        forms.append("".join(rf"\\{{1,4}}x(?i:{byte:02x})" for byte in encoded))
    return f"(?:{'|'.join(forms)})"


def _html_forms(sign: str) -> list[str]:
    """Regular expressions for a sign as HTML and XML write it."""
    code = ord(sign)
    forms = [rf"&#0{{0,3}}{code};", rf"&#[xX]0{{0,3}}(?i:{code:x});"]
    if sign == "'":
        forms.append("&apos;")
    if code in codepoint2name:
        forms.append(f"&{codepoint2name[code]};")
    return forms


def _quoted_pattern(text: str) -> str:
    """A regular expression for the text itself."""
    return re.escape(text).replace("\\ ", " ")  # DuckDB's expressions know no escaped blank


@dataclass(frozen=True)
class Search:
    """A search for an entity. `homes`: folders in which storages of ours keep SQLite files, beside
    the lake's own."""

    lake: LakeFolder
    trace: Trace
    homes: Collection[Path] = ()

    @property
    def copies(self) -> list[Path]:
        """This machine's folders of copies from the buckets that the lake names."""
        settings = self.lake.settings
        named = [self.lake.address]
        named += [source.files for source in settings.delivered.values()]
        export_places = offered_function("export_places")
        if export_places is not None:
            named += export_places(settings)
        declared_tables = offered_function("declared_tables")
        if declared_tables is not None:
            named += [table.contract.external for table in declared_tables(self.lake.root)]
        named += [table.place for table in settings.tables.values()]
        return copy_folders_of_others(named)

    def below(self, roots: Collection[Path]) -> dict[Path, SearchResult]:
        """What the files below some folders hold, by ascending path; links are not followed, but
        those to tables that were adopted. Below this machine's folder of a lake in a bucket these
        are the objects, too."""
        folders, linked = [*roots], list[Path]()
        if self.lake.root in roots:
            placed = [table.place for table in self.lake.settings.tables.values() if table.place]
            folders += [local_bucket_folder(place, self.lake.root) for place in placed]
            linked = [p for p in (self.lake.root / TABLES).glob("*") if p.is_symlink()]
        paths = set[Path]()
        for folder in (*folders, *linked):
            paths.update(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
        for folder in folders:
            if is_bucket_prefix(folder):
                paths.update(folder / name for name in place_at(folder).below())
        return {path: self.of(path) for path in sorted(paths)}

    def of(self, path: Path) -> SearchResult:
        """What a file holds, or the object that this machine calls so, which is fetched; neither if
        it is gone. Raises what a store says that does not answer."""
        if path.is_file() or not bucket_address(path):
            return self._search_file(path, path)
        with tempfile.TemporaryDirectory() as folder:
            here = Folder(folder)
            try:
                here.copy("object", place_at(path.parent), path.name)
            except Gone:
                return SearchResult()
            return self._search_file(path, here.local("object"))

    def _search_file(self, named: Path, path: Path) -> SearchResult:
        """What the file at `path` holds, in its bytes or decoded; `named`: what this machine calls
        it, if `path` is a copy of an object. Nothing if it is gone."""
        try:
            head, tail = Folder(str(path.parent)).ends(path.name, len(SQLITE))
            in_bytes = self.trace.is_in_blocks(_file_blocks(path))
        except FileNotFoundError:
            return SearchResult()
        except OSError:
            return SearchResult(unread=True)
        try:
            return SearchResult(in_bytes or self._is_in_decoded(named, path, head, tail))
        except Exception:  # noqa: BLE001  # whatever a decoder raises over what somebody delivered
            return SearchResult(in_bytes, unread=True)

    def _is_in_decoded(self, named: Path, path: Path, head: bytes, tail: bytes) -> bool:
        """Whether what the file decodes to holds the entity; raises where it cannot be decoded.
        `head`, `tail`: its first and last bytes."""
        if head.startswith(PARQUET) and tail.endswith(PARQUET):
            return self._is_in_parquet(path) or any(map(self.trace.has_any, unused_values(path)))
        budget = Budget.of(path.stat().st_size)
        if head.startswith(ZIP):
            return self._is_in_zip(path, budget)
        is_database = head == SQLITE
        if is_database or head.startswith(WAL):
            homes = (self.lake.root / DAGSTER_FOLDER, *self.homes)
            if not any(map(named.is_relative_to, homes)):
                raise Unsearched(path)
            return is_database and any(map(self.trace.is_in, database_rows(path)))
        with path.open("rb") as opened:
            return self._is_in_stream(opened, budget)

    def _is_in_parquet(self, path: Path) -> bool:
        """Whether a row of a Parquet file holds the entity. DuckDB finds rows with all patterns;
        whether the values stand alone in these is looked at here."""
        # In DuckDB's paths `*`, `?` and `[` are wildcards.
        named = sql_literal(re.sub(r"([*?\[])", r"[\1]", str(path)))
        rows = (
            f"SELECT to_json(t)::VARCHAR AS row FROM read_parquet({named}, hive_partitioning = "
            "false) AS t"
        )
        near = " AND ".join("regexp_matches(row, ?)" for _ in self.trace.patterns)
        with duckdb_cursor(self.lake) as engine:
            found = engine.execute(
                f"SELECT row FROM ({rows}) WHERE {near}", list(self.trace.patterns)
            )
            while batch := found.fetchmany(1000):
                if any(self.trace.is_in(row.encode()) for (row,) in batch):
                    return True
        return False

    def _is_in_zip(self, path: Path, budget: "Budget") -> bool:
        """Whether a member of a zip file holds the entity. Raises Unsearched where none does, and
        one could not be searched."""
        held, unread = False, False
        with zipfile.ZipFile(path) as packed:
            for member in packed.infolist():
                if budget.is_spent:
                    unread = True
                    break
                try:
                    with packed.open(member) as opened:
                        stream = cast("BinaryIO", opened)
                        held = self._is_in_stream(stream, budget, depth=1) or held
                except Exception:  # noqa: BLE001  # the other members are searched
                    unread = True
        if unread and not held:
            raise Unsearched(path)
        return held

    def _is_in_stream(self, raw: BinaryIO, budget: "Budget", depth: int = 0) -> bool:
        """Whether a stream holds the entity, or what it unpacks to; `depth`: how many packings it
        was taken out of. Raises Unsearched for what is no text, unless it holds the entity."""
        opened = io.BufferedReader(_BudgetedStream(raw, budget), BLOCK)
        head = opened.peek(BLOCK)
        unpack = next((opener for magic, opener in PACKED.items() if head.startswith(magic)), None)
        if unpack is not None and depth < DEEPEST:
            return self._is_in_stream(unpack(opened), budget, depth=depth + 1)
        is_held = self.trace.is_in_blocks(_stream_blocks(opened, self.trace))
        if not is_held and not is_text(head):
            raise Unsearched
        return is_held


@dataclass
class Budget:
    """The bytes that may still be read of one file, of all that is packed in it and in each
    other."""

    left: int

    @classmethod
    def of(cls, size: int) -> Self:
        """That of a file of so many bytes."""
        return cls(min(UNPACKED, UNPACKED_AT_LEAST + FOLD * size))

    @property
    def is_spent(self) -> bool:
        """Whether nothing more of the file is read."""
        return self.left < 0

    def spend(self, count: int) -> None:
        """Take so many bytes from it. Raises Unsearched where they are more than are left."""
        self.left -= count
        if self.is_spent:
            raise Unsearched


class _BudgetedStream(io.RawIOBase):
    """A stream whose bytes are taken from a budget as they are read."""

    def __init__(self, raw: BinaryIO, budget: Budget) -> None:
        self._raw, self._budget = raw, budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into the buffer, as `io.RawIOBase` wants it."""
        block = self._raw.read(len(buffer))
        self._budget.spend(len(block))
        buffer[: len(block)] = block
        return len(block)


def is_bucket_prefix(folder: Path) -> bool:
    """Whether a folder of this machine stands for a prefix in a bucket."""
    return bool(bucket_address(folder)) and folder.name != THEIRS_FOLDER


def is_log_file(path: Path) -> bool:
    """Whether a file belongs to the log of a table."""
    return LOG in path.parts


def _file_blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as opened:
        while block := opened.read(BLOCK):
            yield block


def _stream_blocks(opened: BinaryIO, trace: Trace) -> Iterator[bytes]:
    """The blocks of a stream. Raises UnicodeDecodeError where its encoding is unknown and could
    hold the entity in other bytes."""
    # UTF-16 has zero bytes, and all texts that single bytes may encode are looked for.
    needs_check, decoder = not trace.is_single_byte, getincrementaldecoder("utf-8")()
    while block := opened.read(BLOCK):
        if needs_check and b"\0" not in block:
            decoder.decode(block)
        yield block
