"""Which days of each input a step loaded, for each of its own days: what the receipt of its rows
names.

Lives here: the windows and keys of partition mappings, asked of Dagster as the rows are written,
and a run's config. Does not live here: loading (`io_manager`, `inputs`), keys as plain values
(`kernel.core.keys`), and what is stale by them (`kernel.core.states`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg

from backfill_assets.assets.contracts import calendar_of
from backfill_assets.kernel.core.calendars import Calendar
from backfill_assets.kernel.core.contracts import Contract, Input
from backfill_assets.kernel.core.days import ONE_DAY, parse_day
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.keys import Keys, days_by_keys, offset_spans

ANY_DAY = (-(10**7), None)  # the span of every day, before and after any other
DAYS_OF_A_YEAR, WEEKS_OF_A_YEAR = 366, 54
SHORT_DIGEST_CHARS = 12  # characters of a digest that tell definitions apart


@dataclass(frozen=True)
class LoadedInput:
    """The days of an input that a step loaded."""

    key: dg.AssetKey
    days: tuple[date, ...]
    # Of the input; None: it has none, and the step got all of its days.
    partitions: dg.PartitionsDefinition | None


def config_digest(step: dg.OpExecutionContext) -> str:
    """A digest of the step's config as far as it differs from the defaults; empty where nothing of
    it does. It shows no value, which may be a secret."""
    given = step.op_config
    if given is None:
        return ""
    if not isinstance(given, Mapping):
        return digest_of(given)[:SHORT_DIGEST_CHARS]
    fields: Mapping[str, Any] = getattr(step.op_def.config_schema.config_type, "fields", {})
    chosen = {**given}
    for name, one in fields.items():
        if one.default_provided and name in chosen and chosen[name] == one.default_value:
            del chosen[name]
    return digest_of(chosen)[:SHORT_DIGEST_CHARS] if chosen else ""


def read_inputs(
    context: dg.OutputContext, loaded: Mapping[str, LoadedInput], upstream: Mapping[str, Contract]
) -> Iterator[Input]:
    """Yield the inputs of the days that are being written, by table and the contracts of the
    tables, each with the keys of the days that were made from others than its window's."""
    own, days = context.asset_partitions_def, [*map(parse_day, context.asset_partition_keys)]
    for table, read in loaded.items():
        mapped = MappedInput(read, mapping_of(context, read.key), own)
        yield mapped.input_of(upstream[table], days)


def mapping_of(context: dg.OutputContext, key: dg.AssetKey) -> dg.PartitionMapping | None:
    """The partition mapping of an input: of the output that follows from it, else of another output
    of the step."""
    others = dg.AssetExecutionContext.get().assets_def.specs
    for spec in (context.asset_spec, *others):
        for dep in spec.deps:
            if dep.asset_key == key:
                mapping: dg.PartitionMapping | None = dep.partition_mapping
                return mapping
    return None


def days_to_load(context: dg.InputContext) -> tuple[date, ...]:
    """The days of an input that a step loads: those that Dagster gives for its range, without what
    none of its partitions is made from."""
    given = tuple(map(parse_day, context.asset_partition_keys))
    step = dg.OpExecutionContext.get()
    own = step.assets_def.partitions_def if step.has_assets_def else None
    if own is None:
        return given
    mapping = step.assets_def.get_partition_mapping_for_dep(context.asset_key)
    read = LoadedInput(context.asset_key, given, context.asset_partitions_def)
    return MappedInput(read, mapping, own).needed_for(map(parse_day, step.partition_keys))


