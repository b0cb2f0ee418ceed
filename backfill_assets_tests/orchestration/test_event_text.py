"""The text of an event is sign for sign what Dagster writes, whatever events share and whatever is in them.

Tested here: `orchestration.event_text`. Not tested here: storing (`quick_events`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.orchestration.event_text import EventTexts

pytestmark = pytest.mark.usefixtures("processes", "storages")
AWKWARD = 'Größe "x" \\u0001 \x01own\x01 \u2028 {} \n'


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dg.EventLogEntry]]:
    """All events of a run that materializes two days and checks them, one of its two steps fails."""

    @dg.op
    def made(context: dg.OpExecutionContext) -> None:
        """Events of days, with metadata of many kinds."""
        for day in ("2024-03-01", "2024-03-02", "2024-03-03"):
            facts: dict[str, Any] = {
                "text": AWKWARD, "rows": 3, "share": 0.1, "none": None, "md": dg.MetadataValue.md(f"*{day}*"),
                "json": {"a": [1, AWKWARD]}, "run": dg.MetadataValue.dagster_run("r"),
            }  # fmt: skip
            context.log_event(dg.AssetMaterialization("a", AWKWARD, facts, day, {"tag": day}))
            context.log_event(dg.AssetObservation("a", metadata=facts, partition=day))

    @dg.op
    def broken(context: dg.OpExecutionContext) -> None:
        """Fails with an awkward word."""
        context.log.info(AWKWARD)
        raise ValueError(AWKWARD)

    @dg.job
    def both() -> None:
        """Both steps."""
        made()
        broken()

    home: Path = tmp_path_factory.mktemp("home")
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        run = both.execute_in_process(instance=instance, raise_on_error=False)
        yield [r.event_log_entry for r in instance.get_records_for_run(run.run_id).records]


def test_every_kind_of_event_has_the_text_that_dagster_writes(entries: list[dg.EventLogEntry]) -> None:
    texts = EventTexts()
    kinds = {e.dagster_event_type for e in entries}
    assert {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.STEP_FAILURE, None} <= kinds
    assert [texts.text(e) for e in entries] == [dg.serialize_value(e) for e in entries]


def test_what_changes_from_one_event_to_the_next_is_told(entries: list[dg.EventLogEntry]) -> None:
    texts = EventTexts()
    first = next(e for e in entries if e.dagster_event_type is dg.DagsterEventType.ASSET_MATERIALIZATION)
    for change in ({"run_id": "another"}, {"level": 40}, {"step_key": None}, {"timestamp": 1.5}, {"job_name": "j"}):
        texts.text(first)
        changed = first._replace(**change)
        assert texts.text(changed) == dg.serialize_value(changed) != dg.serialize_value(first)
