"""The tables of each example hold what DuckDB makes of the same files: on every day, in both
truths, in any order.

Lives here: examples whose files land in random order, two of them part by part, against
`example_answers`. Does not live here: their steps (`test_examples`), and random declarations
(`pipeline.transforms.test_declared`).
"""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.learn.example_lakes import example_titles, make_example
from backfill_assets.pipeline.chosen import tables_at
from backfill_assets_tests.end_to_end.example_answers import AT_THE_END, OF_EXAMPLES
from backfill_assets_tests.end_to_end.worlds import SHARED
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.lakes import LONG_AGO, backfill, content

pytestmark = [pytest.mark.long, pytest.mark.on_spark("the examples use what Sail refuses by name")]
Row = tuple[Any, ...]
IN_PARTS = ("late-truth", "retried-events")  # the others land at once


def made(name: str, root: Path) -> tuple[Lake, list[Path]]:
    """A lake of the example, and its files, of which none has landed."""
    make_example(name, root)
    toml = root / "lake.toml"
    toml.write_text(toml.read_text().split("[spark]")[0] + SHARED)
    (root / "landing").rename(root / "unlanded")
    for path in (root / "later").rglob("*.*"):
        place = root / "unlanded" / path.relative_to(root / "later")
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
    return open_lake(root), sorted(p for p in (root / "unlanded").rglob("*") if p.is_file())


def land(lake: Lake, paths: list[Path]) -> list[Path]:
    places = []
    for path in paths:
        place = lake.root / "landing" / path.relative_to(lake.root / "unlanded")
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
        os.utime(place, (LONG_AGO, LONG_AGO))
        places.append(place)
    return places


def ordered(rows: list[Row]) -> list[Row]:
    """Rows as they compare: mean values to nine decimals, which engines round alike."""
    plain = [
        tuple(round(cell, 9) if isinstance(cell, float) else cell for cell in row) for row in rows
    ]
    return sorted(plain, key=lambda row: [str(cell) for cell in row])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OF_EXAMPLES))
def test_features_and_labels_of_an_example_are_duckdbs(
    spark: "SparkSession", tmp_path: Path, name: str
) -> None:
    lake, files = made(name, tmp_path / "lake")
    wanted, chance = OF_EXAMPLES[name], Random(name)
    chance.shuffle(files)
    landed, first = list[Path](), len(files) * 2 // 3 if name in IN_PARTS else len(files)
    for part in filter(None, (files[:first], files[first:])):
        landed += land(lake, part)
        backfill(lake, wanted.days.start, wanted.days.last, tables_of=tables_at(lake.root))
    staging = wanted.source.staging(landed)
    now, at_cut = (wanted.features_of(staging, known=known) for known in (False, True))
    assert wanted.truth or now != at_cut, (
        "late rows change what is known now; of two sources, the truth is what is late"
    )
    assert ordered(content(lake, "features")) == ordered(now)
    assert ordered(content(lake, "features_as_known")) == ordered(at_cut)
    truth = wanted.truth.staging(landed) if wanted.truth else staging
    labels, width = wanted.labels_of(truth, at_cut), len(wanted.entity)
    assert ordered([(*r[:width], *r[-3:]) for r in content(lake, "labels")]) == ordered(labels)
    mature = {(*r[:width], r[-1]): r[-3] for r in labels if r[-2] == "mature"}
    assert len(set(mature.values())) > 1, "some are true and some are not"
    learned = [(*r, mature[(*r[:width], r[-1])]) for r in at_cut if (*r[:width], r[-1]) in mature]
    assert ordered(content(lake, "training")) == ordered(learned)
    assert max(r[-1] for r in at_cut) == wanted.days.end - ONE_DAY


def test_every_example_has_answers() -> None:
    assert {*OF_EXAMPLES, *AT_THE_END} == set(example_titles())