@dataclass(frozen=True)
class MappedInput:
    """An input as a partition mapping gives it."""

    read: LoadedInput
    mapping: dg.PartitionMapping | None
    own: dg.PartitionsDefinition

    def input_of(self, contract: Contract, days: Collection[date]) -> Input:
        """The input of these days."""
        window = self.window or (0, 0)
        wanted = Input(
            contract.name,
            *window,
            first_day=contract.first_day,
            mapped=self.named,
            calendar=contract.calendar,
            made_in=calendar_of(self.own) or Calendar(),
        )
        return replace(wanted, keys=days_by_keys(self._input_keys(days, wanted)))

    def needed_for(self, days: Iterable[date]) -> tuple[date, ...]:
        """The loaded days, without those that no one of these days is made from: a range over a
        partition that a definition leaves out has them, too."""
        theirs, is_times = self.read.partitions, _names_times(self.mapping)
        if theirs is None or not (is_times and _excluded_days(self.own)):
            return self.read.days
        needed = set[date]().union(*(self._mapped_days(day, theirs) for day in days))
        return tuple(day for day in self.read.days if day in needed)

    @property
    def window(self) -> tuple[int, int] | None:
        """The days before and after a day that it is made from, where definitions leave out no day;
        None: the mapping names no window."""
        return window_of(self.mapping, self.read.partitions, self.own)

    @property
    def named(self) -> str:
        """What decides the days besides the window, in a receipt's words ("": nothing); days with
        another text are outdated."""
        if self.read.partitions is None:
            return "all days"
        if self.window is None:
            # Dagster's own mappings are named tuples, whose text says all that they hold.
            mapping = _mapping_or_default(self.mapping)
            return repr(mapping) if isinstance(mapping, tuple) else type(mapping).__qualname__
        left_out = [_excluded_days(self.read.partitions), _excluded_days(self.own)]
        return f"without {digest_of(left_out)[:SHORT_DIGEST_CHARS]}" if any(left_out) else ""

    def _input_keys(self, days: Collection[date], wanted: Input) -> dict[date, Keys]:
        """The keys of the days that are made from others than those of the window of `wanted`."""
        if self.window is None:
            return self._keys_by_mapping(days, wanted.first_day or date.min)
        windows = {day: wanted.window_days(day, date.min) for day in days}
        loaded = self._window_days(windows, {*self.read.days})
        keys = dict[date, Keys]()
        for day, window in windows.items():
            found = loaded[day]
            reached = self._reached_days(day, found) if self.named else window
            is_as_window_says = found == window and reached == window
            if not is_as_window_says:
                to_come = [d for d in reached if d not in found and self._may_become_partition(d)]
                keys[day] = Keys(offset_spans(found, day), offset_spans(to_come, day))
        return keys

    def _keys_by_mapping(self, days: Collection[date], first_day: date) -> dict[date, Keys]:
        """The keys of all these days, of a mapping that names no window."""
        earliest = min(days) if first_day == date.min else first_day
        origin = min(self.read.days, default=earliest)
        future, keys = self._future_spans(origin), dict[date, Keys]()
        for day, found in self.by_mapping(days).items():
            awaited = future or offset_spans(self._days_to_come(day, found), origin)
            keys[day] = Keys(offset_spans(found, origin), awaited, origin)
        return keys

    def _days_to_come(self, day: date, found: list[date]) -> list[date]:
        """The days that a mapping of times will give for a day besides those that were `found`, and
        that are no partitions yet."""
        if not _names_times(self.mapping):
            return []
        reached = self._reached_days(day, found)
        return [d for d in reached if d not in found and self._may_become_partition(d)]

    def _reached_days(self, day: date, found: list[date]) -> list[date]:
        """What the mapping would give for a day, were there no end of the input's days; `found` is
        what it gives now."""
        newest = self._newest_day
        is_cut = newest is None or not found or found[-1] >= newest
        return self._days_without_end(day) if is_cut else found

    def _window_days(
        self, windows: Mapping[date, list[date]], asked: set[date]
    ) -> dict[date, list[date]]:
        """The loaded days by day. Where windows do not hold all that was loaded, each day is made
        from all of it."""
        # Offsets count the days that there are, and a cut within a day left out belongs to another.
        if self.named:
            return self.by_mapping(windows)
        found = {day: [d for d in window if d in asked] for day, window in windows.items()}
        return found if _holds_all(found, asked) else dict.fromkeys(windows, sorted(asked))

    def by_mapping(self, days: Iterable[date]) -> dict[date, list[date]]:
        """The loaded days by day, as the mapping gives them now for each alone. Where that is not
        all that was loaded, each day is made from all of it."""
        every, asked = [*days], sorted(self.read.days)
        one_for_all = (
            dg.AllPartitionMapping,
            dg.LastPartitionMapping,
            dg.SpecificPartitionsPartitionMapping,
        )
        if self.read.partitions is None or isinstance(self.mapping, one_for_all):
            return dict.fromkeys(every, asked)
        found = dict[date, list[date]]()
        for day in every:
            found[day] = self._mapped_days(day, self.read.partitions)
        return found if _holds_all(found, {*asked}) else dict.fromkeys(every, asked)

    def _mapped_days(self, day: date, partitions: dg.PartitionsDefinition) -> list[date]:
        """What the mapping gives for a day of a definition of the input."""
        subset = self.own.empty_subset().with_partition_keys([str(day)])
        mapping = _mapping_or_default(self.mapping)
        result = mapping.get_upstream_mapped_partitions_result_for_partitions(
            subset, self.own, partitions
        )
        return sorted(map(parse_day, result.partitions_subset.get_partition_keys()))

    def _days_without_end(self, day: date) -> list[date]:
        """What the mapping would give for a day, had the input's definition a year more of days, or
        so many longer partitions as a year has weeks."""
        theirs = _period_definition(self.read.partitions)
        if theirs is None:
            return []
        is_of_days = theirs.schedule_type is not None and theirs.schedule_type.value == "DAILY"
        endless = dg.TimeWindowPartitionsDefinition(
            start=theirs.start,
            fmt=theirs.fmt,
            cron_schedule=theirs.cron_schedule,
            timezone=theirs.timezone,
            end_offset=theirs.end_offset + (DAYS_OF_A_YEAR if is_of_days else WEEKS_OF_A_YEAR),
            exclusions=theirs.exclusions,
        )
        return self._mapped_days(day, endless)

    def _future_spans(self, origin: date) -> tuple[tuple[int, int | None], ...]:
        """The days, counted from `origin`, that the mapping will give as soon as there are any: all
        later ones, or any day where the input has no partitions."""
        if self.read.partitions is None:
            return (ANY_DAY,)
        if isinstance(self.mapping, (dg.AllPartitionMapping, dg.LastPartitionMapping)):
            newest = max(self.read.days, default=origin - ONE_DAY)
            return (((newest - origin).days + 1, None),)
        return ()

    @cached_property
    def _newest_day(self) -> date | None:
        """The newest day of the input's definition; None without one."""
        theirs = _period_definition(self.read.partitions)
        newest = theirs.get_last_partition_key() if theirs is not None else None
        return parse_day(newest) if newest is not None else None

    def _may_become_partition(self, day: date) -> bool:
        """Whether a day that was not loaded is one that may become a partition: it lies after the
        newest, and no definition leaves it out."""
        theirs = _period_definition(self.read.partitions)
        newest = self._newest_day
        is_past = newest is not None and day <= newest
        if theirs is None or is_past:
            return False
        if not _excluded_days(theirs):
            return True
        midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(theirs.timezone))
        return not theirs.is_window_start_excluded(midnight + _begin_of_day(theirs))


