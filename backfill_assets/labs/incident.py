"""Lab `incident`: a backfill by append doubles three years, the job is green; a control and the states tell.

Not here: the alert that the control becomes (`orchestration.control_checks`).
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from backfill_assets.labs.lakes import append, events, first_events, make_lake, replace_by_day
from backfill_assets.labs.model import LabStep
from backfill_assets.lake.home import open_lake
from backfill_assets.operations.controls import judge_controls
from backfill_assets.pipeline.chosen import chosen_pipeline

FIRST, EVENTS, DAYS_APART = datetime(2021, 1, 1, 12, tzinfo=UTC), 36, 30
CONTROL = """
[controls.events_a_year]
query = "SELECT date_trunc('year', event_date) AS month, count(*) AS value FROM {table} GROUP BY 1"
expected = "known.csv"
grain = "month"
"""


def steps(folder: Path) -> Iterator[LabStep]:
    """Write three years, append them again as the job did, then replace them by the product's own writer."""
    lake = make_lake(folder, date(2021, 1, 1))
    contract = first_events(lake)
    with (folder / "lake.toml").open("a", encoding="utf-8") as file:
        file.write(CONTROL.format(table=contract.name))
    lake, rows = open_lake(folder), events((FIRST + timedelta(days=DAYS_APART * n), 1) for n in range(EVENTS))
    years = [r["event_date"].year for r in rows]
    known = "".join(f"{year}-01,{years.count(year)}\n" for year in sorted({*years}))
    (folder / "known.csv").write_text(f"month,value\n{known}", encoding="utf-8")

    def look() -> tuple[int, str, int]:
        """Events now, the control's outcome, and days that another program changed."""
        (control,) = judge_controls(lake, chosen_pipeline(lake))
        foreign = lake.store.view(contract.name, contract.day_column).foreign
        return len(lake.store.rows(contract.name)), control.told, len(foreign)

    seen = {}
    for moment, write in (("three years", replace_by_day), ("replaced again", replace_by_day), ("appended", append)):
        write(lake, contract, rows)
        seen[moment] = look()
    table = [(moment, *found) for moment, found in seen.items()]
    yield LabStep("Three years, written three times", "Each job ended with success, and raised no alert of its own.",
                  ("after", "events", "control", "days changed by others"), table)  # fmt: skip
    yield LabStep("Replaced", form="events after a second backfill that replaces", expected=EVENTS,
                  found=seen["replaced again"][0])  # fmt: skip
    yield LabStep("Appended", "The control names the years; `plan --write-mode append` is refused.",
                  form="events after a backfill by append", expected=EVENTS, found=seen["appended"][0])  # fmt: skip
