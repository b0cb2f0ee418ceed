"""What goes to one process: the names exist, and what must stay apart does.

Tested here: `spreading`. Not here: which test is quick (`conftest`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.spreading import DRAWING, ON_SPARK, PARSING, scope_of

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", DRAWING)
def test_what_is_named_is_there(name: str) -> None:
    assert (HERE / name).exists()


@pytest.mark.parametrize(
    ("module", "scope"),
    [
        ("test_house.py", PARSING),
        ("cli/test_report_page.py", DRAWING[0]),
        ("browser/test_ui.py", str(HERE / "browser")),
        ("pipeline/transforms/test_declared.py", ON_SPARK),
        ("end_to_end/test_golden.py", ON_SPARK),
        ("end_to_end/test_fault_deaths.py", str(HERE / "end_to_end" / "test_fault_deaths.py")),
        ("engine/test_server.py", str(HERE / "engine" / "test_server.py")),
        ("lake/test_home.py", str(HERE / "lake" / "test_home.py")),
    ],
)
def test_modules_that_share_what_is_dear_go_to_one_process(module: str, scope: str) -> None:
    """What kills JVMs, and servers of their own, share none."""
    assert scope_of(HERE / module) == scope
