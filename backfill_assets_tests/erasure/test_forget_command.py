"""`forget` shows first; an obstacle ends it before anything is written. No engine.
Not here: the erasure itself (`end_to_end.test_forget`)."""

from dataclasses import replace
from pathlib import Path

import click
import pytest

from backfill_assets.cli.common import Overrides
from backfill_assets.cli.progress import RunOutcome
from backfill_assets.erasure.forget import ForgetRequest
from backfill_assets.erasure.forget_command import rebuild_after_forgetting
from backfill_assets.erasure.traces import Trace
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.process import LAKE_VARIABLE
from backfill_assets.kernel.core.readings import PARAMETERS
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.builders import make_commit
from backfill_assets_tests.synthetic import START, build, synthetic_lake


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    made = synthetic_lake(tmp_path / "lake", 2)[0].root
    monkeypatch.setenv(LAKE_VARIABLE, str(made))
    (held := made / ".snapshots" / "march" / "x.json").parent.mkdir(parents=True)
    held.write_text("ann-77")
    return made


def test_days_made_from_tables_that_are_no_more_are_rebuilt_and_a_failure_ends_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a source was renamed they are outdated, not stale, and no catch-up touches them."""
    lake = open_lake(root)
    pipeline = chosen_pipeline(lake)
    made = build(lake, pipeline, "training", {START: 3})
    gone = made.tags[PARAMETERS].replace('"labels"', '"labels_orders"')
    earlier = replace(
        made, code_digest="another", settings_digest="another", tags={PARAMETERS: gone}
    )
    make_commit(lake.tables / "training", 3, earlier)
    asked: list[Work] = []

    def fails(_known: KnownStates, request: Work) -> RunOutcome:
        asked.append(request)
        return RunOutcome("run", False, (), "it broke", 0.0)

    with (
        click.Context(click.Command("forget"), obj=Overrides(work=fails)),
        pytest.raises(click.exceptions.Exit),
    ):
        rebuild_after_forgetting(
            ForgetRequest(lake, pipeline, Trace({"entity": "ann-77"}), "asked for")
        )
    assert [(r.tables, r.days, r.reason) for r in asked] == [
        (("training",), DayRange(START, START + ONE_DAY), "forget")
    ]
    assert f"Error: training {START}: it broke" in capsys.readouterr().err
