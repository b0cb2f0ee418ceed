"""Contracts: the columns, keys, rules and input days of a table. Everything else is derived from
them.

Not here: how a table is computed (`pipeline`), written (`kernel.write.replace`) or checked
(`kernel.write.gates`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Any

from backfill_assets.kernel.core import ledgers
from backfill_assets.kernel.core.calendars import DAILY, NOTHING_LEFT_OUT, Calendar, LeftOut
from backfill_assets.kernel.core.column_types import ColumnType, read_type
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.keys import DayKeys, Keys, days_with_keys

# The tag of a column that a later release brought: days without it are as good, so that it is no
# part of the code.
LATER = {"absent": "from days that an earlier release loaded"}


@dataclass(frozen=True)
class Column:
    """One column. Raises ValueError for a type that `column_types` does not know."""

    name: str
    type: str  # in Spark SQL
    description: str
    nullable: bool = False  # whether NULL is allowed
    tags: Mapping[str, str] = field(default_factory=dict)  # shown in Dagster
    # Known columns of other tables that it is computed from: table.column.
    made_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "type", str(read_type(self.type)))
        except ValueError as error:
            raise ValueError(f"column {self.name}: {error}") from None

    @property
    def kind(self) -> ColumnType:
        """The type by its parts."""
        return read_type(self.type)

    @property
    def is_later(self) -> bool:
        """Whether days without it are as good (`LATER`)."""
        return LATER.items() <= self.tags.items()


# What the landed table of a lake's only source is made from; of source NAME it is landing_NAME.
LANDING = "landing"


class InputKind(StrEnum):
    """What of an input decides a day. Only this part is in the day's input digest."""

    CONTENT = "content"  # the fingerprints of the input's days
    # What had arrived for those days by the cut of the day being made.
    KNOWN_AT_CUT = "known_at_cut"
    ARRIVALS = ledgers.ARRIVALS  # the deliveries that the ledger `arrivals` lists for the day
    FILES = ledgers.FILES  # the landed files of the day


Basis = InputKind  # its name in 0.2


@dataclass(frozen=True)
class Input:
    """The days `d - before` through `d + after` (both included) of `table`, for making day `d`; a
    window that ends before `d` has a negative `after`. Of other calendars: the partitions of
    `table` that cover a day of the partition `d`, and so many before and after these.

    Days through `d` are required, later ones as soon as they lie before the frontier; a missing
    required day makes day `d` incomplete. Receipts keep how many rows of a day the most frequent
    key of `by` holds. `isolate_nulls`, `salt` and `finer` help where one key has many rows: they
    change how rows are computed and none of the rows.
    """

    table: str
    before: int = 0
    after: int = 0
    kind: InputKind = InputKind.CONTENT
    # The columns that the transform gets (None: all). A change in another column makes no day
    # stale.
    columns: tuple[str, ...] | None = field(default=None, repr=False)
    # What the transform groups or joins by.
    by: tuple[str, ...] = field(default=(), repr=False, compare=False)
    # Compute rows without a key apart.
    isolate_nulls: bool = field(default=False, repr=False, compare=False)
    salt: int = field(default=1, repr=False, compare=False)  # spread each key over so many tasks
    # Group by these columns, too, first.
    finer: tuple[str, ...] = field(default=(), repr=False, compare=False)
    # No earlier day is required (None: the lake's first day).
    first_day: date | None = field(default=None, repr=False)
    # What else decides the days: exclusions, a mapping without a window.
    mapped: str = field(default="", repr=False)
    # Of days that were made from others than the window's.
    keys: DayKeys = field(default=(), repr=False)
    # The partitions of `table`, and of the table that is made from it; set from their contracts.
    calendar: Calendar = field(default=DAILY, repr=False)
    made_in: Calendar = field(default=DAILY, repr=False)
    basis: InitVar[InputKind | None] = None  # the name of `kind` in 0.2

    def __post_init__(self, basis: InputKind | None) -> None:
        object.__setattr__(self, "kind", basis or self.kind)
        helps_against_skew = self.isolate_nulls or self.salt > 1 or bool(self.finer)
        if self.salt < 1 or (helps_against_skew and not self.by):
            raise ValueError(
                f"input {self.table}: salt is at least 1, and a choice against skew needs `by`"
            )

    @cached_property
    def keys_by_day(self) -> Mapping[date, Keys]:
        """The days that were made from others than the window's, each with its keys."""
        return dict(days_with_keys(self.keys))

    def window_days(self, day: date, start: date) -> list[date]:
        """The days of the window of `day`, ascending, none before `start`."""
        if self.is_daily:
            return [*map(date.fromordinal, self.window_numbers(day, self.first_number(start)))]
        first, span = max(start, self.first_day or start), self.made_in.span(day)
        found = self.calendar.keys_around(span, self.before, self.after)
        return [key for key in found if key >= first]

    def window_numbers(self, day: date, first: int) -> range:
        """The days of the window of `day` from `first` on, where both tables have every day, by
        their numbers (`date.toordinal`): a third of the time that sums of dates take."""
        number = day.toordinal()
        return range(max(first, number - self.before), number + self.after + 1)

    def first_number(self, start: date) -> int:
        """The number of the first day of `table` in a lake that begins on `start`."""
        return max(start, self.first_day or start).toordinal()

    def days_reading(self, day: date) -> list[date]:
        """The days whose windows hold a day of `table`, ascending."""
        if self.is_daily:
            return [day + ONE_DAY * n for n in range(-self.after, self.before + 1)]
        return self.made_in.keys_reaching(self.calendar, day, self.before, self.after)

    @property
    def is_daily(self) -> bool:
        """Whether both tables have a partition for every day."""
        return self.calendar.is_daily and self.made_in.is_daily

    @property
    def reads_days(self) -> bool:
        """Whether days of `table` decide a day, not the deliveries for it."""
        return self.kind in (InputKind.CONTENT, InputKind.KNOWN_AT_CUT)

    @property
    def spread(self) -> str:
        """The choice against skew in words; empty if there is none."""
        choices = {
            "NULL apart": self.isolate_nulls,
            f"salt {self.salt}": self.salt > 1,
            f"with {' and '.join(self.finer)} first": self.finer,
        }
        return ", ".join(text for text, chosen in choices.items() if chosen)


