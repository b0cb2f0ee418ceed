"""Input digests: what should determine a day, hashed. A day is stale iff the recorded digest
differs from today's.

They are computed from receipts and ledgers alone; no clock, version number, path or modification
time enters one. Receipts carry the parameters (windows, cut, maturity) of their digests, so that a
day is judged by the parameters it was computed with: other settings make it outdated, never stale.
Not here: digests of code (`kernel.write.code`).
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from json.encoder import encode_basestring_ascii
from typing import Any, TypeVar

from backfill_assets.kernel.core.contracts import (
    Contract,
    Input,
    InputKind,
    has_input_kind,
    landed_by_versions,
)
from backfill_assets.kernel.core.days import (
    cut_has_passed,
    end_of_day,
    is_day_over,
    is_mature,
    last_known_day,
)
from backfill_assets.kernel.core.keys import KeyReaders, Keys
from backfill_assets.kernel.core.payload import LANDED
from backfill_assets.kernel.core.readings import (
    Parameters,
    columns_mark,
    delivery_columns,
    fingerprint_in,
    narrowed_input,
    parse_parameters,
    set_name,
    todays_parameters,
    with_all_columns,
    with_keys_of,
)
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.view import DayReceipt, LakeView, Release, Source, TableView

DIGEST = "digest"  # key of a file: of all its other keys
DIGEST_CHARS = 32  # 128 bits of a SHA-256: no two inputs of a lake collide by accident
# One for all: half of the time.
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)
NO_INPUT_DAY = "missing"
NO_CONTENT = "empty"
Part = tuple[str, ...] | None  # some columns of a delivery; None: all of them
TextOf = Callable[[date], str]  # the canonical text of what decides a day
K = TypeVar("K")
V = TypeVar("V")


def digest_of(value: Any) -> str:
    """The digest (hex, 32 characters) of a JSON value, independent of the order of its keys."""
    return _hash_of(CANONICAL.encode(value))


def _hash_of(canonical: str) -> str:
    return hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_CHARS]


def _list_of(canonical: Iterable[str]) -> str:
    """The canonical text of a list whose items have these."""
    return f"[{','.join(canonical)}]"


def with_digest(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values of a file together with the digest of all of them, by which their reader notices
    that they are not what was written."""
    return {**values, DIGEST: digest_of(values)}


def is_as_written(values: Mapping[str, Any]) -> bool:
    """Whether values are those that `with_digest` gave; also of a file of an earlier release, which
    names no digest."""
    others = {key: value for key, value in values.items() if key != DIGEST}
    return DIGEST not in values or with_digest(others) == values


def raw_digest(day: date, source: Source) -> str:
    """The digest of raw(day): sha256 of its files, `as_of` if it falls within the day, releases of
    late rows."""
    if not source.view.is_due(day):
        return digest_of([])
    landed = source.landed.get(day)
    texts = _texts_beside(day, source.view.as_of, source.releases)
    if landed is None:
        return digest_of(texts)
    if not texts:
        return landed.digest
    if landed.names is None:
        raise ValueError(f"the names of the contents that landed on {day} were not read")
    return digest_of([*sorted(landed.names), *texts])


def _texts_beside(day: date, as_of: datetime | None, releases: Iterable[Release]) -> list[str]:
    """What the digest of raw(day) names besides the landed contents: `as_of` if it falls within the
    day, releases of late rows that arrived then (`Deliveries.days_by_names`)."""
    texts = []
    if as_of is not None and as_of < end_of_day(day):
        texts.append(f"as_of {as_of.isoformat()}")
    for release in releases:
        if day in release.arrival_days:
            contents = f" of {digest_of(sorted(release.contents))}"
            texts.append(f"released {release.first}..{release.last}{contents}")
    return texts


def input_days_of(wanted: Input, day: date, view: LakeView) -> list[date]:
    """The days of an input that `day` is made from, none before the lake's first day, ascending."""
    return _input_days_from(view.start, wanted, day)


def _input_days_from(start: date, wanted: Input, day: date) -> list[date]:
    keys = wanted.keys_by_day.get(day)
    if keys is not None:
        return keys.loaded_for(day)
    return wanted.window_days(day, start)


