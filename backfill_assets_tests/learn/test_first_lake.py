"""The text of a new lake.toml for one source or several, and the trial load that it must pass.
Not here: the guesses (`test_first_source`) and the command (`learn.test_init_command`)."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.intake.settings import landed_source
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets.learn.first_lake import (
    LandedFiles,
    guessed_sources,
    guessed_toml,
    landed_form,
    trial_load,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOUGHT = "order_id,ordered_at,customer,amount\n" + "".join(
    f"o{n},2024-03-01T09:00:00Z,c{n % 2},1.50\n" for n in range(4)
)
BACK = "refund_id,order_id,refunded_at,customer,action\nr1,o1,2024-03-02T09:00:00Z,c1,upsert\n"


def landed(lake: Path, files: dict[str, str], globs: dict[str, str]) -> dict[str, LandedFiles]:
    for name, text in files.items():
        (lake / name).parent.mkdir(parents=True, exist_ok=True)
        (lake / name).write_text(text)
    found = {name: landed_form(lake, None, glob) for name, glob in globs.items()}
    return {name: seen for name, seen in found.items() if seen}


@pytest.mark.slow
def test_a_dialect_that_files_are_written_in_stands_beside_their_payload(tmp_path: Path) -> None:
    text = "Nr;at;kunde;betrag\n" + "".join(
        f"{n};2024-03-01 10:00:00;Zoë {n % 3};1.{n}00,50\n" for n in range(1, 9)
    )
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "o-2024-03-02.csv").write_bytes(text.encode("cp1252"))
    here = landed(tmp_path, {}, {"": "landing/*.csv"})
    (tmp_path / "lake.toml").write_text(guessed_toml(guessed_sources(here, {}), here, {}))
    source = landed_source(load_settings(tmp_path, {}).source)
    assert source.payload == {"kunde": "STRING", "betrag": "DECIMAL(18,2)"}
    assert source.dialect.declared == {
        "encoding": "cp1252",
        "separator": ";",
        "numbers": ["Nr", "betrag"],
        "decimal": ",",
        "thousands": ".",
    }
    two = landed(tmp_path, {"b/b-2024-03-02.csv": BOUGHT}, {"a": "landing/*.csv", "b": "b/*.csv"})
    (tmp_path / "lake.toml").write_text(guessed_toml(guessed_sources(two, {}), two, {}))
    made = {n: landed_source(s) for n, s in load_settings(tmp_path, {}).sources.items()}
    assert (made["a"].dialect, made["b"].dialect.declared) == (source.dialect, {})


def made_of(tmp_path: Path, refunds: str) -> dict[str, LandedFiles]:
    files = {"in/orders/o-2024-03-01.csv": BOUGHT, "in/refunds/r-2024-03-02.csv": refunds}
    return landed(tmp_path, files, {"orders": "in/orders/*.csv", "refunds": "in/refunds/*.csv"})


@pytest.fixture
def two(tmp_path: Path) -> dict[str, LandedFiles]:
    return made_of(tmp_path, BACK)


@pytest.mark.slow
def test_several_sources_share_their_entity_and_features_are_of_the_first(
    two: dict[str, LandedFiles], tmp_path: Path
) -> None:
    (tmp_path / "lake.toml").write_text(guessed_toml(guessed_sources(two, {}), two, {}))
    made = load_settings(tmp_path, {})
    assert {
        n: (s.files, s.select.rpartition("AS event_key")[0][-10:]) for n, s in made.sources.items()
    } == {
        "orders": ("in/orders/*.csv", " order_id "),
        "refunds": ("in/refunds/*.csv", "refund_id "),
    }
    assert (made.start_date, made.features.entity, made.features.source) == (
        date(2024, 3, 1),
        ("customer",),
        "orders",
    )
    assert made.labels.source == "orders"
    assert " action AS op," in made.sources["refunds"].select


def test_a_trial_shows_the_deliveries_of_each_source_and_what_the_load_refuses(
    spark: "SparkSession", tmp_path: Path
) -> None:
    late = "".join(f"r{n},o{n},2024-03-02T09:00:00Z,c1,delete\n" for n in range(4, 20))
    two = made_of(tmp_path, f"{BACK}r2,o2,soon,c1,upsert\nr3\n{late}")
    guesses = guessed_sources(two, {})
    tried = trial_load(tmp_path, guessed_toml(guesses, two, {}), guesses)
    assert (tried["orders"].rows, tried["orders"].refused) == (4, {})
    assert [(d[0], d[3]) for d in tried["refunds"].deliveries][:2] == [
        ("r1", "upsert"),
        ("r4", "delete"),
    ]
    assert tried["refunds"].refused == {
        "1 fields where the header has 5": 1,
        "event_ts is NULL or no timestamp": 1,
    }
    assert not (tmp_path / "tables").exists(), "nothing is recorded"