@dataclass(frozen=True)
class Rule:
    """A condition on every row of a table. Only FALSE breaks it."""

    name: str
    expression: str  # Spark SQL over the table's columns
    description: str
    # judge groups of a day's rows with equal values of these columns, by aggregates: `count(*) <=
    # 3`
    per: tuple[str, ...] = ()
    only_warns: bool = False  # a day that breaks it is written, with a warning


@dataclass(frozen=True)
class Contract:
    """A table whose days are replaced one by one: its partitions, each named by its first day."""

    name: str
    description: str
    columns: tuple[Column, ...]
    day_column: str  # the column that names a row's day
    key: tuple[str, ...]  # unique within a day
    inputs: tuple[Input, ...]
    # A day is pending (and empty) until the frontier passed its cut: midnight plus grace.
    waits_for_cut: bool = False
    # Day `d` is mature so many days after `d + 1` (None: no day ripens).
    matures_after_days: int | None = None
    partition_by: str | None = None
    rules: tuple[Rule, ...] = ()  # hold of every row
    # Keys by which other tables read it, set from their inputs.
    read_by: tuple[tuple[str, ...], ...] = ()
    # SELECTs of consumers that read it, set from `[gates] reads`.
    consumer_queries: tuple[str, ...] = ()
    # The key of the project's asset that returns its rows; "": this package computes them.
    made_by: str = ""
    first_day: date | None = None  # it has no days before it
    # The folder of the Delta table of others whose days these are; "": a table of the lake.
    external: str = ""
    beside: tuple[str, ...] = ()  # assets that it is made from and that no receipt of it can name
    # of days that a step is making, whose inputs have their keys: what it read from a lake and no
    # receipt can name
    unpinned: tuple[str, ...] = ()
    is_being_made: bool = False  # keys of earlier receipts do not count then
    calendar: Calendar = DAILY  # its partitions; of more than a day each, they ripen with their end
    left_out: LeftOut = NOTHING_LEFT_OUT  # of these, by the definition of its asset
    asked: InitVar[tuple[str, ...]] = ()  # the name of `consumer_queries` in 0.2

    def __post_init__(self, asked: tuple[str, ...]) -> None:
        object.__setattr__(self, "consumer_queries", self.consumer_queries or asked)
        if not self.calendar.is_daily:
            inputs = tuple(replace(i, made_in=self.calendar) for i in self.inputs)
            object.__setattr__(self, "inputs", inputs)
        # Which days of an asset's period have come say the keys in its receipts, no frontier; one
        # of others is as it was seen.
        ripens = not (self.calendar.is_of_days or self.is_given)
        if ripens and self.matures_after_days is None:
            object.__setattr__(self, "matures_after_days", 0)
        names = [c.name for c in self.columns]
        named = {self.day_column, *self.key}
        if not named <= set(names) or len(set(names)) != len(names):
            raise ValueError(
                f"contract {self.name}: day column and key must be columns, and no name may repeat"
            )
        self._refuse_case_twins(names)
        self._refuse_layout()
        if self.inputs:
            self._refuse_loose_key()
        if len({r.name for r in self.rules}) != len(self.rules):
            raise ValueError(f"contract {self.name}: no name of a rule may repeat")

    def _refuse_case_twins(self, names: Sequence[str]) -> None:
        """Raise ValueError for two columns whose names differ by case only, which is one column for
        SQL and for Delta."""
        first: dict[str, str] = {}
        for name in names:
            twin = first.setdefault(name.lower(), name)
            if twin != name:
                raise ValueError(f"contract {self.name}: {twin} and {name} differ by case only")

    def _refuse_layout(self) -> None:
        """Raise ValueError for a layout that days cannot be replaced in."""
        by = self.partition_column
        has_no_rows_of_ours = self.external or not (self.inputs or self.made_by)
        if has_no_rows_of_ours or by == self.day_column:
            return
        strings = [c.name for c in self.columns if c.type == "STRING"]
        if by not in strings or by in self.nullable_columns:
            raise ValueError(
                f"contract {self.name}: partition_by is {by!r}; name a STRING column of it that "
                "is never NULL, or leave it out: then files are laid out by the day"
            )

    def _refuse_loose_key(self) -> None:
        """Raise ValueError for a key that does not tell the rows of a day apart."""
        nullable = [name for name in self.nullable_columns if name in self.key]
        if nullable:
            defect = f"its key may be NULL in {', '.join(nullable)}"
        elif self.key or self.made_by:
            return
        else:
            defect = "it has no key"
        raise ValueError(
            f"contract {self.name}: {defect}; name columns that tell rows of a day apart, "
            "never NULL"
        )

    def leaving_out(self, values: Iterable[Any]) -> "Contract":
        """The same without these keys, as `LeftOut.to_list` gives them. Raises TypeError or
        ValueError for another content."""
        return replace(self, left_out=LeftOut.parse(values))

    @property
    def partitions(self) -> tuple[Calendar, LeftOut, date | None]:
        """What tells its partitions from those of another table. Of days the first one is not among
        it: tables with days of different first ones are made by one run."""
        return self.calendar, self.left_out, None if self.calendar.is_daily else self.first_day

    def has_partition(self, day: date) -> bool:
        """Whether a partition is named by the day: nothing makes rows of another one."""
        is_begun = self.first_day is None or day >= self.first_day
        return is_begun and self.calendar.is_key(day) and not self.left_out.has(day)

    def keys_in(self, days: Iterable[date]) -> list[date]:
        """The partitions that cover one of these days, ascending, by their keys."""
        found = self.calendar.keys_in(days)
        if self.left_out:
            found = [key for key in found if not self.left_out.has(key)]
        first = self.first_day
        if first is None or self.calendar.is_daily:
            return found
        return [key for key in found if key >= first]

    @property
    def row_rules(self) -> tuple[Rule, ...]:
        """The rules of single rows."""
        return tuple(r for r in self.rules if not r.per)

    @property
    def group_rules(self) -> tuple[Rule, ...]:
        """The rules of groups of rows."""
        return tuple(r for r in self.rules if r.per)

    @property
    def partition_column(self) -> str:
        """The column the table's files are laid out by: the day unless `partition_by` says
        otherwise ("" = none)."""
        if self.partition_by is None:
            return self.day_column
        return self.partition_by

    @property
    def is_by_day(self) -> bool:
        """Whether the table's files are laid out by its days: each holds rows of one day."""
        return self.partition_column == self.day_column

    @cached_property
    def is_landed(self) -> bool:
        """Whether the table is loaded from landed files (raw)."""
        return has_input_kind(self.inputs, InputKind.FILES)

    @property
    def reads_itself(self) -> bool:
        """Whether a day is made from other days of the same table."""
        return any(i.table == self.name for i in self.inputs)

    @property
    def is_given(self) -> bool:
        """Whether the package computes none of its rows: an asset of a project returns them, or
        others write them."""
        return bool(self.made_by or self.external)

    @property
    def spread(self) -> str:
        """The choices against skew of all inputs, e.g. `staging by entity: NULL apart, salt 16`;
        empty without any."""
        return "; ".join(
            f"{i.table} by {', '.join(i.by)}: {i.spread}" for i in self.inputs if i.spread
        )

    @property
    def source(self) -> str:
        """The name of the source whose landed files are loaded into the table; "": the lake's only
        one, or none is."""
        prefix = f"{LANDING}_"
        landed = [i.table for i in self.inputs if i.kind is InputKind.FILES]
        if landed and landed[0].startswith(prefix):
            return landed[0].removeprefix(prefix)
        return ""

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns in the table's order."""
        return tuple(c.name for c in self.columns)

    @property
    def required_columns(self) -> tuple[str, ...]:
        """The columns that may not be NULL."""
        return tuple(c.name for c in self.columns if not c.nullable)

    def column(self, name: str) -> Column:
        """The column of that name; raises KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def measured_columns(self) -> tuple[str, ...]:
        """The numbers whose distribution says something: no key, nothing tagged as one or as a
        sequence."""
        return tuple(c.name for c in self._value_columns() if c.kind.is_measurable)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The texts whose distribution may say something, likewise."""
        return tuple(c.name for c in self._value_columns() if c.kind.kind == "STRING")

    def _value_columns(self) -> Iterator[Column]:
        for column in self.columns:
            is_number_of_row = column.tags.get("role") in ("key", "sequence")
            if column.name not in self.key and not is_number_of_row:
                yield column

    @property
    def summed_columns(self) -> tuple[str, ...]:
        """The numbers that have an exact sum, whatever the order of rows: no key, no DOUBLE."""
        values = [c for c in self.columns if c.name not in self.key]
        return tuple(c.name for c in values if c.kind.has_exact_sum)

    @property
    def nullable_columns(self) -> tuple[str, ...]:
        """The columns that may be NULL."""
        return tuple(c.name for c in self.columns if c.nullable)


