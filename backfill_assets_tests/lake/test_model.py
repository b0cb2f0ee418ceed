"""A pipeline as values: which changes of code and settings make a table outdated, and which do not.

Tested here: `lake.model`, with transforms loaded from files that the tests write. Not tested here: this product's own
tables (`pipeline/test_tables.py`).
"""

import importlib.util
import itertools
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from backfill_assets.core.contracts import Column, Input, InputKind
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.states import Codes
from backfill_assets.lake import model
from backfill_assets.lake.model import Table, make_pipeline, refuse_moved_code
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
FRESH_NAMES = map("backfill_assets_tests_source_{}".format, itertools.count())


class Sources:
    """Writes modules; every text gets a module of its own, as a new release of the file would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def module(self, text: str) -> ModuleType:
        """The module of this text."""
        name = next(FRESH_NAMES)
        path = self.folder / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def codes(self, text: str = CODE, **facts: Any) -> Codes:
        """The digests of a staging table whose code is this text."""
        return make_pipeline([replace(Table(STAGING, sources=(self.module(text),)), **facts)]).codes["staging"]


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


PROSE = {
    "other docstrings": CODE.replace("Twice the rows", "The rows, doubled").replace("A window", "Some days"),
    "other comments": CODE.replace("# each of them", "# every single one\n    # of them"),
    "no comments": CODE.replace("    # each of them\n", ""),
    "other layout": CODE.replace("rows * 2", "(\n        rows\n        * 2\n    )").replace("\n\n", "\n\n\n"),
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
    "another operator": CODE.replace("* 2", "+ 2"),
    "another name": CODE.replace("double", "twice"),
    "another constant of a class": CODE.replace("days = 7", "days = 8"),
    "a number as text": CODE.replace("days = 7", "days = '7'"),
    "another default": CODE.replace("(rows)", "(rows=1)"),
    "a new statement": CODE.replace("    return", "    rows = rows + 1\n    return"),
    "text that is no docstring": CODE + "\nNAME = 'Twice'\n",
}


@pytest.mark.parametrize("text", REAL.values(), ids=REAL.keys())
def test_other_code_makes_a_table_outdated(sources: Sources, text: str) -> None:
    assert sources.codes(text).code_digest != sources.codes().code_digest
    assert sources.codes(text).settings_digest == sources.codes().settings_digest


def test_the_module_of_the_transform_counts_when_no_sources_are_named(sources: Sources) -> None:
    one, same, other = (sources.module(text) for text in (CODE, PROSE["other comments"], REAL["another number"]))
    digests = [make_pipeline([Table(STAGING, m.double)]).codes["staging"].code_digest for m in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]
    assert digests[0] == sources.codes().code_digest


def test_another_version_of_the_loader_makes_raw_outdated_and_nothing_else(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = make_pipeline(_tables(sources, CODE)).codes
    monkeypatch.setattr(model, "LOADER_VERSION", "raw 0")
    after = make_pipeline(_tables(sources, CODE)).codes
    assert {table for table in before if before[table] != after[table]} == {"raw"}


def test_a_version_stands_for_code_of_this_package_and_for_no_other(sources: Sources) -> None:
    ours = "backfill_assets.pipeline.transforms.staging", "backfill_assets.pipeline.transforms.measures"
    first, second = (Table(STAGING, sources=(m,), code_version="staging 1") for m in ours)
    assert make_pipeline([first]).codes == make_pipeline([second]).codes
    versions = (replace(first, code_version=v) for v in ("staging 1", "staging 2"))
    assert len({make_pipeline([t]).codes["staging"].code_digest for t in versions}) == 2
    texts = CODE, REAL["another number"]
    codes = {sources.codes(text, code_version="staging 1").code_digest for text in texts}
    assert len(codes) == 2


def test_nothing_is_written_once_another_version_of_this_package_is_installed(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(_tables(sources, CODE))
    refuse_moved_code(pipeline.table("raw"))
    found = tmp_path / "site" / "backfill_assets-99.0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: backfill-assets\nVersion: 99.0\n")
    monkeypatch.syspath_prepend(str(found.parent))
    with pytest.raises(BackfillError, match=r"package backfill-assets changed after .* Start the command again"):
        refuse_moved_code(pipeline.table("raw"))


# settings


def test_settings_have_a_digest_of_their_own(sources: Sources) -> None:
    one, other = sources.codes(settings={"windows": (7, 28)}), sources.codes(settings={"windows": (7, 29)})
    assert one.settings_digest != other.settings_digest
    assert one.code_digest == other.code_digest


# the contract

COLUMNS: Mapping[str, dict[str, Any]] = {
    "a column more": {"columns": (*STAGING.columns, Column("flag", "INT", "a flag"))},
    "another type": {"columns": (*STAGING.columns[:1], Column("value", "INT", ""), *STAGING.columns[2:])},
    "NULL no more allowed": {"columns": tuple(replace(c, nullable=False) for c in STAGING.columns)},
    "another key": {"key": ("entity", STAGING.day_column)},
    "another input": {"inputs": (Input("raw", kind=InputKind.ARRIVALS), Input("features"))},
    "a longer window": {"inputs": (Input("raw", before=1, kind=InputKind.ARRIVALS),)},
}


@pytest.mark.parametrize("change", COLUMNS.values(), ids=COLUMNS.keys())
def test_what_a_contract_promises_counts_as_code(change: dict[str, Any]) -> None:
    before, after = (make_pipeline([Table(c)]).codes["staging"] for c in (STAGING, replace(STAGING, **change)))
    assert before.code_digest != after.code_digest


def test_how_a_contract_describes_itself_does_not_count() -> None:
    reworded = tuple(replace(c, description="other words", tags={"pii": "no"}) for c in STAGING.columns)
    other = replace(STAGING, description="other words", columns=reworded)
    assert make_pipeline([Table(other)]).codes == make_pipeline([Table(STAGING)]).codes


# upstream


def _tables(sources: Sources, staging_code: str) -> list[Table]:
    staging = Table(STAGING, sources=(sources.module(staging_code),), settings={})
    return [Table(RAW), staging, Table(FEATURES), Table(AS_KNOWN)]


def test_what_is_judged_by_arrivals_has_its_upstreams_code_as_its_own(sources: Sources) -> None:
    before = make_pipeline(_tables(sources, CODE)).codes
    after = make_pipeline(_tables(sources, REAL["another number"])).codes
    assert {name for name in before if before[name] != after[name]} == {"staging", "features_as_known"}


# the pipeline


def test_days_of_an_earlier_version_that_is_as_good_are_as_todays() -> None:
    table = Table(STAGING, sources=("backfill_assets.pipeline.transforms.staging",), code_version="staging 1")
    before = make_pipeline([table]).codes["staging"]
    today = make_pipeline([replace(table, code_version="staging 2", earlier_versions=("staging 1",))]).codes["staging"]
    assert before.code_digest != today.code_digest
    assert today.earlier == (before.code_digest,)
