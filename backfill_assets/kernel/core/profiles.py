"""The profile of a day's rows, for gates, plots and receipts, how far it drifted from what is usual
before, and what a gate found in it.

Not here: computing it (`kernel.write.audit`), its fingerprint (`kernel.tables.fingerprints`),
bounds and gates (`kernel.write.gates`).

A histogram counts rows by the length of a number in bits, with its sign: 0; 1; 2 and 3; 4 through
7; … A shift by less than a factor of two may stay within its buckets and is not seen. Of a number
with a fraction the whole part counts, toward 0; yes is 1 and no 0; NaN has no bucket, and of DOUBLE
2^62 stands for all beyond. Of a text the most frequent values of a day are buckets, and one more
holds the others.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from math import log, sqrt
from statistics import median
from typing import Any, Literal, TypeVar

EMPTY_FINGERPRINT = "0"
# The number of the fingerprints' method (`kernel.tables.fingerprints`), kept in receipts; each
# change of the method raises it.
SCHEME = 2  # 1: sums of salted xxhash64, computed by Spark before the write
NULL_COUNT = "null "  # + column: the names of NULL counts in a receipt
BROKEN = "breaks "  # + rule: rows, or groups of rows, that break a rule which only warns
# + columns that other tables group or join by: rows of the most frequent key (without a NULL).
MOST = "most "
BITS = "bits "  # + bucket + column: rows whose number has so many bits
VALUE = "value "  # + length + value + column: rows with this text
OTHER = "other "  # + column: rows with other texts than those
Bucket = int | str  # of a number, or a text
Histogram = Mapping[Any, int]  # rows by `Bucket`
T = TypeVar("T")
# No number has so many bits; REST: texts that have no bucket of their own.
NULL_BUCKET, REST = (
    -1000,
    -1001,
)


NAMED_BUCKETS = {NULL_BUCKET: "NULL", REST: "other values", 0: "0"}


@dataclass(frozen=True)
class DayProfile:
    """One day of one candidate, measured."""

    rows: int = 0
    fingerprint: str = EMPTY_FINGERPRINT
    nulls: Mapping[str, int] = field(default_factory=dict)  # by column
    duplicates: int = 0  # rows that repeat a key
    # Of the numbers that have exact ones.
    sums: Mapping[str, int | Decimal] = field(default_factory=dict)
    # rows (or groups) that break a rule of the contract, by the rule's name
    broken: Mapping[str, int] = field(default_factory=dict)
    # Of the columns that measure something.
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    # fingerprints of sets of columns by their names (`kernel.core.readings`)
    parts: Mapping[str, str] = field(default_factory=dict)
    # rows of the most frequent key, per set of columns that other tables read by
    most: Mapping[str, int] = field(default_factory=dict)

    @property
    def content(self) -> tuple[int, str, int]:
        """Rows, fingerprint and scheme, to compare with `DayEntry.content`."""
        if not self.rows:
            return (0, EMPTY_FINGERPRINT, SCHEME)
        return (self.rows, self.fingerprint, SCHEME)


@dataclass(frozen=True)
class Finding:
    """The verdict of one gate on one day."""

    check: str
    day: date
    passed: bool
    refuses: bool  # whether nothing may be written
    message: str
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    # COLUMN.SETTING of the bounds on columns that a person may lift for a plan: `max_null_jump` of
    # each with too many NULLs (also by `max_null_share`, which no plan has), `max_drift` of each
    # whose values drifted.
    bounds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Surroundings:
    """Context of a day: rows, NULL shares and histograms of earlier days, whether it may be empty,
    missing required input days with their effect, and why reads of consumers fail with its rows."""

    trailing_rows: Sequence[int] = ()
    may_be_empty: bool = False
    absent: Sequence[tuple[str, date]] = ()
    usual_null_shares: Mapping[str, float] = field(default_factory=dict)
    usual_histograms: Mapping[str, Histogram] = field(default_factory=dict)
    incomplete: Literal["warn", "refuse"] = "warn"
    unanswered: Sequence[str] = ()


def with_warning(finding: Finding, text: str) -> Finding:
    """The finding, failed by one more warning, which comes first."""
    message = text if finding.passed else f"{text}; {finding.message}"
    return replace(finding, passed=False, message=message)


def null_counts(profile: DayProfile, columns: Iterable[str]) -> dict[str, int]:
    """The NULLs of these columns as counts of a receipt, zeros too: a column without a count was
    never counted."""
    return {NULL_COUNT + c: profile.nulls.get(c, 0) for c in columns}


def _counts_of(counts: Mapping[str, int], kind: str) -> dict[str, int]:
    """The counts of a receipt whose names begin with `kind`, by the rest of their names."""
    return {name.removeprefix(kind): n for name, n in counts.items() if name.startswith(kind)}


def counted_nulls(counts: Mapping[str, int]) -> dict[str, int]:
    """NULLs per column as a receipt counted them; empty for receipts that are older than these
    counts."""
    return _counts_of(counts, NULL_COUNT)


def receipt_counts(profile: DayProfile, columns: Iterable[str]) -> dict[str, int]:
    """The counts of a receipt: NULLs of these columns, broken rules (of a written day only rules
    that warn), rows of the most frequent keys, and all histograms."""
    counts = null_counts(profile, columns)
    counts |= {BROKEN + rule: n for rule, n in profile.broken.items()}
    counts |= {MOST + key: n for key, n in profile.most.items()}
    for column, histogram in profile.histograms.items():
        numbers = sorted(bucket for bucket in histogram if isinstance(bucket, int))
        texts = sorted(bucket for bucket in histogram if isinstance(bucket, str))
        buckets: list[Bucket] = [*numbers, *texts]
        counts |= {_bucket_count_name(bucket, column): histogram[bucket] for bucket in buckets}
    return counts


def key_name(key: Iterable[str]) -> str:
    """The name of a key among the counts of a receipt."""
    return ",".join(sorted(key))


def counted_most(counts: Mapping[str, int]) -> dict[str, int]:
    """Rows with the most frequent key, by the names of the key's columns, as a receipt kept them;
    empty for older receipts."""
    return _counts_of(counts, MOST)


def is_skewed(rows: int, day_rows: int, bound: float) -> bool:
    """Whether one key has more than `bound` (0..1) of a day's rows. Days with few rows are never
    skewed."""
    return day_rows >= SKEW_NEEDS_ROWS and rows / day_rows > bound


def _bucket_count_name(bucket: Bucket, column: str) -> str:
    if isinstance(bucket, str):
        return f"{VALUE}{len(bucket)} {bucket} {column}"
    if bucket == REST:
        return f"{OTHER}{column}"
    return f"{BITS}{bucket} {column}"


def counted_broken(counts: Mapping[str, int]) -> dict[str, int]:
    """Rows or groups that break a rule, as a receipt kept them."""
    return _counts_of(counts, BROKEN)


def counted_histograms(counts: Mapping[str, int]) -> dict[str, dict[Bucket, int]]:
    """Histograms per column as a receipt kept them; empty for receipts that were written
    earlier."""
    found: dict[str, dict[Bucket, int]] = {}
    for name, rows in counts.items():
        bucket: Bucket = REST
        if name.startswith(BITS):
            bits, _, column = name.removeprefix(BITS).partition(" ")
            bucket = int(bits)
        elif name.startswith(VALUE):
            chars, _, text = name.removeprefix(VALUE).partition(" ")
            bucket, column = text[: int(chars)], text[int(chars) + 1 :]
        elif name.startswith(OTHER):
            column = name.removeprefix(OTHER)
        else:
            continue
        found.setdefault(column, {})[bucket] = rows
    return found


TRAILING_DAYS = 28  # four whole weeks, so that weekends do not move the median
SKEW_NEEDS_ROWS = 20  # the key of a day of fewer rows may hold any share of them
MEDIAN_NEEDS_DAYS = 7  # fewer days with rows say nothing about an ordinary day
LARGE_DRIFT = 0.25  # PSI beyond chance, large by convention
LEAST_COUNT = 0.5  # stands for an empty bucket: the logarithm of 0 is none
CHANCE_DEVIATIONS = 3.0  # of the chi-square distribution that samples of one population follow
VALUES_KEPT = 16  # texts of a day with a bucket of their own
MANY_VALUES = 12  # of a column that usually has more, which ones are the most frequent is chance
REST_SHARE = 0.1


def usual_null_shares(earlier: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Median NULL share (0..1) per column over earlier days, of columns that `MEDIAN_NEEDS_DAYS` of
    them have."""
    return {column: median(shares) for column, shares in _values_by_column(earlier).items()}