def has_input_kind(inputs: Iterable[Input], kind: InputKind) -> bool:
    """Whether any of these inputs is of that kind."""
    return any(i.kind is kind for i in inputs)


def keys_read(contracts: Iterable[Contract], read: Contract) -> tuple[tuple[str, ...], ...]:
    """The keys that tables group or join `read` by, without keys that are unique within a day
    anyway. Raises ValueError for a key with a column that `read` lacks."""
    found: dict[tuple[str, ...], None] = {}
    for contract in contracts:
        for wanted in contract.inputs:
            if wanted.table != read.name or not wanted.by:
                continue
            if unknown := sorted({*wanted.by} - {*read.column_names}):
                raise ValueError(
                    f"{contract.name} reads {read.name} by {', '.join(unknown)}, which is no "
                    "column of it"
                )
            is_unique = bool(read.key) and {*read.key} <= {*wanted.by}
            if not is_unique:
                found[tuple(sorted(wanted.by))] = None
    return tuple(found)


def landed_by_versions(contracts: Iterable[Contract]) -> dict[str, str]:
    """The landed table per table of versions (one made from arrivals)."""
    found = {}
    for contract in contracts:
        for wanted in contract.inputs:
            if wanted.kind is InputKind.ARRIVALS:
                found[contract.name] = wanted.table
    return found


def refuse_external(contract: Contract) -> None:
    """Raise BackfillError for a table that others write: nothing here changes it."""
    if contract.external:
        raise BackfillError(
            f"the table {contract.name}",
            f"others write it, in {contract.external}",
            "Nothing was written",
            "Have its writer change it; what is made from it follows",
        )