def awaited_days(wanted: Input, day: date, view: LakeView) -> list[date]:
    """The days with rows of an input that `day` is to be made from, and that were no partitions
    when it was made."""
    keys = wanted.keys_by_day.get(day)
    if keys is None:
        return []
    latest = view.table(wanted.table).latest
    return [d for d in keys.awaited_for(day, latest) if latest[d].entry.rows]


def days_to_come(wanted: Input, day: date, view: LakeView) -> list[date]:
    """The days of an input within the period that begins on `day` that were no partitions when it
    was made, and that nobody has made since, ascending."""
    keys = wanted.keys_by_day.get(day)
    if keys is None:
        return []
    newest = max(keys.loaded_for(day), default=date.min)
    latest, found = view.table(wanted.table).latest, list[date]()
    for other in wanted.calendar.keys_around(wanted.made_in.span(day), 0, 0):
        is_to_come = other > newest and other not in latest
        if is_to_come and keys.awaits(day, other):
            found.append(other)
    return found


def _foreign_mark(table: TableView, day: date) -> str:
    """The mark for a day that another program's commit touched; in their digest it makes depending
    days stale."""
    return " foreign" if day in table.foreign else ""


def _time_parts(parameters: Parameters, frontier: datetime | None, day: date) -> list[Any]:
    """What a digest names of the `frontier`: whether the day's cut has passed and it is mature,
    where it waits for that."""
    parts = list[Any]()
    if parameters.waits_for_cut:
        parts.append(["cut passed", cut_has_passed(day, parameters.grace, frontier)])
    if parameters.matures_after_days is not None:
        last = parameters.calendar.last_of(day)
        parts.append(["mature", is_mature(last, parameters.matures_after_days, frontier)])
    return parts


def is_required(wanted: date, day: date, frontier: datetime | None) -> bool:
    """Whether day `wanted` of an input must exist for `day`: all through it, later ones before the
    frontier."""
    return wanted <= day or is_day_over(wanted, frontier)


class Computed(dict[K, V]):
    """Values by key, each computed by `value_of` when it is first asked for."""

    def __init__(self, value_of: Callable[[K], V]) -> None:
        super().__init__()
        self._value_of = value_of

    def __missing__(self, key: K) -> V:
        self[key] = value = self._value_of(key)
        return value


@dataclass(frozen=True, slots=True)
class _Reading:
    """How the days of a table read its inputs whose receipts have one text of parameters."""

    made: Parameters | None  # as the receipts say; None: not known
    name: str  # of `today`, by which digests are kept
    today: Parameters  # today's, with the keys of the receipts
    digests: Mapping[date, str]  # by these, of any day
    is_made_as_today: bool  # the receipts say the same as today's parameters


