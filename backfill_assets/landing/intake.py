"""Taking in one landed file: its content's name, its rows counted apart from Spark, and the parquet for Spark to read.

Lives here: the one door of the intake. Does not live here: the parts behind it (`intake_bytes`, `intake_json`,
`intake_csv`, `intake_parquet`, `intake_rows`, `intake_stock`), listing (`files`), and the ledger (`load.scan`).

Spark's own readers of text lose rows without a word (a second object on a line, a row cut by a stray quote), so text is
parsed here, strictly and once, into a copy. What a file means depends on its content and format alone, never on its
name: a renamed file is the same file. Half a file is worse than none, so a file that breaks off midway gives no rows.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.core.errors import SettingsError
from backfill_assets.landing.copying import copied
from backfill_assets.landing.files import LandedFile, StillChanging, opened, sha256_of
from backfill_assets.landing.intake_bytes import HashedReader, Limits, Unreadable, text_lines
from backfill_assets.landing.intake_csv import CsvRecords
from backfill_assets.landing.intake_json import JsonLines
from backfill_assets.landing.intake_rows import Parser
from backfill_assets.landing.intake_stock import Facts, read_facts, stock_path, whole_file_batch, writing
from backfill_assets.landing.limited_decoding import examine_apart
from backfill_assets.landing.place import identity
from backfill_assets.landing.stock import Made, discard, is_proven, put

DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Intake:
    """A landed file, taken in.

    `rows` counts all records, `bad_rows` the unusable ones among them; a file that cannot be read at all (`unreadable`
    says why) counts as one unusable row with number 0. `parquet` is what Spark should read. `columns`: name -> STRING,
    BIGINT or BOOLEAN, what the texts of a copy can be cast to (empty for parquet files); `names`: the source's columns.
    `sha256` is of the bytes, or of these and the path (`take`); `content`: of the bytes alone, for a copy that is them.
    """

    sha256: str
    rows: int
    bad_rows: int
    parquet: Path
    columns: dict[str, str]
    names: tuple[str, ...]
    unreadable: str | None = None
    content: str = ""


def take(
    file: LandedFile, format: str, stock_dir: Path, limits: Limits = DEFAULT_LIMITS, by_path: bool = False
) -> Intake:
    """Read a landed file (`format`: parquet, csv, jsonl) from end to end, and put its content into `stock_dir`.

    `by_path`: the content is named by its path, too, so that it is another one elsewhere.

    A text whose parsed copy is there already, its bytes proven, is hashed and not parsed again. Raises StillChanging
    if the file changes meanwhile, LandingError if it may not be read, SettingsError for an unknown format; never for
    what is in the file.
    """
    made = Made(format, limits.deciding())
    if format == "parquet":
        return put(stock_dir, _take_parquet(file, stock_dir, limits, by_path), made)
    parser, sha256 = _parser(format, limits), sha256_of(file)
    name = identity(sha256, file.name) if by_path else sha256
    target = stock_path(stock_dir, name, format)
    facts = read_facts(target, sha256, limits.deciding()) if is_proven(stock_dir, name, made) else None
    if facts is not None:
        return _intake(facts, target, name)
    discard(stock_dir, name)
    return put(stock_dir, _intake(_copy(file, sha256, parser, target, limits), target, name), made)


def _parser(format: str, limits: Limits) -> Parser:
    if format == "csv":
        return CsvRecords(limits)
    if format == "jsonl":
        return JsonLines(limits)
    raise SettingsError(
        f"[source] format = {format!r}", "there is no such format", "Nothing was read", "Use parquet, csv or jsonl"
    )


def _intake(facts: Facts, parquet: Path, name: str) -> Intake:
    return Intake(name, facts.rows, facts.bad_rows, parquet, facts.columns, tuple(facts.columns), facts.unreadable)


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
    """Put the one row of an unreadable file into the stock."""
    facts = Facts(sha256, 1, 1, {}, reason)
    with writing(target.parent) as writer:
        writer.write(whole_file_batch(reason))
        writer.publish(target, facts, limits.deciding())
    return facts


def _take_parquet(file: LandedFile, stock_dir: Path, limits: Limits, by_path: bool) -> Intake:
    """Copy the file, then judge the copy, which nobody else writes to."""
    stock_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".copying-", dir=stock_dir) as folder:
        copy = Path(folder) / "copy.parquet"
        sha256 = copied(file, copy)
        name = identity(sha256, file.name) if by_path else sha256
        discard(stock_dir, name)
        try:
            rows, names = examine_apart(copy, file.size, limits)
        except Unreadable as error:
            refusal = stock_path(stock_dir, name, "parquet")
            return _intake(_give_up(sha256, str(error), refusal, limits), refusal, name)
        target = stock_dir / f"{name}.parquet"
        copy.replace(target)
    return Intake(name, rows, 0, target, {}, names, content=sha256 if by_path else "")
