"""The same deliveries give the same tables, whatever the order, the chunks and the files.

Lives here: many ways to fill a lake, each compared row by row and fingerprint by fingerprint with
one that was filled at once. Does not live here: whether that one is right (`test_other_data`), and
other machines (`test_machines`).
"""

import random
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land, make_world, span
from backfill_assets_tests.oracle import Row, Rules, unruly

START = date(2024, 2, 25)
RULES = Rules(
    START,
    datetime.fromisoformat("2024-03-08 06:00"),
    date(2024, 3, 9),
    (2, 5),
    5,
    "value",
    "rise",
    3,
    1,
)
ROWS = unruly(4, START)


@pytest.fixture(scope="module")
def at_once(spark: object, tmp_path_factory: pytest.TempPathFactory) -> World:
    """One file, one run."""
    world = made(tmp_path_factory.mktemp("at_once"), [ROWS])
    world.backfill(span(RULES))
    return world


def made(root: Path, files: list[list[Row]], more: str = SHARED) -> World:
    world = make_world(root, RULES, "jsonl", more=more)
    for n, rows in enumerate(files):
        land(world, f"{n:03d}.jsonl", rows)
    return world


def assert_same(world: World, reference: World, *, files_too: bool = True) -> None:
    """Equal rows everywhere (raw without `source_file` where the files differ by design) and equal
    fingerprints."""
    apart = () if files_too else ("source_file",)
    assert world.contents(*apart) == reference.contents(*apart)
    found, wanted = world.fingerprints(), reference.fingerprints()
    for name in found if files_too else found.keys() - {"raw"}:
        assert {d: f for d, f in found[name].items() if f[0]} == {
            d: f for d, f in wanted[name].items() if f[0]
        }, name


def chunks(days: DayRange, lengths: list[int]) -> list[DayRange]:
    """The range cut into pieces of these lengths; the last takes the rest."""
    cut, first = [], days.start
    for length in lengths:
        cut.append(DayRange(first, first + ONE_DAY * length))
        first = cut[-1].end
    return [*cut, DayRange(first, days.end)]


@pytest.mark.slow
def test_chunks_in_any_order_a_table_at_a_time_give_what_one_range_gives(
    at_once: World, tmp_path: Path
) -> None:
    world, chance = made(tmp_path, [ROWS]), random.Random(1)
    for name in at_once.contents():
        pieces = chunks(span(RULES), [chance.randrange(2, 7) for _ in range(2)])
        for piece in chance.sample(pieces, len(pieces)):
            world.backfill(piece, name)
    assert_same(world, at_once)
    assert world.states() == at_once.states()


@pytest.mark.parametrize(("seed", "files"), [(1, len(ROWS)), (2, 5)])
def test_the_same_rows_in_other_files_give_equal_tables(
    at_once: World, tmp_path: Path, seed: int, files: int
) -> None:
    rows = random.Random(seed).sample(ROWS, len(ROWS))
    world = made(tmp_path, [rows[n::files] for n in range(files)])
    world.backfill(span(RULES))
    assert_same(world, at_once, files_too=False)


@pytest.mark.slow
def test_a_world_stopped_early_and_raised_day_by_day_gives_what_one_run_gives(
    at_once: World, tmp_path: Path
) -> None:
    world = made(tmp_path, [ROWS])
    for days_before, last in ((5, 8), (2, 12), (0, None)):
        settings = (at_once.root / "lake.toml").read_text()
        moment = RULES.until - timedelta(days=days_before, hours=3 * bool(days_before))
        settings = settings.replace(RULES.until.isoformat(), moment.isoformat())
        (world.root / "lake.toml").write_text(settings)
        days = span(RULES)
        world.backfill(DayRange(days.start, days.start + ONE_DAY * last) if last else days)
    assert_same(world, at_once)