def usual_histograms(earlier: Sequence[Mapping[str, Histogram]]) -> dict[str, dict[Bucket, int]]:
    """Histogram per column over all rows of earlier days, of columns that `MEDIAN_NEEDS_DAYS` of
    them have."""
    by_column = _values_by_column(earlier)
    return {
        column: pooled_histogram(days)
        for column, days in by_column.items()
        if has_recurring_values(days)
    }


def _values_by_column(earlier: Iterable[Mapping[str, T]]) -> dict[str, list[T]]:
    """The values of each column over the days, of columns that enough days have."""
    found = defaultdict[str, list[T]](list)
    for day in earlier:
        for column, value in day.items():
            found[column].append(value)
    return {column: values for column, values in found.items() if len(values) >= MEDIAN_NEEDS_DAYS}


def has_recurring_values(days: Sequence[Histogram]) -> bool:
    """Whether these histograms, one a day, are of numbers, or of texts with few values that come
    again from day to day: at least half of the rows have a value that several days have."""
    days_of_text = Counter(b for day in days for b in day if isinstance(b, str))
    together = pooled_histogram(days)
    rest = together.get(REST, 0)
    are_numbers = not days_of_text and REST not in together
    if are_numbers:
        return True
    rows, again = sum(together.values()), 0
    for bucket, count in together.items():
        if isinstance(bucket, int) or days_of_text[bucket] > 1:
            again += count
    has_many_values = sum(days_of_text.values()) > MANY_VALUES * len(days)
    if has_many_values or rest > REST_SHARE * rows:
        return False
    return 2 * again >= rows


