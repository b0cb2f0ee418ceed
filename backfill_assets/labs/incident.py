"""Lab `incident`: a backfill by append doubles three years, the job is green; a control and the states tell.

Not here: the alert that the control becomes (`orchestration.proofs`).
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backfill_assets.labs.lakes import append, events, first_events, make_lake, replace_by_day, with_control
from backfill_assets.labs.model import LabStep
from backfill_assets.operations.reconcile import judge_controls
from backfill_assets.pipeline.chosen import chosen_pipeline

FIRST, EVENTS, DAYS_APART = datetime(2021, 1, 1, 12, tzinfo=UTC), 36, 30
ROWS = events((FIRST + timedelta(days=DAYS_APART * n), 1) for n in range(EVENTS))
BY_YEAR = "SELECT date_trunc('year', event_date) AS month, count(*) AS value FROM {} GROUP BY 1"


def steps(folder: Path) -> Iterator[LabStep]:
    """Write three years, replace them by the product's own writer, then append them as the job did."""
    lake = make_lake(folder, FIRST.date())
    table, known = first_events(lake), Counter(f"{row['event_date']:%Y-01}" for row in ROWS)
    lake = with_control(lake, "events_a_year", BY_YEAR, "month", dict(known))
    seen = []
    for run, write in (("first run", replace_by_day), ("replaced again", replace_by_day), ("appended", append)):
        write(lake, table, ROWS)
        (control,) = judge_controls(lake, chosen_pipeline(lake))
        foreign = lake.store.view(table.name, table.day_column).foreign
        seen.append((run, len(lake.store.rows(table.name)), control.message, len(foreign)))
    columns = ("run", "events", "control", "days changed by others")
    yield LabStep(
        "Three years, three times", "Each job ended with success and raised no alert of its own.", columns, seen
    )
    yield LabStep("Replaced", "", form="events after a backfill that replaces", expected=EVENTS, found=seen[1][1])
    text = "The control names the years; `plan --write-mode append` is refused."
    yield LabStep("Appended", text, form="events after a backfill by append", expected=EVENTS, found=seen[2][1])
