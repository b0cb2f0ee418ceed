"""What of a table reaches digests: the sets of its columns that others read, and the parameters of
its contract.

The fingerprint of a set is computed as of a table with just these columns: a change in a column
that no table reads makes no day stale. For a set that no receipt knows, whole rows decide, which at
worst makes a day stale too often. Parameters are the parts of a contract and of a lake's settings
that reach an input digest, with their text in a receipt. Not here: taking fingerprints
(`kernel.write.audit`, `intake.arrivals`) and the digests (`kernel.core.digests`).

Fingerprints name no column. Which ones the files of a day have is a fact of its receipt
(`DayEntry.columns`): from it come the marks in digests and the columns that a day lacks.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

from backfill_assets.kernel.core.calendars import DAILY, Calendar, Unit, parse_calendar
from backfill_assets.kernel.core.contracts import Column, Contract, Input, InputKind, has_input_kind
from backfill_assets.kernel.core.keys import parse_keys
from backfill_assets.kernel.core.payload import MACHINERY
from backfill_assets.kernel.core.receipts import Columns, DayEntry, shared_mapping
from backfill_assets.kernel.core.records import MISREAD
from backfill_assets.kernel.core.view import LakeView, Source

NAME_CHARS = 12
# In the text of a type, what a wider type has otherwise: `BIG` of BIGINT, the digits of a DECIMAL.
_WIDTH = re.compile(r"BIG(?=INT)|(?<=DECIMAL\()\d+")
SEPARATOR, NAME_END = "|", ":"
# Ends the ledger's text of a day whose files lacked a column of raw's then.
LACKING_END = f"{SEPARATOR}lacking{NAME_END}"
Sets = Mapping[str, tuple[str, ...]]  # the columns by the name of their set


@lru_cache(maxsize=1024)
def set_name(columns: tuple[str, ...]) -> str:
    """The name of a set of columns, whatever their order."""
    return hashlib.sha256("\n".join(sorted(columns)).encode()).hexdigest()[:NAME_CHARS]


def column_sets_read(contracts: Iterable[Contract], table: str) -> Sets:
    """The sets of some of a table's columns whose content makes days of other tables."""
    known = {c.name: c for c in contracts}
    read = [i for i in _partial_inputs(known.values(), InputKind.CONTENT) if i.table == table]
    return _proper_subsets((i.columns or () for i in read), known[table].column_names)


def delivery_sets_read(contracts: Iterable[Contract], delivered: Iterable[str]) -> Sets:
    """The sets of some of a delivery's columns that make days as known at a cut."""
    known, all_columns = {c.name: c for c in contracts}, tuple(delivered)
    read = [i for i in _partial_inputs(known.values(), InputKind.KNOWN_AT_CUT) if i.table in known]
    return _proper_subsets((delivery_columns(i, known, all_columns) for i in read), all_columns)


def _partial_inputs(contracts: Iterable[Contract], kind: InputKind) -> Iterator[Input]:
    """Yield the inputs of a kind of which a table reads named columns only."""
    for contract in contracts:
        for wanted in contract.inputs:
            if wanted.kind is kind and wanted.columns is not None:
                yield wanted


def delivery_columns(
    wanted: Input, contracts: Mapping[str, Contract], delivered: tuple[str, ...]
) -> tuple[str, ...]:
    """The columns `delivered`, without those of the table of versions that the input `wanted` does
    not read.

    MACHINERY (key, times, sequence, operation) stays, read or not: it decides which version was
    current. What is no column of the table today stays, too: a receipt may name a column that the
    payload has no more.
    """
    columns = contracts[wanted.table].column_names
    unread = set(columns).difference(wanted.columns or columns, MACHINERY)
    return tuple(c for c in delivered if c not in unread)


