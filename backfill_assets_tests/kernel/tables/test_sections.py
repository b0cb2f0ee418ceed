"""A payload and its entity in `lake.toml`: what parses, what stays as it was, and what is refused
by its key. Not here: the words of a payload (`kernel.core.payload`)."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.sections import SparkSettings
from backfill_assets.kernel.tables.settings import FILE_NAME, LakeSettings, load_settings

TEXT = 'start_date = 2024-03-01\n[source]\nfiles = "*.csv"\nformat = "csv"\nselect = "seq"\n'
PAYLOAD = '[source.payload]\ncustomer_id = "STRING NOT NULL"\ntotal = "DECIMAL(18,2)"\n'


def _load(lake: Path, rest: str) -> LakeSettings:
    (lake / FILE_NAME).write_text(TEXT + rest, encoding="utf-8")
    return load_settings(lake, {})


def test_a_declared_payload_and_its_entity_are_read(tmp_path: Path) -> None:
    found = _load(tmp_path, PAYLOAD + '[features]\nentity = ["customer_id"]\n')
    assert [(c.name, c.type, c.nullable) for c in found.source.payload_columns] == [
        ("customer_id", "STRING", False),
        ("total", "DECIMAL(18,2)", True),
    ]
    assert found.features.entity == ("customer_id",)


REFUSED = {
    "a type that is none": (
        '[source.payload]\nx = "MONEY"\n',
        "source.payload: x: 'MONEY' is no type",
    ),
    "an entity that is no column": (
        PAYLOAD,
        "features.entity: entity is no column of the payload; name one or",
    ),
    "no entity": ("[features]\nentity = []\n", "features.entity: "),
}


@pytest.mark.parametrize(("rest", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_told_with_its_key(tmp_path: Path, rest: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        _load(tmp_path, rest)
    assert told in caught.value.culprit


ONE = 'files = "*.csv"\nformat = "csv"\nselect = "seq"\n'
TWO = f"start_date = 2024-03-01\n[sources.events]\n{ONE}[sources.truth]\n{ONE}"


OTHER = (
    TWO + '[sources.truth.payload]\n{} = "{}"\n[features]\nsource = "events"\n[labels]\nsource = '
    '"truth"\n'
)


def _of_two(lake: Path, rest: str = "", text: str = TWO) -> LakeSettings:
    (lake / FILE_NAME).write_text(text + rest, encoding="utf-8")
    return load_settings(lake, {})


def test_sources_have_names_and_the_only_one_has_none(tmp_path: Path) -> None:
    single, several = _load(tmp_path, ""), _of_two(tmp_path, '[features]\nsource = "events"\n')
    assert list(single.delivered) == [""]
    assert single.of_source("") is single
    assert list(several.delivered) == ["events", "truth"]
    assert several.of_source("truth").source == several.sources["truth"]
    assert (single.source_of("features"), several.source_of("features")) == ("", "events")
    with pytest.raises(SettingsError, match="it has several sources: events, truth"):
        _ = several.source


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            TWO + f"[source]\n{ONE}",
            "[source] and [sources.NAME] say what is delivered: leave one of them out",
        ),
        (
            "start_date = 2024-03-01\n",
            "[source] and [sources.NAME] say what is delivered: give one of them",
        ),
        (
            TWO.replace("truth", "Truth"),
            "sources.Truth: a source's name has small letters, digits and _",
        ),
        (
            TWO + '[labels]\nsource = "other"\n',
            "labels.source: there is no source 'other'; the lake has events, truth",
        ),
        (
            TEXT + '[labels]\nsource = "x"\n',
            "labels.source: there is no source 'x'; the lake has one, without a name",
        ),
        (OTHER.format("who", "STRING"), "features.entity: entity is no column of the payload"),
        (
            OTHER.format("entity", "BIGINT"),
            "features.entity: entity is STRING and BIGINT in two sources",
        ),
    ],
)
def test_sources_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        _of_two(tmp_path, text=text)
    assert told in refused.value.culprit


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"engine": "session"}, "stand together"),
        ({"session": "my_project.spark:get"}, "stand together"),
        ({"engine": "session", "session": "my_project.spark"}, "pattern"),
        (
            {"engine": "session", "session": "a:b", "confs": {"spark.sql.x": "1"}},
            "confs has no effect",
        ),
    ],
)
def test_a_session_that_is_no_engine_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        SparkSettings(**given)
