"""A pipeline as values: which changes of code and settings make a table outdated, and which do not.
Not here: this product's own tables (`pipeline/test_tables.py`)."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.kernel.core.contracts import Column, Input, InputKind
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.states import Codes
from backfill_assets.kernel.write import model
from backfill_assets.kernel.write.model import Table, make_pipeline, refuse_moved_code
from backfill_assets_tests.builders import AS_KNOWN, FEATURES, RAW, STAGING

CODE = '''
def double(rows):
    """Twice the rows."""
    # each of them
    return rows * 2


class Window:
    """A window."""

    days = 7
'''


class Sources:
    """A file of code that is written anew, as a new release of it would be."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "own.py"

    def codes(self, text: str = CODE, **facts: Any) -> Codes:
        """The digests of a staging table whose code is this text."""
        self.path.write_text(text)
        return make_pipeline([replace(Table(STAGING, sources=(self.path,)), **facts)]).codes[
            "staging"
        ]


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


PROSE = {
    "other docstrings": CODE.replace("Twice the rows", "The rows, doubled").replace(
        "A window", "Some days"
    ),
    "other comments": CODE.replace("# each of them", "# every single one\n    # of them"),
    "other layout": CODE.replace("rows * 2", "(\n        rows\n        * 2\n    )").replace(
        "\n\n", "\n\n\n"
    ),
    "a first docstring": '"""What lives here."""\n' + CODE,
    "a docstring dropped": CODE.replace('    """Twice the rows."""\n', ""),
    "other quotes": CODE.replace('"""', "'''"),
}


@pytest.mark.parametrize("text", PROSE.values(), ids=PROSE.keys())
def test_rewording_and_layout_do_not_make_a_table_outdated(sources: Sources, text: str) -> None:
    assert text != CODE
    assert sources.codes(text) == sources.codes()


REAL = {
    "another number": CODE.replace("* 2", "* 3"),
    "another constant of a class": CODE.replace("days = 7", "days = 8"),
    "another default": CODE.replace("(rows)", "(rows=1)"),
    "a new statement": CODE.replace("    return", "    rows = rows + 1\n    return"),
    "text that is no docstring": CODE + "\nNAME = 'Twice'\n",
}


@pytest.mark.parametrize("text", REAL.values(), ids=REAL.keys())
def test_other_code_makes_a_table_outdated(sources: Sources, text: str) -> None:
    assert sources.codes(text).code_digest != sources.codes().code_digest
    assert sources.codes(text).settings_digest == sources.codes().settings_digest
    other = sources.codes(settings={"windows": (7, 29)})
    assert (other.code_digest, other.settings_digest == sources.codes().settings_digest) == (
        sources.codes().code_digest,
        False,
    )


def test_another_version_of_the_loader_outdates_raw_alone(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = make_pipeline(_tables(sources, CODE)).codes
    monkeypatch.setattr(model, "LOADER_VERSION", "raw 0")
    after = make_pipeline(_tables(sources, CODE)).codes
    assert {table for table in before if before[table] != after[table]} == {"raw"}


def test_a_version_stands_for_code_of_this_package_and_for_no_other(sources: Sources) -> None:
    ours = (
        "backfill_assets.pipeline.transforms.staging",
        "backfill_assets.pipeline.transforms.measures",
    )
    first, second = (Table(STAGING, sources=(m,), code_version="staging 1") for m in ours)
    assert make_pipeline([first]).codes == make_pipeline([second]).codes
    versions = (replace(first, code_version=v) for v in ("staging 1", "staging 2"))
    assert len({make_pipeline([t]).codes["staging"].code_digest for t in versions}) == 2
    texts = CODE, REAL["another number"]
    codes = {sources.codes(text, code_version="staging 1").code_digest for text in texts}
    assert len(codes) == 2


def own(frames: Any, chunk: Any) -> Any:
    """A transform of this module."""


def test_the_module_of_the_transform_counts_when_no_sources_are_named() -> None:
    found = [
        make_pipeline([t]).codes
        for t in (Table(STAGING, own), Table(STAGING, own, sources=(__name__,)))
    ]
    assert found[0] == found[1] != make_pipeline([Table(STAGING, own, sources=(json,))]).codes


def test_nothing_is_written_once_another_version_of_this_package_is_installed(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(_tables(sources, CODE))
    refuse_moved_code(pipeline.table("raw"))
    found = tmp_path / "site" / "backfill_assets-99.0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: backfill-assets\nVersion: 99.0\n")
    monkeypatch.syspath_prepend(str(found.parent))
    with pytest.raises(
        BackfillError, match=r"package backfill-assets changed after .* Start the command again"
    ):
        refuse_moved_code(pipeline.table("raw"))


# the contract

COLUMNS: Mapping[str, dict[str, Any]] = {
    "a column more": {"columns": (*STAGING.columns, Column("flag", "INT", "a flag"))},
    "another type": {
        "columns": (*STAGING.columns[:1], Column("value", "INT", ""), *STAGING.columns[2:])
    },
    "NULL no more allowed": {"columns": tuple(replace(c, nullable=False) for c in STAGING.columns)},
    "another key": {"key": ("entity", STAGING.day_column)},
    "a longer window": {"inputs": (Input("raw", before=1, kind=InputKind.ARRIVALS),)},
}


@pytest.mark.parametrize("change", COLUMNS.values(), ids=COLUMNS.keys())
def test_what_a_contract_promises_counts_as_code(change: dict[str, Any]) -> None:
    before, after = (
        make_pipeline([Table(c)]).codes["staging"] for c in (STAGING, replace(STAGING, **change))
    )
    assert before.code_digest != after.code_digest


def test_how_a_contract_describes_itself_does_not_count() -> None:
    reworded = tuple(
        replace(c, description="other words", tags={"pii": "no"}) for c in STAGING.columns
    )
    other = replace(STAGING, description="other words", columns=reworded)
    assert make_pipeline([Table(other)]).codes == make_pipeline([Table(STAGING)]).codes


# upstream


def _tables(sources: Sources, staging_code: str) -> list[Table]:
    sources.path.write_text(staging_code)
    staging = Table(STAGING, sources=(sources.path,), settings={})
    return [Table(RAW), staging, Table(FEATURES), Table(AS_KNOWN)]


def test_what_is_judged_by_arrivals_has_its_upstreams_code_as_its_own(sources: Sources) -> None:
    before = make_pipeline(_tables(sources, CODE)).codes
    after = make_pipeline(_tables(sources, REAL["another number"])).codes
    assert {name for name in before if before[name] != after[name]} == {
        "staging",
        "features_as_known",
    }


# the pipeline


def test_days_of_an_earlier_version_that_is_as_good_are_as_todays() -> None:
    table = Table(
        STAGING, sources=("backfill_assets.pipeline.transforms.staging",), code_version="staging 1"
    )
    before = make_pipeline([table]).codes["staging"]
    today = make_pipeline(
        [replace(table, code_version="staging 2", earlier_versions=("staging 1",))]
    ).codes["staging"]
    assert before.code_digest != today.code_digest
    assert today.earlier == (before.code_digest,)
