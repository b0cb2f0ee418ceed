"""Drift: how far a day's numbers lie from those of earlier days, by one named figure.

Lives here: the population stability index (PSI) of histograms, and what of it is chance. Does not live here: counting
(`lake.audit`) and judging (`core.gates`). A bucket is the length of a number in bits, with its sign: 0; 1; 2 and 3;
4 through 7; … A shift by less than a factor of two may stay within its buckets and is not seen. Of a number with a
fraction it is its whole part, toward 0; yes is 1 and no 0; NaN has none, and of DOUBLE 2^62 stands for all beyond.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, sqrt

Histogram = Mapping[int, int]  # rows by bucket
LEAST_COUNT = 0.5  # stands for an empty bucket: the logarithm of 0 is none
CHANCE_DEVIATIONS = 3.0  # of the chi-square distribution that samples of one population follow


def stability_index(found: Histogram, usual: Histogram) -> float:
    """The PSI of two histograms: the sum over buckets of (p - q) * ln(p / q). Below 0.1 small, above 0.25 large by
    convention; 0.0 where one of them is empty."""
    buckets = {b for h in (found, usual) for b, n in h.items() if n}
    total, before = sum(found.values()), sum(usual.values())
    if not total or not before:
        return 0.0
    shares = [(_share(found.get(b, 0), total), _share(usual.get(b, 0), before)) for b in buckets]
    return sum((p - q) * log(p / q) for p, q in shares)


def chance(found: Histogram, usual: Histogram) -> float:
    """The PSI that two samples of one population hardly ever exceed: few rows differ much without any cause."""
    total, before = sum(found.values()), sum(usual.values())
    free = len({b for h in (found, usual) for b, n in h.items() if n}) - 1
    if not total or not before or free < 1:
        return 0.0
    return (free + CHANCE_DEVIATIONS * sqrt(2 * free)) * (1 / total + 1 / before)


@dataclass(frozen=True)
class Drift:
    """How far two histograms lie apart: the PSI, and what of it is chance."""

    index: float
    chance: float

    def exceeds(self, bound: float) -> bool:
        """Whether it is more than the bound, beyond what is chance."""
        return self.index > bound + self.chance


def drift(found: Histogram, usual: Histogram) -> Drift:
    """The drift of what was found against what is usual."""
    return Drift(stability_index(found, usual), chance(found, usual))


def pooled(histograms: "list[Histogram]") -> dict[int, int]:
    """All rows of several days in one histogram."""
    found: dict[int, int] = {}
    for histogram in histograms:
        for bucket, rows in histogram.items():
            found[bucket] = found.get(bucket, 0) + rows
    return found


def _share(rows: int, total: int) -> float:
    return max(rows, LEAST_COUNT) / total