def _holds_all(found: Mapping[date, list[date]], asked: set[date]) -> bool:
    """Whether the days that were found make up all that were asked for, and no others."""
    return asked == set[date]().union(*found.values())


def window_of(
    mapping: dg.PartitionMapping | None,
    upstream: dg.PartitionsDefinition | None,
    own: dg.PartitionsDefinition | None,
) -> tuple[int, int] | None:
    """The partitions before and after one that a mapping between two definitions of whole days
    names, where these leave out no day; None for another mapping, and for other definitions.
    Between two calendars Dagster moves a window by the partitions of the own one, and an `Input` by
    those of the other: there it names those that overlap alone."""
    theirs, ours = _period_definition(upstream), _period_definition(own)
    if theirs is None or ours is None:
        return None
    is_of_one_calendar = calendar_of(theirs) == calendar_of(ours)
    if isinstance(mapping, dg.IdentityPartitionMapping):
        return (0, 0) if is_of_one_calendar else None
    window = _mapping_or_default(mapping)
    if not isinstance(window, dg.TimeWindowPartitionMapping):
        return None
    if not is_of_one_calendar:
        is_moved = window.start_offset or window.end_offset
        return None if is_moved or _begin_of_day(theirs) != _begin_of_day(ours) else (0, 0)
    their_cut, our_cut = _begin_of_day(theirs), _begin_of_day(ours)
    # A day that begins later reaches into the next one.
    before = int(their_cut > our_cut) - window.start_offset
    after = int(their_cut < our_cut) + window.end_offset
    return before, after


def _mapping_or_default(mapping: dg.PartitionMapping | None) -> dg.PartitionMapping:
    """The mapping, or the one that Dagster takes between definitions of times; one without fields
    is false."""
    return dg.TimeWindowPartitionMapping() if mapping is None else mapping


def _names_times(mapping: dg.PartitionMapping | None) -> bool:
    """Whether a mapping gives partitions by their times."""
    return isinstance(_mapping_or_default(mapping), dg.TimeWindowPartitionMapping)


def _period_definition(
    partitions: dg.PartitionsDefinition | None,
) -> dg.TimeWindowPartitionsDefinition | None:
    """The definition, where it is one of days, weeks, months, quarters or years."""
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return None
    return partitions if calendar_of(partitions) is not None else None


def _begin_of_day(partitions: dg.TimeWindowPartitionsDefinition) -> timedelta:
    """The time of a day at which a definition of a calendar begins each partition."""
    # Dagster knows the hour of its own daily, weekly and monthly schedules alone.
    minute, hour, *_ = partitions.cron_schedule.split()
    return timedelta(hours=int(hour), minutes=int(minute))


def _excluded_days(partitions: dg.PartitionsDefinition | None) -> str:
    """The days that a definition leaves out, as a text; empty for none."""
    found = getattr(partitions, "exclusions", None)
    return repr(sorted(map(repr, found))) if found else ""
