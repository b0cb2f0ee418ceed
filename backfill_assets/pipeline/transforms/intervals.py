"""Aggregates of events per day, where an event counts on an interval of days, without a row per
event and day.

Not here: the choice of intervals (`declared`), and the parts of aggregations (`measures`).

What can be taken back (counts, sums) is a sum of differences: + where an interval begins, - on the
day after its end. What cannot (least, greatest, first) takes another way of the same order. Every
interval is cut at one day m that lies in it: at a multiple of the reach's length, which nearly
every interval holds, else at its roundest day (most factors of two). The parts that end just before
the same m differ only by where they begin, so a running least or greatest by their first day is the
answer on every day up to m; the parts that begin at m mirror it. An interval costs two rows,
whatever its length, and a day few: one for each m that its events meet at. `newest` and `last` need
this only for what is replaced: of the events that count to the end of their reach the newest ends
last, so they are a running maximum beside the differences. Distinct values are differences, once
the intervals of a value are freed of what earlier ones cover.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.pipeline.transforms.aggregation import Reach, Value
from backfill_assets.pipeline.transforms.measures import (
    Measure,
    Part,
    event_day_of,
    merged_measure,
    partial_measure,
)

Measures = Mapping[str, Measure]  # by the column that holds it
# A point is where an interval begins or ends, or a part of one: that before its cut, or that from
# its cut on.
BEGIN, END, BEFORE, FROM = 0, 1, 2, 3
POINT = ("side", "which", "cut", "position", "limit")
ADDED_UP, COMPARED, NEWEST = "added up", "compared", "newest"  # ways to a measure


def on_each_day(
    rows: DataFrame,
    entity: Sequence[str],
    days: DayRange,
    measures: Measures,
    *,
    by_day_first: bool = False,
) -> DataFrame:
    """`entity`, `__day` (0: the first of `days`) and the measures, for every day of `days` on which
    an event counts.

    `rows` hold `entity`, event_date, event_ts, event_key, what the values are made of, and
    `__first_day` and `__last_day` (included; NULL: no bound). An event counts for a reach on the
    days that lie in it and in these bounds. `by_day_first`: events are grouped by entity and day
    before rows meet by entity, so that an entity of most events has a row per day; one more
    shuffle.
    """
    asked = dict.fromkeys(m.value for m in measures.values())
    values = {value: f"value_{i}" for i, value in enumerate(asked)}
    # An entity may be called `first` or `day`.
    named = {f"entity_{i}": column for i, column in enumerate(entity)}
    placed = _numbered_days(rows, named, days, values).where(_reaches_any_day(measures))
    if len(days) > 1 and not by_day_first:
        placed = placed.repartition(*named)  # each entity lies in one place
    each = _on_single_day if len(days) == 1 else _on_day_range
    found = each(placed, list(named), len(days) - 1, (measures, values))
    return found.select(
        *(F.col(k).alias(c) for k, c in named.items()), F.col("day").alias("__day"), *measures
    )


def _on_single_day(
    placed: DataFrame, key: Sequence[str], last: int, asked: tuple[Measures, Mapping[Value, str]]
) -> DataFrame:
    """The measures of a single day by one grouping, at half of the CPU seconds."""
    measures, values = asked

    def _reached(reach: Reach) -> Column:
        """Whether an event counts for a reach on the day, whose number is 0."""
        a, b = _reach_interval(reach)
        return (a <= 0) & (b >= 0)

    def _measured(measure: Measure) -> Column:
        """The measure of the events that count for its reach."""
        counted = F.when(_reached(measure.reach), F.col(values[measure.value]))
        if measure.part == "distinct":
            return F.count_distinct(counted)
        return partial_measure(measure.part, measure.value, counted)

    reaches = sorted({m.reach for m in measures.values()})
    on_it = placed.where(reduce(Column.__or__, map(_reached, reaches)))
    measured = [_measured(m).alias(name) for name, m in measures.items()]
    return on_it.groupBy(*key).agg(F.lit(0).alias("day"), *measured)


def _on_day_range(
    placed: DataFrame, key: Sequence[str], last: int, asked: tuple[Measures, Mapping[Value, str]]
) -> DataFrame:
    """The measures on every day of the range, whose last has the number `last`: each event gives
    rows only for the days on which it begins or ceases to count, and a running value over the days
    of a key makes the measures of these."""
    measures, _ = asked
    points = _points_by_position(placed, key, last, asked)
    return _measures_by_day(_running_measures(points, key, measures), key, measures)


def _points_by_position(
    placed: DataFrame, key: Sequence[str], last: int, asked: tuple[Measures, Mapping[Value, str]]
) -> DataFrame:
    """The points of all events, those that meet as one: so many rows are sorted and run through."""
    measures, values = asked
    known = {name: m for name, m in measures.items() if m.part != "distinct"}
    # Whatever the reach, the partial value is the same.
    once = {(m.part, m.value): name for name, m in known.items()}
    partials = [
        partial_measure(part, v, F.col(values[v])).alias(name) for (part, v), name in once.items()
    ]
    grouped = placed.groupBy(*key, "event", "first", "last").agg(*partials)
    points = _interval_points(grouped, key, last, (known, once))
    for name, measure in measures.items():
        if measure.part == "distinct":
            fresh = _uncovered_spans(placed, key, values[measure.value], measure.reach)
            points = points.unionByName(
                _span_changes(fresh, key, last, name), allowMissingColumns=True
            )
    return _met_points(points, key, measures)


def _numbered_days(
    rows: DataFrame, named: Mapping[str, str], days: DayRange, values: Mapping[Value, str]
) -> DataFrame:
    """Days as numbers from the first of `days`, bounds clipped to them."""

    def _number(day: str) -> Column:
        """The number of a day; 0: the first of `days`."""
        return F.datediff(day, F.lit(days.start)).cast("int")

    return rows.select(
        *(F.col(column).alias(name) for name, column in named.items()),
        "event_ts",
        "event_key",
        _number("event_date").alias("event"),
        F.greatest(_number("__first_day"), F.lit(0)).alias("first"),
        F.least(_number("__last_day"), F.lit(len(days) - 1)).alias("last"),
        *(F.expr(value.sql).alias(name) for value, name in values.items()),
    )


def _reaches_any_day(measures: Measures) -> Column:
    """Whether an event counts on any day for any of the reaches; other events are neither moved nor
    grouped."""
    first = min(m.reach.first for m in measures.values())
    last = max(m.reach.last for m in measures.values())
    return F.greatest("first", F.col("event") + first) <= F.least("last", F.col("event") + last)


def _interval_points(
    grouped: DataFrame,
    entity: Sequence[str],
    last: int,
    asked: tuple[Measures, Mapping[tuple[Part, Value], str]],
) -> DataFrame:
    """Each group as the points of its intervals, with what each adds or holds of every measure.
    `asked`: the measures by name, and the columns of the group that hold their partial values;
    `last`: the number of the last day."""
    measures, partials = asked
    reaches = sorted({m.reach for m in measures.values()})
    ends, parts, begun = list[Column](), list[Column](), set[Reach]()
    for number, reach in enumerate(reaches):
        ways = {_way_of(m) for m in measures.values() if m.reach == reach}
        if ways & {ADDED_UP, NEWEST}:
            begun.add(_longest_beside(reach, reaches))
            ends.append(_end_point(number, *_reach_interval(reach), last))
        if COMPARED in ways:
            parts += _cut_parts(number, reach, F.lit(True))
        elif NEWEST in ways:  # only for what is replaced before the end of its reach
            parts += _cut_parts(number, reach, ~_is_whole(reach, last))
    for reach in sorted(begun):
        ends.append(_begin_point(reaches.index(reach), *_reach_interval(reach), last))
    every = F.explode(F.array(*ends, *parts))
    points = grouped.withColumn("point", every).where("point IS NOT NULL")
    contributions = [
        _point_contribution(m, reaches, F.col(partials[m.part, m.value]), last).alias(name)
        for name, m in measures.items()
    ]
    return points.select(*entity, *(f"point.{name}" for name in POINT), *contributions)


def _way_of(measure: Measure) -> str:
    """Which points a measure needs: begins and ends, parts, or (of the newest) both."""
    if measure.is_added:
        return ADDED_UP
    return NEWEST if measure.is_newest else COMPARED


def _longest_beside(reach: Reach, reaches: Sequence[Reach]) -> Reach:
    """The longest of the reaches that begin with this one: its begins are those of all of them."""
    return max(other for other in reaches if other.first == reach.first)


def _point_contribution(
    measure: Measure, reaches: Sequence[Reach], held: Column, last: int
) -> Column:
    """What a point adds to a measure of its own reach, or holds of it; NULL at points of other
    reaches. `held`: the measure of the group."""
    side, reach, (a, b) = F.col("point.side"), measure.reach, _reach_interval(measure.reach)
    own = F.col("point.which") == reaches.index(reach)
    beside = F.col("point.which") == reaches.index(_longest_beside(reach, reaches))
    begins = beside & (side == BEGIN) & (a <= b)
    if measure.is_added:
        return F.when(begins, held).when(own & (side == END), -held)
    of_part = own & side.isin(BEFORE, FROM)
    if not measure.is_newest:
        return F.when(of_part, held)
    whole = _is_whole(reach, last)
    return F.when((begins & whole) | (of_part & ~whole), held)


def _reach_interval(reach: Reach) -> tuple[Column, Column]:
    """The first and last day on which a group counts for a reach; none if the first lies behind the
    last."""
    event = F.col("event")
    return F.greatest("first", event + reach.first), F.least("last", event + reach.last)


def _is_whole(reach: Reach, last: int) -> Column:
    """Whether a group counts to the end of its reach, or of all days: not one that is replaced
    before."""
    return F.col("last") >= F.least(F.col("event") + reach.last, F.lit(last))


def _point_struct(side: int, which: int, cut: Column, position: Column, limit: Column) -> Column:
    """A point: its `side` (BEGIN, …), `which` reach it is of, the day at which its interval is cut
    (of parts), its `position` (a day, of parts from a cut on counted backwards), and the last
    position for which it may hold."""
    named = zip((F.lit(side), F.lit(which), cut, position, limit), POINT, strict=True)
    return F.struct(*(column.cast("int").alias(name) for column, name in named))


def _begin_point(number: int, a: Column, b: Column, last: int) -> Column:
    """Where an interval `a` through `b` begins."""
    return F.when(a <= b, _point_struct(BEGIN, number, F.lit(0), a, F.lit(last)))


def _end_point(number: int, a: Column, b: Column, last: int) -> Column:
    """The day after an interval `a` through `b`."""
    end = _point_struct(END, number, F.lit(0), b + 1, F.lit(last))
    return F.when((a <= b) & (b < last), end)


def _cut_parts(number: int, reach: Reach, asked: Column) -> tuple[Column, Column]:
    """The part before the cut, by its first day, and the part from the cut on, by its last day,
    counted backwards."""
    a, b = _reach_interval(reach)
    multiple = b - b % reach.days  # the last day that is a multiple of the reach's length
    # The number of bits behind the first one in which both days differ: without these bits `b` is
    # the roundest day of the interval.
    bits = F.length(F.bin(a.bitwiseXOR(b))) - 1
    roundest = F.when(a == b, a).otherwise(
        F.call_function("shiftleft", F.call_function("shiftright", b, bits), bits)
    )
    cut = F.when(multiple >= a, multiple).otherwise(roundest)
    before = F.when(asked & (a <= b) & (a < cut), _point_struct(BEFORE, number, cut, a, cut - 1))
    return before, F.when(asked & (a <= b), _point_struct(FROM, number, cut, -b, -cut))


def _uncovered_spans(
    placed: DataFrame, entity: Sequence[str], value: str, reach: Reach
) -> DataFrame:
    """Per value the intervals `a` through `b` in which it occurs, without what an earlier one of it
    covers."""
    a, b = _reach_interval(reach)
    spans = placed.where(F.col(value).isNotNull() & (a <= b)).select(
        *entity, value, a.alias("a"), b.alias("b")
    )
    earlier = (
        Window.partitionBy(*entity, value)
        .orderBy("a", "b")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    freed = spans.withColumn("a", F.greatest("a", F.max("b").over(earlier) + 1))
    return freed.where("a <= b")


def _span_changes(spans: DataFrame, entity: Sequence[str], last: int, name: str) -> DataFrame:
    """Spans as points: one more from `a` on, one less after `b`."""
    ends = (point(0, F.col("a"), F.col("b"), last) for point in (_begin_point, _end_point))
    points = spans.withColumn("point", F.explode(F.array(*ends))).where("point IS NOT NULL")
    one = F.when(F.col("point.side") == BEGIN, 1).otherwise(-1).cast("bigint")
    return points.select(*entity, *(f"point.{n}" for n in POINT), one.alias(name))


def _met_points(points: DataFrame, entity: Sequence[str], measures: Measures) -> DataFrame:
    """One row for all begins and ends at a position, and one for all parts of a kind."""
    is_part = F.col("side") > END
    held = [merged_measure(m.part, F.col(name)).alias(name) for name, m in measures.items()]
    return points.groupBy(
        *entity,
        F.greatest("side", F.lit(END)).alias("side"),
        F.when(is_part, F.col("which")).otherwise(0).alias("which"),
        "cut",
        "position",
        "limit",
    ).agg(*held)


def _running_measures(points: DataFrame, entity: Sequence[str], measures: Measures) -> DataFrame:
    """Running aggregates over points and parts, each good until the next position of its kind."""
    # Parts run by reach and cut; all begins and ends run together.
    order = Window.partitionBy(*entity, "side", "which", "cut").orderBy("position")
    so_far = order.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    return points.select(
        *entity,
        "side",
        F.col("position").alias("low"),
        F.coalesce(F.lead("position").over(order) - 1, F.col("limit")).alias("high"),
        *(
            merged_measure(m.part, F.col(name)).over(so_far).alias(name)
            for name, m in measures.items()
        ),
    )


def _measures_by_day(running: DataFrame, entity: Sequence[str], measures: Measures) -> DataFrame:
    """The value of every measure on every day: positions of parts from a cut on count backwards."""
    of_events = [n for n, m in measures.items() if (m.part, m.value) == ("count", Value())]
    counts = [F.coalesce(F.col(name), F.lit(0)) for name in of_events]
    occurs = (F.col("side") > END) | (F.greatest(*counts, F.lit(0)) > 0)
    each = running.where((F.col("low") <= F.col("high")) & occurs).withColumn(
        "at", F.explode(F.sequence("low", "high"))
    )

    def _value(name: str, measure: Measure) -> Column:
        """The measure over the points and parts that hold on a day."""
        held = F.col(name)
        if measure.is_newest:  # the newest interval that began may have ended since
            inside = event_day_of(measure.part, held) + measure.reach.last >= F.col("at")
            held = F.when((F.col("side") > END) | inside, held)
        return F.max(held) if measure.is_added else merged_measure(measure.part, held)

    day = F.when(F.col("side") == FROM, -F.col("at")).otherwise(F.col("at"))
    held_of_day = [_value(name, measure).alias(name) for name, measure in measures.items()]
    return each.groupBy(*entity, day.alias("day")).agg(*held_of_day)
