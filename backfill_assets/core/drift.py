"""What is usual for a column on the days before a day, and how far a day drifted from it.

Here: the trailing history of NULL shares and histograms, and the population stability index (PSI) with its share of
chance. Not here: counting (`lake.profile`), bounds and verdicts (`lake.gates`, `core.plan_gates`).

A histogram counts rows by the length of a number in bits, with its sign: 0; 1; 2 and 3; 4 through 7; … A shift by less
than a factor of two may stay within its buckets and is not seen. Of a number with a fraction the whole part counts,
toward 0; yes is 1 and no 0; NaN has no bucket, and of DOUBLE 2^62 stands for all beyond.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import median

Histogram = Mapping[int, int]  # rows by bucket
TRAILING_DAYS = 28  # four whole weeks, so that weekends do not move the median
MEDIAN_NEEDS_DAYS = 7  # fewer days with rows say nothing about an ordinary day
LARGE_DRIFT = 0.25  # PSI beyond chance, large by convention
LEAST_COUNT = 0.5  # stands for an empty bucket: the logarithm of 0 is none
CHANCE_DEVIATIONS = 3.0  # of the chi-square distribution that samples of one population follow


def usual_null_shares(earlier: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Median NULL share (0..1) per column over earlier days, of columns that `MEDIAN_NEEDS_DAYS` of them have."""
    shares: dict[str, list[float]] = {}
    for day in earlier:
        for column, share in day.items():
            shares.setdefault(column, []).append(share)
    return {c: median(found) for c, found in shares.items() if len(found) >= MEDIAN_NEEDS_DAYS}


def usual_histograms(earlier: Sequence[Mapping[str, Histogram]]) -> dict[str, dict[int, int]]:
    """Histogram per column over all rows of earlier days, of columns that `MEDIAN_NEEDS_DAYS` of them have."""
    found: dict[str, list[Histogram]] = {}
    for day in earlier:
        for column, histogram in day.items():
            found.setdefault(column, []).append(histogram)
    return {c: pooled(days) for c, days in found.items() if len(days) >= MEDIAN_NEEDS_DAYS}


def stability_index(found: Histogram, usual: Histogram) -> float:
    """PSI of two histograms: the sum over buckets of (p - q) * ln(p / q); 0.0 where one of them is empty. Below 0.1 is
    small, above 0.25 large by convention."""
    buckets = {b for h in (found, usual) for b, n in h.items() if n}
    total, before = sum(found.values()), sum(usual.values())
    if not total or not before:
        return 0.0
    shares = [(_share(found.get(b, 0), total), _share(usual.get(b, 0), before)) for b in buckets]
    return sum((p - q) * log(p / q) for p, q in shares)


def chance(found: Histogram, usual: Histogram) -> float:
    """PSI that two samples of one population hardly ever exceed: few rows differ much without any cause."""
    total, before = sum(found.values()), sum(usual.values())
    free = len({b for h in (found, usual) for b, n in h.items() if n}) - 1
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


def drift(found: Histogram, usual: Histogram) -> Drift:
    """Drift of a day's histogram from the usual one."""
    return Drift(stability_index(found, usual), chance(found, usual))


def pooled(histograms: Iterable[Histogram]) -> dict[int, int]:
    """All rows of several days in one histogram."""
    found: dict[int, int] = {}
    for histogram in histograms:
        for bucket, rows in histogram.items():
            found[bucket] = found.get(bucket, 0) + rows
    return found


def _share(rows: int, total: int) -> float:
    return max(rows, LEAST_COUNT) / total
