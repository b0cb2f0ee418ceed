"""What intake adds to a source in `lake.toml`, read from the file. Not here: other keys of a source
(`kernel/tables/test_sections.py`), and reading by a dialect (`intake/test_dialect.py`)."""

from pathlib import Path

import pytest

from backfill_assets.intake.settings import LandedSource, landed_source
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.sections import SourceSettings
from backfill_assets.kernel.tables.settings import FILE_NAME, load_settings

SOURCE = 'files = "*.csv"\nformat = "csv"\nselect = "seq"\n'
WRITTEN = 'key_day = "ord-YYYYMMDD"\ndialect = { separator = ";" }\n'


def _loaded_source(lake: Path, text: str) -> SourceSettings:
    (lake / FILE_NAME).write_text(f"start_date = 2024-03-01\n{text}", "utf-8")
    return next(iter(load_settings(lake, {}).delivered.values()))


@pytest.mark.parametrize("section", ["[source]", "[sources.orders]"])
def test_each_source_says_how_its_files_and_its_keys_are_written(
    tmp_path: Path, section: str
) -> None:
    source = landed_source(_loaded_source(tmp_path, f"{section}\n{SOURCE}{WRITTEN}"))
    assert source.dialect.declared == {"separator": ";"}
    assert source.key_day == "ord-YYYYMMDD"


def test_a_key_of_a_dialect_is_refused_by_its_place_in_the_file(tmp_path: Path) -> None:
    text = f'[source]\n{SOURCE}dialect = {{ separator = "ab" }}\n'
    with pytest.raises(SettingsError, match=r"source\.dialect\.separator: it is one ASCII sign"):
        _loaded_source(tmp_path, text)


def test_a_source_that_was_made_without_intake_is_no_source_of_it() -> None:
    source = SourceSettings(files="*", format="csv", select="*")
    with pytest.raises(TypeError, match=LandedSource.__name__):
        landed_source(source)
