"""A user's file may import files beside it, which belong to its code, and to no other lake of the
process.

Tested here: `pipeline.own_files`, alone and through the digests of `chosen`. Not tested here: other
mistakes in such files (`test_chosen`).
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from backfill_assets.engines.steadiness import explaining_mistakes
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.write.model import refuse_moved_code
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.own_files import loaded_module
from backfill_assets_tests.own import OWN_PIPELINE

TOML = """
start_date = 2024-03-01
[source]
files = "landing/*.jsonl"
format = "jsonl"
select = "seq"
[pipeline]
tables = "pipeline.py:tables"
"""
HELPED = OWN_PIPELINE.replace(
    "from backfill_assets import tables as ours", "import helpers\nimport other"
)
HELPED = HELPED.replace("ours(settings)", "helpers.ours(settings)")
HELPED = HELPED.replace("Table(TOTALS, totals)", "Table(TOTALS, totals), other.more()")
HELPERS = "from backfill_assets import tables as ours\nfrom deep.down import LEAST\n"
OTHER = """from dataclasses import replace
from backfill_assets import Column, Contract, Input, Table
MORE = Contract("more", "All of it.", (Column("entity", "STRING", "whose"), Column("day", "DATE", "when")),
                day_column="day", key=("entity",), inputs=(Input("staging"),))
def transform(frames, chunk):
    from late import columns
    return frames["staging"].select(*columns)
def more():
    return Table(MORE, transform)
