"""Ingesting one landed file: its content's name, its rows counted apart from Spark, and the parquet for Spark to read.

Lives here: the one entry point. Does not live here: the parsers (`json_lines`, `csv_records`, `parquet_files`), listing
(`listing`), and the ledger of files (`load.scan`).

Spark's own text readers lose rows silently (a second object on a line, a row cut by a stray quote), so text is parsed
here, strictly and once, into a copy. The meaning of a file depends on its content and format alone, never on its name.
Half a file is worse than none: a file that breaks off midway gives no rows.
"""

import tempfile
from pathlib import Path

from backfill_assets.core.errors import SettingsError
from backfill_assets.landing.batches import Parser
from backfill_assets.landing.content_store import IngestedFile, IngestRules, discard, is_proven, put
from backfill_assets.landing.csv_records import CsvRecords
from backfill_assets.landing.files import LandedFile, StillChanging, copied, opened, sha256_of
from backfill_assets.landing.json_lines import JsonLines
from backfill_assets.landing.limited_decoding import examine_apart
from backfill_assets.landing.row_origin import identity
from backfill_assets.landing.text_copies import Facts, copy_path, read_facts, whole_file_batch, writing
from backfill_assets.landing.text_lines import HashedReader, Limits, Unreadable, text_lines

DEFAULT_LIMITS = Limits()


def ingest(
    file: LandedFile, format: str, store: Path, limits: Limits = DEFAULT_LIMITS, by_path: bool = False
) -> IngestedFile:
    """Read a landed file (`format`: parquet, csv, jsonl) from end to end, and put its content into `store`.

    `by_path`: name the content by its path, too, so that the same bytes elsewhere are another content. A text with a
    proven copy in the store is hashed and not parsed again. Raises StillChanging if the file changes meanwhile,
    LandingError without the right to read it, SettingsError for an unknown format; never for the file's content.
    """
    rules = IngestRules(format, limits.deciding())
    if format == "parquet":
        return put(store, _copy_parquet(file, store, limits, by_path), rules)
    parser, sha256 = _parser(format, limits), sha256_of(file)
    name = identity(sha256, file.name) if by_path else sha256
    target = copy_path(store, name, format)
    facts = read_facts(target, sha256, limits.deciding()) if is_proven(store, name, rules) else None
    if facts is not None:
        return _ingested(facts, target, name)
    discard(store, name)
    return put(store, _ingested(_copy(file, sha256, parser, target, limits), target, name), rules)


def _parser(format: str, limits: Limits) -> Parser:
    if format == "csv":
        return CsvRecords(limits)
    if format == "jsonl":
        return JsonLines(limits)
    raise SettingsError(
        f"[source] format = {format!r}", "there is no such format", "Nothing was read", "Use parquet, csv or jsonl"
    )


def _ingested(facts: Facts, parquet: Path, name: str) -> IngestedFile:
    return IngestedFile(
        name, facts.rows, facts.bad_rows, parquet, facts.columns, tuple(facts.columns), facts.unreadable
    )


def _copy(file: LandedFile, sha256: str, parser: Parser, target: Path, limits: Limits) -> Facts:
    with writing(target.parent) as writer:
        with opened(file) as descriptor:
            reader = HashedReader(descriptor, limits.block_bytes)
            unreadable = None
            try:
                for batch in parser.batches(text_lines(reader.blocks(), file.size, limits)):
                    writer.write(batch)
                    if why := limits.flood(writer.bad_rows, file.size):
                        raise Unreadable(f"{why}; the first: {writer.first_reason}")
            except Unreadable as error:
                unreadable = str(error)
            if reader.sha256() != sha256:
                raise StillChanging(str(file.path))
        if unreadable is not None:
            return _give_up(sha256, unreadable, target, limits)
        facts = Facts(sha256, writer.rows, writer.bad_rows, parser.columns)
        writer.publish(target, facts, limits.deciding())
    return facts


def _give_up(sha256: str, reason: str, target: Path, limits: Limits) -> Facts:
    """Write the one row of an unreadable file into the store."""
    facts = Facts(sha256, 1, 1, {}, reason)
    with writing(target.parent) as writer:
        writer.write(whole_file_batch(reason))
        writer.publish(target, facts, limits.deciding())
    return facts


def _copy_parquet(file: LandedFile, store: Path, limits: Limits, by_path: bool) -> IngestedFile:
    """Copy the file, then examine the copy, to which no other process writes."""
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".copying-", dir=store) as folder:
        copy = Path(folder) / "copy.parquet"
        sha256 = copied(file, copy)
        name = identity(sha256, file.name) if by_path else sha256
        discard(store, name)
        try:
            rows, names = examine_apart(copy, file.size, limits)
        except Unreadable as error:
            refusal = copy_path(store, name, "parquet")
            return _ingested(_give_up(sha256, str(error), refusal, limits), refusal, name)
        target = store / f"{name}.parquet"
        copy.replace(target)
    return IngestedFile(name, rows, 0, target, {}, names, content=sha256 if by_path else "")
