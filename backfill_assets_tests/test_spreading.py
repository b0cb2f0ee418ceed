"""What goes to one process, and what is begun early: the names exist, and what must stay apart does.

Tested here: `spreading`. Not here: how forks are fed and heard (`test_forking`), which test is quick (`test_tiers`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.spreading import DRAWING, EARLY, ON_SPARK, PARSING, scope_of

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", [*EARLY, *DRAWING])
def test_what_is_named_is_there(name: str) -> None:
    assert (HERE / name).exists()


@pytest.mark.parametrize(
    ("module", "scope"),
    [
        ("test_house.py", PARSING),
        ("cli/test_report_page.py", DRAWING[0]),
        ("browser/test_ui.py", str(HERE / "browser")),
        ("pipeline/transforms/test_declared_labels.py", ON_SPARK),
        ("end_to_end/test_golden.py", ON_SPARK),
        ("end_to_end/test_fault_deaths.py", str(HERE / "end_to_end" / "test_fault_deaths.py")),
        ("engine/test_server.py", str(HERE / "engine" / "test_server.py")),
        ("lake/test_home.py", str(HERE / "lake" / "test_home.py")),
    ],
)
def test_modules_that_share_what_is_dear_go_to_one_process(module: str, scope: str) -> None:
    """What kills JVMs, and servers of their own, share none."""
    assert scope_of(HERE / module) == scope


def test_what_is_begun_early_needs_neither_dagster_nor_pandas_to_be_imported() -> None:
    heavy = ("import dagster", "import pandas", "import pyspark", "from dagster", "from pyspark", "orchestration.")
    modules = [m for name in EARLY for m in ([HERE / name] if name.endswith(".py") else (HERE / name).glob("*.py"))]
    assert len(modules) > len(EARLY)
    for module in modules:
        imports = [
            line for line in module.read_text(encoding="utf-8").splitlines() if line.startswith(("import", "from"))
        ]
        assert not [line for line in imports if any(word in line for word in heavy)], module