"""
FILES = {
    "pipeline.py": HELPED,
    "helpers.py": HELPERS,
    "other.py": OTHER,
    "late.py": "columns = ['entity']\n",
    "deep/__init__.py": "",
    "deep/down.py": "from . import side\nfrom .side import LEAST\n",
    "deep/side.py": "LEAST = 1\n",
    "unused.py": "",
}


def write(root: Path, files: Mapping[str, str]) -> Path:
    """The files below that folder, and a `lake.toml` that names pipeline.py; gives the path of the
    latter."""
    for name, text in {**files, "lake.toml": TOML}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root / "pipeline.py"


def codes(root: Path) -> dict[str, str]:
    return {name: c.code_digest for name, c in chosen_pipeline(open_lake(root)).codes.items()}


def test_a_file_imports_files_and_packages_beside_it_and_the_process_is_as_before(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, FILES)
    before = list(sys.path), set(sys.modules)
    module = loaded_module(path)
    assert (module.helpers.LEAST, module.other.MORE.name) == (1, "more")
    assert sys.path == before[0]
    assert {name.split("_")[0] for name in set(sys.modules) - before[1]} == {"lake"}
    assert loaded_module(path) is module


def test_modules_of_one_name_in_two_lakes_are_two(tmp_path: Path) -> None:
    made = [
        write(tmp_path / str(n), {"pipeline.py": "import helpers\n", "helpers.py": f"N = {n}\n"})
        for n in (1, 2)
    ]
    first, second = (loaded_module(path) for path in made)
    assert (first.helpers.N, second.helpers.N) == (1, 2)


def test_what_a_function_imports_when_it_runs_comes_from_beside_its_file_too(
    tmp_path: Path,
) -> None:
    text = "def told():\n    from late import columns\n    return columns\n"
    assert loaded_module(write(tmp_path, FILES | {"pipeline.py": text})).told() == ["entity"]


@pytest.mark.parametrize(
    ("file", "text", "outdated"),
    [
        ("helpers.py", HELPERS + "MORE = 1\n", {"totals"}),
        ("deep/side.py", "LEAST = 2\n", {"totals"}),
        ("late.py", "columns = ['entity', 'seq']\n", {"totals", "more"}),
        ("unused.py", "MORE = 1\n", set()),
        ("deep/side.py", "# why\nLEAST = 1\n", set()),
    ],
)
def test_a_change_outdates_tables_that_reach_it(
    tmp_path: Path, file: str, text: str, outdated: set[str]
) -> None:
    write(tmp_path, FILES)
    before = codes(tmp_path)
    write(tmp_path, FILES | {file: text})
    after = codes(tmp_path)
    assert {name for name in before if before[name] != after[name]} == outdated


def test_values_that_are_given_to_a_transform_count_as_code_of_the_file_that_gives_them(
    tmp_path: Path,
) -> None:
    other = f"from functools import partial\n{OTHER}".replace("chunk):", "chunk, least=0):")
    other = other.replace("more():", "more(least):").replace(
        "MORE, transform", "MORE, partial(transform, least=least)"
    )
    text = HELPED.replace("other.more()", "other.more(1)")
    write(tmp_path, FILES | {"other.py": other, "pipeline.py": text})
    before = codes(tmp_path)
    write(tmp_path, FILES | {"other.py": other, "pipeline.py": text.replace("more(1)", "more(2)")})
    assert codes(tmp_path)["more"] != before["more"]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"helpers.py": "def f(:\n"}, r"helpers\.py, line 1: SyntaxError"),
        ({"deep/side.py": "LEAST = 1\nMORE = 1 / 0\n"}, r"side\.py, line 2: ZeroDivisionError"),
        ({"helpers.py": "from late import rows\n"}, r"helpers\.py, line 1: ImportError"),
        (
            {"helpers.py": "import importlib\nimportlib.import_module('late')\n"},
            "No module named 'late'",
        ),
        ({"helpers.py": "__import__('unused')\n"}, "No module named 'unused'"),
    ],
)
def test_a_mistake_in_a_file_beside_is_told_by_line(
    tmp_path: Path, files: Mapping[str, str], told: str
) -> None:
    write(tmp_path, {**FILES, **files})
    with pytest.raises(SettingsError, match=told):
        chosen_pipeline(open_lake(tmp_path))


def test_a_mistake_in_what_a_transform_calls_is_told_where_it_stands(tmp_path: Path) -> None:
    more = "    from late import columns\n    return columns(frames)\n"
    other = OTHER[: OTHER.index("    from late")] + more + OTHER[OTHER.index("def more") :]
    write(
        tmp_path,
        FILES | {"other.py": other, "late.py": "def columns(frames):\n    return frames['nope']\n"},
    )
    table = chosen_pipeline(open_lake(tmp_path)).table("more")
    assert table.transform is not None
    with (
        pytest.raises(BackfillError, match=r"late\.py, line 2: KeyError"),
        explaining_mistakes(table),
    ):
        table.transform({}, None)  # type: ignore[arg-type]  # it looks at no days


PACKAGED = {
    "acme/__init__.py": "",
    "acme/pipelines/__init__.py": "SCALE = 1\n",
    "acme/pipelines/daily.py": OWN_PIPELINE.replace(
        "from backfill_assets import tables as ours",
        "from backfill_assets import tables as ours\nfrom acme.rules import least\nfrom . import "
        "sums\nimport beside",
    ),
    "acme/rules.py": "def least():\n    from acme import late\n    return late.LEAST\n",
    "acme/late.py": "LEAST = 1\n",
    "acme/pipelines/sums.py": "",
    "acme/unused.py": "",
    "beside.py": "",
}


@pytest.mark.parametrize(
    ("changed", "outdates"),
    [
        ("acme/pipelines/daily.py", True),
        ("acme/rules.py", True),
        ("acme/late.py", True),
        ("acme/pipelines/sums.py", True),
        ("acme/pipelines/__init__.py", True),
        ("acme/unused.py", False),
        ("beside.py", False),
    ],
)
def test_of_a_module_that_is_imported_its_own_package_is_code_as_far_as_it_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, outdates: bool
) -> None:
    write(tmp_path, PACKAGED)
    toml = tmp_path / "lake.toml"
    toml.write_text(toml.read_text().replace("pipeline.py:tables", "acme.pipelines.daily:tables"))
    monkeypatch.syspath_prepend(str(tmp_path))
    digests = []
    for more in ("", "\nANOTHER = 2\n"):
        for name in [n for n in sys.modules if n.split(".")[0] in ("acme", "beside")]:
            monkeypatch.delitem(sys.modules, name)
        path = tmp_path / changed
        path.write_text(path.read_text() + more)
        digests.append(codes(tmp_path))
    assert (digests[0]["totals"] != digests[1]["totals"]) is outdates
    assert digests[0]["raw"] == digests[1]["raw"], "raw and staging are this product's"
    assert digests[0]["staging"] == digests[1]["staging"]


# what is digested is what was loaded


def test_a_file_that_is_saved_while_it_is_loaded_is_digested_as_it_was_run(tmp_path: Path) -> None:
    saves = (
        "import helpers\nfrom pathlib import "
        "Path\nPath(__file__).with_name('helpers.py').write_text('LEAST = 2\\n')\n"
    )
    write(tmp_path, {"pipeline.py": saves + OWN_PIPELINE, "helpers.py": "LEAST = 1\n"})
    during, after = codes(tmp_path), codes(tmp_path)
    assert during["totals"] != after["totals"], (
        "the first one ran the file of before, the next one the new file"
    )
    write(tmp_path, {"pipeline.py": saves + OWN_PIPELINE, "helpers.py": "LEAST = 1\n"})
    assert codes(tmp_path) == during


def test_a_table_is_not_written_after_its_file_changed_and_the_file_is_named(
    tmp_path: Path,
) -> None:
    write(tmp_path, FILES)
    pipeline = chosen_pipeline(open_lake(tmp_path))
    write(tmp_path, FILES | {"helpers.py": HELPERS + "\n"})
    refuse_moved_code(pipeline.table("more"))
    with pytest.raises(
        BackfillError, match=r"of totals: \S+helpers\.py changed after .* Start the command again"
    ):
        refuse_moved_code(pipeline.table("totals"))
    (tmp_path / "late.py").unlink()
    with pytest.raises(BackfillError, match=r"late\.py changed"):
        refuse_moved_code(pipeline.table("more"))


@pytest.mark.parametrize(
    "changed", [name for name in PACKAGED if name not in ("acme/unused.py", "beside.py")]
)
def test_an_imported_module_whose_file_changed_is_refused_and_never_signed_as_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    write(tmp_path, PACKAGED)
    toml = tmp_path / "lake.toml"
    toml.write_text(toml.read_text().replace("pipeline.py:tables", "acme.pipelines.daily:tables"))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [n for n in sys.modules if n.split(".")[0] in ("acme", "beside")]:
        monkeypatch.delitem(sys.modules, name)
    before = chosen_pipeline(open_lake(tmp_path))
    assert codes(tmp_path) == {name: c.code_digest for name, c in before.codes.items()}
    text = (tmp_path / changed).read_text()
    (tmp_path / changed).write_text(text + "\nANOTHER = 2\n")
    with pytest.raises(
        SettingsError,
        match=rf"acme\.pipelines\.daily: \S+{changed} changed .* Start the command again",
    ):
        chosen_pipeline(open_lake(tmp_path))
    with pytest.raises(BackfillError, match=rf"{changed} changed"):
        refuse_moved_code(before.table("totals"))
    (tmp_path / changed).write_text(text)
    assert codes(tmp_path)["totals"] == before.codes["totals"].code_digest