def _proper_subsets(
    column_sets: Iterable[tuple[str, ...]], all_columns: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """These sets by their names, each in the order of `all_columns`; without a set that has all of
    them, which the fingerprint of whole rows stands for."""
    found = {}
    for columns in column_sets:
        part = tuple(c for c in all_columns if c in columns)
        if len(part) < len(all_columns):
            found[set_name(part)] = part
    return found


def narrowed_input(wanted: Input, others: Iterable[Input]) -> Input:
    """`wanted` with the columns that one of `others` reads of the same table as the same kind of
    input, if one does."""
    if wanted.columns is not None:
        return wanted
    for other in others:
        is_alike = (other.table, other.kind) == (wanted.table, wanted.kind)
        if is_alike and other.columns is not None:
            return replace(wanted, columns=other.columns)
    return wanted


def fingerprint_in(text: str, name: str = "") -> str:
    """The fingerprint of a set of columns in the ledger's text (whole deliveries first, then sets
    by name). Without a name, or for an unknown one, the fingerprint of whole deliveries."""
    if SEPARATOR not in text:  # the usual case, and fast
        return text
    whole, *parts = text.split(SEPARATOR)
    start = f"{name}{NAME_END}"
    for part in parts:
        if name and part.startswith(start):
            return part.removeprefix(start)
    return whole


def days_with_columns_again(source: Source, raw: Contract) -> set[date]:
    """The arrival days of `raw` whose fingerprints in the ledger were taken while their files
    lacked a column, and that have all columns now: a column has its former name again. The next
    load takes them anew."""
    lacked = set[date]()
    for rows in source.arrivals.values():
        lacked.update(day for day, text in rows if text.endswith(LACKING_END))
    latest = source.loaded.latest
    loaded = lacked & latest.keys()
    return {day for day in loaded if not lacking_columns(latest[day].entry, raw.columns)}


def contract_columns(contract: Contract, without: Iterable[str] = ()) -> Columns:
    """The names and types of the contract's columns, except `without`."""
    return shared_mapping({c.name: c.type for c in contract.columns if c.name not in {*without}})


def lacking_columns(entry: DayEntry, columns: Iterable[Column]) -> list[str]:
    """The names of `columns` that the files of a day lack; none for a day without rows or with
    unknown columns, and none that a later release brought."""
    known = entry.columns
    if not entry.rows or known is None:
        return []
    return [c.name for c in columns if c.name not in known and not c.is_later]


def columns_mark(
    entry: DayEntry | None, read: Iterable[str] | None, beside: tuple[str, ...] = ()
) -> str:
    """The part of a digest that names the columns `read` (None: all) in a day's files and their
    types, except the columns `beside`; empty for a day without rows. A wider type counts as the
    same: it changes no row."""
    if entry is None or not entry.rows or not entry.columns:
        return ""
    return _cached_columns_mark(
        tuple(entry.columns.items()), None if read is None else tuple(read), beside
    )


@lru_cache(maxsize=1024)
def _cached_columns_mark(
    columns: tuple[tuple[str, str], ...], read: tuple[str, ...] | None, beside: tuple[str, ...]
) -> str:
    """The part of a digest for these columns of a day (name and type of each): for those that are
    `read` (None: all) and not `beside`. Its arguments can be kept, unlike those of
    `columns_mark`."""
    types = dict(columns)
    chosen = types.keys() - set(beside)
    if read is not None:
        chosen &= set(read)
    return " " + set_name(tuple(f"{name} {_WIDTH.sub('', types[name])}" for name in chosen))


PARAMETERS = "made with"  # the tag of a receipt that holds the parameters as text


@dataclass(frozen=True)
class Parameters:
    """The parts of a contract and of a lake's settings that reach an input digest. `start` is the
    lake's first day."""

    inputs: tuple[Input, ...]
    waits_for_cut: bool
    matures_after_days: int | None
    grace: timedelta
    start: date
    unpinned: tuple[str, ...] = ()  # what its step read from a lake, and no receipt can name

    @property
    def calendar(self) -> Calendar:
        """The partitions of the table."""
        return self.inputs[0].made_in if self.inputs else DAILY

    @property
    def is_landed(self) -> bool:
        """Whether the digest covers landed files, on which no parameter has an influence."""
        return has_input_kind(self.inputs, InputKind.FILES)

    def to_json(self) -> str:
        """The text for a receipt's tag; empty where no parameter has an influence."""
        if self.is_landed:
            return ""
        values: dict[str, object] = {
            "inputs": [_input_values(i) for i in self.inputs],
            "waits": self.waits_for_cut,
            "matures": self.matures_after_days,
            "grace_s": self.grace // timedelta(seconds=1),
            "start": str(self.start),
        }
        if self.unpinned:
            values["unpinned"] = self.unpinned
        return json.dumps(values, separators=(",", ":"))


def todays_parameters(contract: Contract, view: LakeView) -> Parameters:
    """Today's parameters of a table."""
    # An asset of a project names the first day of each input; the lake's may be lowered for another
    # asset.
    start = date.min if contract.made_by else view.start
    return Parameters(
        inputs=contract.inputs,
        waits_for_cut=contract.waits_for_cut,
        matures_after_days=contract.matures_after_days,
        grace=view.grace,
        start=start,
        unpinned=contract.unpinned,
    )


def parse_parameters(text: str) -> Parameters | None:
    """The parameters in a receipt's tag; None for an older receipt without them, and for text that
    cannot be read."""
    try:
        values = json.loads(text)
        return Parameters(
            inputs=tuple(_parse_input(*fields) for fields in values["inputs"]),
            waits_for_cut=bool(values["waits"]),
            matures_after_days=None if values["matures"] is None else int(values["matures"]),
            grace=timedelta(seconds=int(values["grace_s"])),
            start=date.fromisoformat(values["start"]),
            unpinned=tuple(map(str, values.get("unpinned", ()))),
        )
    except MISREAD:
        return None


def _input_values(wanted: Input) -> list[object]:
    """An input as a list; one that reads every column has the form of older receipts, which named
    no columns. `_parse_input` reads it; empty values at the end are left out."""
    values = [wanted.table, wanted.before, wanted.after, wanted.kind]
    more = [
        wanted.columns or [],
        str(wanted.first_day or ""),
        wanted.mapped,
        [k.to_values(d) for k, d in wanted.keys],
        [] if wanted.is_daily else [str(wanted.calendar), str(wanted.made_in)],
    ]
    while more and not more[-1]:  # so that an input without any has the same text as ever
        more.pop()
    return [*values, *more]


def _parse_input(  # noqa: PLR0913 - each is a value of the list
    table: str,
    before: int,
    after: int,
    kind: str,
    columns: Sequence[str] = (),
    first_day: str = "",
    mapped: str = "",
    keys: Sequence[Sequence[Any]] = (),
    calendars: Sequence[str] = (Unit.DAY, Unit.DAY),
) -> Input:
    calendar, made_in = map(parse_calendar, calendars)
    return Input(
        str(table),
        int(before),
        int(after),
        InputKind(kind),
        tuple(map(str, columns)) or None,
        first_day=date.fromisoformat(first_day) if first_day else None,
        mapped=str(mapped),
        keys=parse_keys(keys),
        calendar=calendar,
        made_in=made_in,
    )


def with_all_columns(parameters: Parameters) -> Parameters:
    """The parameters, as if every input were read with all of its columns."""
    return replace(parameters, inputs=tuple(replace(i, columns=None) for i in parameters.inputs))


def with_keys_of(parameters: Parameters, made: Parameters) -> Parameters:
    """The parameters of today, with the keys of inputs that a receipt names (`made`). A contract
    holds no keys: while the inputs are equal otherwise, the mapping would give the same ones, so
    that they alone outdate no day."""
    keys = {(i.table, i.kind): i.keys for i in made.inputs if i.keys}
    if not keys:
        return parameters
    inputs = [replace(i, keys=keys.get((i.table, i.kind), i.keys)) for i in parameters.inputs]
    return replace(parameters, inputs=tuple(inputs))
