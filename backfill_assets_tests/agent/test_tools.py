"""What an agent can ask for: checked arguments, commands that change no table, and plans that wait.

Tested here: the tools over a lake without an engine. Not tested here: limits and hostile values
(`test_answers`), and the commands' own answers.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.agent import tools as module
from backfill_assets.agent.answers import COMMANDS
from backfill_assets.agent.tools import LakeTools
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets_tests.synthetic import START, Made, build, synthetic_lake

HOSTILE = ("staging; DROP", "../x", "--yes", "Staging' OR 1=1 --", "", "\x1b[31mred")


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    return synthetic_lake(tmp_path / "lake", 8)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_name_no_day_and_no_id_is_refused_before_any_command_runs(name: str) -> None:
    tools = LakeTools("/nowhere")
    asks: tuple[Callable[[], object], ...] = (
        lambda: tools.show_day(name, "2024-03-01"),
        lambda: tools.show_day("staging", name),
        lambda: tools.explain_refusal(name, "2024-03-01"),
        lambda: tools.make_plan("2024-03-01", "2024-03-02", [name], "why"),
        lambda: tools.show_plan(name),
    )
    for ask in asks:
        with pytest.raises(BackfillError):
            ask()


def test_no_command_of_an_agent_changes_a_table() -> None:
    words = {word for command in COMMANDS for word in command}
    assert words == {"status", "show", "lateness", "sql", "plan", "list"}
    named = {tool.__name__ for tool in LakeTools("/nowhere").all()}
    for verb in ("run", "release", "rollback", "publish", "forget", "backfill", "catch_up"):
        assert not any(verb in name for name in named)
    assert all(tool.__doc__ for tool in LakeTools("/nowhere").all()), "an agent reads them"


def test_the_commands_are_started_by_the_module_of_answers_alone() -> None:
    text = Path(str(module.__file__)).read_text()
    assert "subprocess" not in text
    assert "os.system" not in text


@pytest.mark.usefixtures("processes")
def test_a_plan_waits_for_a_person_and_no_table_moves(lake: Made) -> None:
    build(*lake, "staging", {START: 4})
    heads = {c.name: lake[0].store.head(c.name) for c in lake[1].contracts}
    tools = LakeTools(str(lake[0].root))
    made = tools.make_plan(str(START), str(START), ["features"], "two\nlines \x1b[31m")
    plan = made["data"]["id"]
    assert f"give them the id {plan}" in made["waits_for"]
    listed: Any = tools.list_plans()["data"]
    assert plan in str(listed)
    assert "by an agent: two lines" in str(tools.show_plan(plan)["data"])
    assert {c.name: lake[0].store.head(c.name) for c in lake[1].contracts} == heads
