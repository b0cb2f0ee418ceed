"""Each example does what its `STEPS.md` says: every line runs, and what is shown below comes out.

Lives here: the steps of all examples, run from empty folders as a new user would, each with its
lake's own server. Does not live here: the answers, of some examples at the end and of others in any
order (`example_answers`).
"""

from pathlib import Path

import pytest

from backfill_assets.learn.example_lakes import example_titles
from backfill_assets_tests.end_to_end.example_answers import AT_THE_END
from backfill_assets_tests.end_to_end.steps import differs, run_steps, steps_of
from backfill_assets_tests.engine_choice import environ_of_turn, is_between_turns, of_today
from backfill_assets_tests.processes import CHECKOUT

pytestmark = [
    pytest.mark.users_do,
    pytest.mark.on_spark(
        "some examples use what Sail refuses by name; the others name their engine below"
    ),
]
SPARK_ONLY = {"orders", "retried-events", "sensor-readings"}


@pytest.fixture
def spark_server(name: str) -> dict[str, str]:
    """What is set around the steps: a server of theirs that a failure leaves behind ends soon, by
    itself."""
    return {
        "BACKFILL_ASSETS__SPARK__IDLE_MINUTES": "3",
        **({} if name in SPARK_ONLY else environ_of_turn(name)),
    }


def steps_text(name: str) -> str:
    return (
        CHECKOUT / "backfill_assets" / "learn" / "examples" / name.replace("-", "_") / "STEPS.md"
    ).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", of_today(sorted(example_titles())))
def test_every_line_of_the_steps_shows_what_it_says(
    spark_server: dict[str, str], tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    steps = steps_of(steps_text(name))
    forked = name not in SPARK_ONLY and is_between_turns(name)
    printed = run_steps(steps, folder, spark_server, forked=forked)
    told = {
        s.commands: differs(s.shown, p)
        for s, p in zip(steps, printed, strict=True)
        if s.shown is not None
    }
    assert {commands: lines for commands, lines in told.items() if lines} == {}
    if answer := AT_THE_END.get(name):
        (lake,) = (toml.parent for toml in folder.glob("*/lake.toml"))
        assert answer.differing(lake) == []
