"""Each example does what its `STEPS.md` says: every line runs, and what is shown below comes out.

Lives here: the steps of all examples, run from empty folders on one Spark server. Does not live here: whether the rows
are right (`test_example_answers`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.engine.confs import EngineSettings
from backfill_assets.engine.server import ensure_server, hold, release, stop_server
from backfill_assets.operations.example_lakes import examples
from backfill_assets_tests.end_to_end.steps import differs, run_steps, steps_of
from backfill_assets_tests.processes import CHECKOUT


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that all examples use, whatever their `lake.toml` says of engines."""
    home = tmp_path_factory.mktemp("server")
    hold(home)
    yield ensure_server(home, EngineSettings(memory="1g")).url
    release(home)
    stop_server(home, force=True)


def steps_text(name: str) -> str:
    return (CHECKOUT / "backfill_assets" / "examples" / name.replace("-", "_") / "STEPS.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(examples()))
def test_every_line_of_the_steps_runs_and_what_they_show_comes_out(
    spark_server: str, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    steps = steps_of(steps_text(name))
    printed = run_steps(steps, folder, {"BACKFILL_ASSETS__SPARK__ENGINE": spark_server})
    told = {s.commands: differs(s.shown, p) for s, p in zip(steps, printed, strict=True) if s.shown is not None}
    assert {commands: lines for commands, lines in told.items() if lines} == {}


def test_what_is_shown_may_leave_out_lines_and_parts_of_them_and_nothing_else() -> None:
    assert differs("a … c\n…\nlast\n", "a  b c\nx\ny\nlast\n") == ""
    assert differs("a\n", "a\nb\n")
    assert differs("a\nc\n", "a\nb\n") == "c"
    (first, second) = steps_of("```bash\none\n```\n\n```text\n1\n```\n\n```toml\nx\n```\n```bash\ntwo\n```\n")
    assert (first.commands, first.shown, second.shown) == ("one\n", "1\n", None)
