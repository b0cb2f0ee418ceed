"""A payload and its entity in `lake.toml`: what parses, what stays as it was, and what is refused by its key.

Tested here: `lake.source_settings`, through the file. Not tested here: the words of a payload (`core.payload`).
"""

from pathlib import Path

import pytest

from backfill_assets.core.errors import SettingsError
from backfill_assets.core.payload import DEFAULT_PAYLOAD
from backfill_assets.lake.settings import FILE_NAME, LakeSettings, load_settings

TEXT = 'start_date = 2024-03-01\n[source]\nfiles = "*.csv"\nformat = "csv"\nselect = "seq"\n'
PAYLOAD = '[source.payload]\ncustomer_id = "STRING NOT NULL"\ntotal = "DECIMAL(18,2)"\n'


def _load(lake: Path, rest: str) -> LakeSettings:
    (lake / FILE_NAME).write_text(TEXT + rest, encoding="utf-8")
    return load_settings(lake, {})


def test_a_lake_without_a_payload_has_the_three_columns_of_before(tmp_path: Path) -> None:
    found = _load(tmp_path, "")
    assert found.source.payload is None
    assert found.source.payload_columns == DEFAULT_PAYLOAD
    assert found.features.entity == ("entity",)


def test_a_declared_payload_and_its_entity_are_read(tmp_path: Path) -> None:
    found = _load(tmp_path, PAYLOAD + '[features]\nentity = ["customer_id"]\n')
    assert [(c.name, c.type, c.nullable) for c in found.source.payload_columns] == [
        ("customer_id", "STRING", False),
        ("total", "DECIMAL(18,2)", True),
    ]
    assert found.features.entity == ("customer_id",)


REFUSED = {
    "a type that is none": ('[source.payload]\nx = "MONEY"\n', "source.payload: Value error, x: 'MONEY' is no type"),
    "an entity that is no column": (PAYLOAD, "features.entity: entity is no column of the payload; name one or"),
    "no entity": ("[features]\nentity = []\n", "features.entity: "),
}


@pytest.mark.parametrize(("rest", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_told_with_its_key(tmp_path: Path, rest: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        _load(tmp_path, rest)
    assert told in caught.value.culprit