def stability_index(current: Histogram, usual: Histogram) -> float:
    """PSI of two histograms: the sum over buckets of (p - q) * ln(p / q); 0.0 where one of them is
    empty. Below 0.1 is small, above 0.25 large by convention."""
    return sum(_shift(now, before) for now, before in _bucket_shares(current, usual).values())


def _shift(now: float, before: float) -> float:
    """What a bucket with these shares adds to the PSI."""
    return (now - before) * log(now / before)


def largest_shift(current: Histogram, usual: Histogram) -> str:
    """The bucket that adds most to the PSI, with its share before and now, in words; "" where one
    is empty."""
    shares = _bucket_shares(current, usual)
    if not shares:
        return ""
    most = max(shares, key=lambda bucket: _shift(*shares[bucket]))
    now = current.get(most, 0) / sum(current.values())
    before = usual.get(most, 0) / sum(usual.values())
    return f"{_bucket_text(most)} went from {before:.1%} to {now:.1%}"


def _bucket_text(bucket: Bucket) -> str:
    """A bucket in words: its text, or the least and the greatest number of so many bits."""
    if isinstance(bucket, str):
        return f"'{bucket}'"
    if bucket in NAMED_BUCKETS:
        return NAMED_BUCKETS[bucket]
    bits = abs(bucket)
    sign = "-" if bucket < 0 else ""
    least, greatest = 2 ** (bits - 1), 2**bits - 1
    if least == greatest:
        return f"{sign}{least}"
    return f"{sign}{least} to {sign}{greatest}"


def _bucket_shares(current: Histogram, usual: Histogram) -> dict[Bucket, tuple[float, float]]:
    """The share of each bucket that has rows, now and usually; empty where either histogram is."""
    total, before = sum(current.values()), sum(usual.values())
    if not total or not before:
        return {}
    return {
        b: (_share_of_rows(current.get(b, 0), total), _share_of_rows(usual.get(b, 0), before))
        for b in _filled_buckets(current, usual)
    }


def _filled_buckets(*histograms: Histogram) -> set[Bucket]:
    return {bucket for histogram in histograms for bucket, n in histogram.items() if n}


def chance_index(current: Histogram, usual: Histogram) -> float:
    """PSI that two samples of one population hardly ever exceed: few rows differ much without any
    cause. Scaled by the numbers of rows it follows the chi-square distribution of `free` degrees of
    freedom, whose mean is `free` and whose variance is twice that."""
    total, before = sum(current.values()), sum(usual.values())
    free = len(_filled_buckets(current, usual)) - 1
    if not total or not before or free < 1:
        return 0.0
    return (free + CHANCE_DEVIATIONS * sqrt(2 * free)) * (1 / total + 1 / before)


@dataclass(frozen=True)
class Drift:
    """Distance of two histograms: the PSI, and how much of it may be chance."""

    index: float
    chance: float

    def exceeds(self, bound: float) -> bool:
        """Whether the PSI is more than `bound` plus chance."""
        return self.index > bound + self.chance


def histogram_drift(current: Histogram, usual: Histogram) -> Drift:
    """Drift of a day's histogram from the usual one."""
    return Drift(stability_index(current, usual), chance_index(current, usual))


def pooled_histogram(histograms: Iterable[Histogram]) -> dict[Bucket, int]:
    """All rows of several days in one histogram."""
    found = Counter[Bucket]()
    for histogram in histograms:
        found.update(histogram)
    return dict(found)


def _share_of_rows(rows: int, total: int) -> float:
    return max(rows, LEAST_COUNT) / total