class Digests:
    """The digests of one view, each computed once; `frontier` gives the frontier of some inputs,
    `is_old` whether a day of a table was made by other code or settings than today's."""

    def __init__(
        self,
        contracts: Iterable[Contract],
        view: LakeView,
        frontier: Callable[[Iterable[Input]], datetime | None],
        is_old: Callable[[str, DayReceipt], bool] = lambda _table, _receipt: False,
    ) -> None:
        self.contracts: Mapping[str, Contract] = {c.name: c for c in contracts}
        self.view = view
        self._frontier, self._is_old = frontier, is_old
        # All of these keep what was computed once, by what it was computed from.
        self._parameters: dict[str, Parameters | None] = {"": None}  # by the text in receipts
        self._today = {name: todays_parameters(c, view) for name, c in self.contracts.items()}
        # By table and event day, as `_arrival_prefixes` gives them.
        self._prefixes: dict[tuple[str, date, Part], tuple[list[date], list[str]]] = {}
        # Day by day within, by what many days share: half of the memory of one key a day.
        self._digests: dict[tuple[str, bool], Computed[date, str]] = {}
        # By the numbers of days, of which windows are ranges; those of windows as they are written.
        self._contents: dict[tuple[str, Part, bool], Computed[int, str]] = {}
        self._written: dict[tuple[str, Part], Computed[int, str]] = {}
        self._readings: dict[tuple[str, str], _Reading] = {}
        self._readers: dict[tuple[str, str], KeyReaders] = {}  # by table and input
        self._landed = landed_by_versions(self.contracts.values())

    def of(self, table: str, day: date) -> str:
        """Today's input digest of a day of a table."""
        return self._digests_under(table, self._today[table])[day]

    def inputs_of(self, table: str, day: date) -> tuple[Input, ...]:
        """The inputs of a table, with the keys that the newest receipt of the day names."""
        return self._parameters_for_day(table, self.view.table(table).latest.get(day))[1].inputs

    def reading_by_keys(self, table: str, wanted: str, day: date) -> set[date]:
        """The days of a table whose receipts name a day of the input `wanted` among their keys,
        loaded or awaited."""
        if (table, wanted) not in self._readers:
            self._readers[table, wanted] = KeyReaders.of(self._keys_of(table, wanted))
        return self._readers[table, wanted].of_day(day)

    def _keys_of(self, table: str, wanted: str) -> Iterator[tuple[date, Keys]]:
        """The days of a table that were made from keys of the input `wanted`, with their keys."""
        for day in self.view.table(table).latest:
            for read in self.inputs_of(table, day):
                if read.table == wanted and day in read.keys_by_day:
                    yield day, read.keys_by_day[day]

    def as_made(self, table: str, day: date) -> str:
        """Today's input digest of a day, from the keys that its newest receipt names."""
        latest = self.view.table(table).latest.get(day)
        return self._digests_under(*self._parameters_for_day(table, latest))[day]

    def unpinned(self, receipt: DayReceipt) -> tuple[str, ...]:
        """What the step of the day read from a lake and its receipt cannot name, in words."""
        made = self._parameters_of(receipt)
        if made is None:
            return ()
        return made.unpinned

    def _parameters_for_day(self, table: str, receipt: DayReceipt | None) -> tuple[str, Parameters]:
        """Today's parameters of a table with the keys of a receipt, and their name."""
        if receipt is None:
            return table, self._today[table]
        reading = self._reading_of(table, receipt)
        return reading.name, reading.today

    def _reading_of(self, table: str, receipt: DayReceipt) -> _Reading:
        """How the day of a receipt reads the inputs of its table: once per commit, whose text may
        name keys of thousands of days."""
        key = (table, receipt.parameters)
        if key not in self._readings:
            made = self._parameters_of(receipt)
            name, today = self._parameters_with_keys(table, receipt)
            digests = self._digests_under(name, today)
            self._readings[key] = _Reading(made, name, today, digests, made == self._today[table])
        return self._readings[key]

    def _parameters_with_keys(self, table: str, receipt: DayReceipt) -> tuple[str, Parameters]:
        """Today's parameters of a table with the keys of the receipt, and their name: the table's
        where they are today's, else one that names the receipt's. Equal parameters get the same
        name, so that a digest is computed once for all receipts that name them."""
        today, made = self._today[table], self._parameters_of(receipt)
        if made is None or self.contracts[table].is_being_made:
            return table, today
        as_made = with_keys_of(today, made)
        if as_made == made:
            return receipt.parameters, made
        if as_made is today:
            return table, today
        return f"{table} as {receipt.parameters}", as_made

    def is_current(self, table: str, day: date, receipt: DayReceipt) -> bool:
        """Whether the day's latest `receipt` names today's inputs, by its own parameters, else by
        today's."""
        reading = self._reading_of(table, receipt)
        parameters = reading.made
        # A day that was left empty because its cut had not come was never made: today's cut decides
        # when it is.
        was_never_made = receipt.entry.built is Built.PENDING
        if parameters is None or reading.is_made_as_today or was_never_made:
            return self.is_todays(table, day, receipt)
        recorded = receipt.entry.input_digest
        if self._matches_digest(recorded, receipt.parameters, parameters, day):
            return True
        today = self._today[table].inputs
        # Its receipt may name whole rows of an input of which fewer columns are read today.
        narrow = replace(
            parameters, inputs=tuple(narrowed_input(i, today) for i in parameters.inputs)
        )
        if narrow == parameters:
            return False
        return self._matches_digest(recorded, f"{table} {receipt.parameters}", narrow, day)

    def deciding(self, table: str, receipt: DayReceipt) -> Mapping[date, str] | None:
        """Today's digests by which days of this `receipt`'s write are current, of today's
        parameters; None where these are others, or it cannot name all that its step read."""
        reading = self._reading_of(table, receipt)
        is_plain = reading.made is None or reading.is_made_as_today
        return reading.digests if is_plain and not self.unpinned(receipt) else None

    def is_todays(self, table: str, day: date, receipt: DayReceipt) -> bool:
        """Whether the day's latest `receipt` names today's inputs by today's parameters: by the
        columns that are read, or by whole rows, as older receipts do."""
        reading, recorded = self._reading_of(table, receipt), receipt.entry.input_digest
        if recorded == reading.digests[day]:
            return True
        made, name, today = reading.made, reading.name, reading.today
        if self._matches_digest(recorded, name, today, day):
            return True
        whole = with_all_columns(today)
        if whole != today and self._matches_digest(recorded, f"{name} whole", whole, day):
            return True
        # Its receipt may name all columns of today, because a column that it did not read was
        # dropped since.
        if made is None or made == today or with_all_columns(made) != whole:
            return False
        if not self._reads_all_of(made, today):
            return False
        return self._matches_digest(recorded, receipt.parameters, made, day)

    def _matches_digest(self, recorded: str, name: str, parameters: Parameters, day: date) -> bool:
        """Whether a `recorded` digest equals the digest of today's inputs. A day as known at a cut
        may also have been made before its input's code changed: another code makes it outdated, not
        stale."""
        if recorded == self._digests_under(name, parameters)[day]:
            return True
        if not has_input_kind(parameters.inputs, InputKind.KNOWN_AT_CUT):
            return False
        return recorded == self._digests_under(name, parameters, by_code=False)[day]

    def _reads_all_of(self, recorded: Parameters, today: Parameters) -> bool:
        """Whether a day with the `recorded` parameters has read every column of each input that is
        read today."""
        for earlier, current in zip(recorded.inputs, today.inputs, strict=True):
            if earlier.columns == current.columns:
                continue
            read = current.columns or self.contracts[current.table].column_names
            if earlier.columns is None or not set(read) <= set(earlier.columns):
                return False
        return True

    def knows_parameters(self, receipt: DayReceipt) -> bool:
        """Whether the receipt names its parameters, and all their tables exist."""
        return self._parameters_of(receipt) is not None

    def _parameters_of(self, receipt: DayReceipt) -> Parameters | None:
        text = receipt.parameters
        if text not in self._parameters:
            found = parse_parameters(text)
            if found is not None and not {i.table for i in found.inputs} <= self.contracts.keys():
                found = None
            self._parameters[text] = found
        return self._parameters[text]

    def _digests_under(
        self, name: str, parameters: Parameters, *, by_code: bool = True
    ) -> Mapping[date, str]:
        """The digests of days under parameters; `name` is a table (today's parameters) or the text
        of a receipt. `by_code`: an input day as known at the cut that was made by old code counts
        by its write."""
        key = (name, by_code)
        if key not in self._digests:
            self._digests[key] = Computed(self._digest_by_day(name, parameters, by_code))
        return self._digests[key]

    def _digest_by_day(
        self, name: str, parameters: Parameters, by_code: bool
    ) -> Callable[[date], str]:
        """What computes the digest of a day under parameters, named as for `_digests_under`."""
        if parameters.is_landed:
            source = self.view.source(name)
            return lambda day: raw_digest(day, source)
        frontier = self._frontier(parameters.inputs)
        by_input = [
            (CANONICAL.encode(i.table), self._text_by_day(parameters, i, frontier, by_code))
            for i in parameters.inputs
        ]
        waits = parameters.waits_for_cut or parameters.matures_after_days is not None

        def digest_at(day: date) -> str:
            """The digest of what decides the day: the parts of each input, and what time says."""
            parts = [f"[{table},{text_of(day)}]" for table, text_of in by_input]
            if waits:
                parts += map(CANONICAL.encode, _time_parts(parameters, frontier, day))
            return _hash_of(_list_of(parts))

        return digest_at

    def _text_by_day(
        self, parameters: Parameters, wanted: Input, frontier: datetime | None, by_code: bool
    ) -> TextOf:
        """What gives the canonical text of what of one input decides a day. `frontier`: of all
        inputs of `parameters`, decides which days are required; `by_code` as of `_digests_under`.
        Not of landed files, whose tables have `raw_digest`."""
        is_plain_window = wanted.is_daily and not wanted.keys and wanted.after <= 0
        if wanted.kind is InputKind.CONTENT and is_plain_window:
            return self._text_of_windows(wanted, parameters.start)
        parts_of = self._parts_by_day(parameters, wanted, frontier, by_code)
        return lambda day: CANONICAL.encode(parts_of(day))

    def _parts_by_day(
        self, parameters: Parameters, wanted: Input, frontier: datetime | None, by_code: bool
    ) -> Callable[[date], list[str]]:
        """What gives the texts of one input that decide a day, as `_text_by_day`: its deliveries,
        one after another; or of each input day what had arrived by the day's cut, or the
        content."""
        if wanted.kind is InputKind.ARRIVALS:
            return partial(self._delivery_texts, wanted.table)
        if wanted.kind is InputKind.KNOWN_AT_CUT:
            part = self._part_of_deliveries(wanted)
            return partial(self._texts_before_cut, parameters, wanted, part, by_code)
        return partial(self._contents_read, parameters, wanted, frontier)

    def _delivery_texts(self, landed: str, day: date) -> list[str]:
        """The deliveries for an event day, one after another."""
        return [f"{arrived} {text}" for arrived, text in self._arrival_rows(landed, day, None)]

    def _texts_before_cut(
        self, parameters: Parameters, wanted: Input, part: Part, by_code: bool, day: date
    ) -> list[str]:
        """Of each input day of `day` what had arrived by its cut."""
        # With grace the arrival day that contains the cut counts whole: arrivals are kept per day.
        last = last_known_day(day, parameters.grace)
        days = _input_days_from(parameters.start, wanted, day)
        return [self._arrivals_before_cut(wanted.table, d, last, part, by_code) for d in days]

    def _text_of_windows(self, wanted: Input, start: date) -> TextOf:
        """What gives the canonical text of the contents in the window of a day, which holds no
        later day: of nearly all days of all tables, so that nothing is asked again that is the same
        for each of them, nor written again for each day that reads it."""
        key, window_of = (wanted.table, wanted.columns), wanted.window_numbers
        first = wanted.first_number(start)
        if key not in self._written:
            content_of = self._content_by_number(wanted, required=True)
            self._written[key] = Computed(
                lambda number: encode_basestring_ascii(content_of(number))
            )
        written = self._written[key]
        return lambda day: _list_of([written[number] for number in window_of(day, first)])

    def _contents_read(
        self, parameters: Parameters, wanted: Input, frontier: datetime | None, day: date
    ) -> list[str]:
        """The contents of the days of an input that `day` is made from, with their dates where keys
        choose them; then of the days that were awaited and have rows by now."""
        required = self._contents_of(wanted, required=True)
        optional = self._contents_of(wanted, required=False)
        days = _input_days_from(parameters.start, wanted, day)
        contents = [
            (required if is_required(d, day, frontier) else optional)[d.toordinal()] for d in days
        ]
        # A window names its days by their order; of keys, only the text says which days they are.
        if day not in wanted.keys_by_day:
            return contents
        parts = [f"{d} {content}" for d, content in zip(days, contents, strict=True)]
        awaited = awaited_days(wanted, day, self.view)
        return [*parts, *(f"{d} awaited {optional[d.toordinal()]}" for d in awaited)]

    def _part_of_deliveries(self, wanted: Input) -> Part:
        """The columns of raw's rows that decide the input's content: a change of another column
        makes no day stale that reads it. None: each column does."""
        landed = self.contracts.get(self._landed.get(wanted.table, ""))
        if wanted.columns is None or landed is None:
            return None
        delivered = [c for c in landed.column_names if c not in LANDED]
        # Columns that a receipt names and the payload has no more were delivered when its day was
        # made.
        columns_now = self.contracts[wanted.table].column_names
        gone = [c for c in wanted.columns if c not in columns_now]
        return delivery_columns(wanted, self.contracts, (*delivered, *gone))

    def _contents_of(self, wanted: Input, *, required: bool) -> Computed[int, str]:
        """As `_content_by_number`, computed once for all days that read it."""
        key = (wanted.table, wanted.columns, required)
        if key not in self._contents:
            self._contents[key] = Computed(self._content_by_number(wanted, required))
        return self._contents[key]

    def _content_by_number(self, wanted: Input, required: bool) -> Callable[[int], str]:
        """What gives the text that stands for the rows of an input day, by the day's number: how
        many they are, the fingerprint of the columns that are read, and marks. A day that is not
        `required` and has no rows counts as one that was never made."""
        table = self.view.table(wanted.table)
        latest, columns_read = table.latest, set_name(wanted.columns or ())

        def content_at(number: int) -> str:
            """The text of one day."""
            day = date.fromordinal(number)
            receipt = latest.get(day)
            if required and receipt is None:
                return NO_INPUT_DAY
            if receipt is None or not (required or receipt.entry.rows):
                return NO_CONTENT
            entry = receipt.entry
            fingerprint = entry.parts.get(columns_read, entry.fingerprint)
            columns = columns_mark(entry, wanted.columns)
            incomplete = " incomplete" if entry.built is Built.INCOMPLETE else ""
            foreign = _foreign_mark(table, day)
            return f"{entry.rows} {fingerprint}{columns}{incomplete}{foreign}"

        return content_at

    def _arrival_rows(self, landed: str, day: date, part: Part) -> list[tuple[date, str]]:
        """The ledger's rows for an event day, as (arrival day, fingerprint of the columns `part`;
        None: all), marked by these columns in raw's files, and of arrival days that another program
        touched there."""
        table = self.view.table(landed)
        name = "" if part is None else set_name(part)
        found = []
        for arrival_day, text in self.view.source(landed).arrivals.get(day, ()):
            loaded = table.latest.get(arrival_day)
            columns = "" if loaded is None else columns_mark(loaded.entry, part, LANDED)
            marks = columns + _foreign_mark(table, arrival_day)
            found.append((arrival_day, fingerprint_in(text, name) + marks))
        return found

    def _arrivals_before_cut(
        self, table: str, wanted: date, last: date, part: Part, by_code: bool
    ) -> str:
        """The arrivals of `wanted` through the day `last`, if the table's day is the one those
        arrivals give; also by today's code (`by_code`)."""
        receipt = self.view.table(table).latest.get(wanted)
        if receipt is None:
            return NO_INPUT_DAY
        foreign = _foreign_mark(self.view.table(table), wanted)
        if foreign or not self._is_of_arrivals(table, wanted, receipt, by_code):
            return f"write {receipt.write_id}{foreign}"
        arrival_days, prefixes = self._arrival_prefixes(self._landed.get(table, ""), wanted, part)
        return prefixes[bisect_right(arrival_days, last)]

    def _is_of_arrivals(self, table: str, day: date, receipt: DayReceipt, by_code: bool) -> bool:
        """Whether a day holds what its arrivals alone give."""
        if receipt.entry.built in (Built.HELD, Built.MERGED):
            return False
        if by_code and self._is_old(table, receipt):
            return False
        return self.is_current(table, day, receipt)

    def _arrival_prefixes(
        self, landed: str, wanted: date, part: Part
    ) -> tuple[list[date], list[str]]:
        """The arrival days of an event day, ascending, and a digest of the first 0, 1, 2, … of its
        arrivals."""
        key = (landed, wanted, part)
        if key not in self._prefixes:
            days, prefixes, running = list[date](), [NO_CONTENT], hashlib.sha256()
            for arrival_day, fingerprint in self._arrival_rows(landed, wanted, part):
                running.update(f"{arrival_day} {fingerprint}\n".encode())
                days.append(arrival_day)
                prefixes.append(running.hexdigest()[:DIGEST_CHARS])
            self._prefixes[key] = days, prefixes
        return self._prefixes[key]
