"""Lab `load`: the same three days written twice by append and by replacing each day; the totals tell which is safe.

Not here: the incident that this mistake becomes (`incident`).
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.labs.lakes import Row, append, make_lake, replace_by_day
from backfill_assets.labs.model import LabStep
from backfill_assets.lake.home import Lake

FIRST = date(2024, 3, 1)
COLUMNS = (
    Column("order_id", "STRING", "the order"),
    Column("amount", "BIGINT", "its amount"),
    Column("day", "DATE", "the day of the order"),
)
BY_APPEND = Contract("orders_by_append", "Orders.", COLUMNS, "day", ("order_id",), ())
BY_DAY = Contract("orders_by_day", "Orders.", COLUMNS, "day", ("order_id",), ())


def totals(lake: Lake, contract: Contract) -> dict[str, int]:
    """The amount of every day of a table, ascending, and `all` of them."""
    found: dict[str, int] = {}
    for row in sorted(lake.store.rows(contract.name), key=lambda r: str(r["day"])):
        found[str(row["day"])] = found.get(str(row["day"]), 0) + int(row["amount"])
    return {**found, "all": sum(found.values())}


def steps(folder: Path) -> Iterator[LabStep]:
    """Load three days by each strategy, again after a run that died half-way, and compare with the source."""
    lake = make_lake(folder, FIRST)
    noon = datetime(2024, 3, 1, 12, tzinfo=UTC)
    moments = [noon + timedelta(days=n // 2) for n in range(6)]
    rows: list[Row] = [
        {"order_id": f"o{n}", "amount": 100 + 10 * n, "day": moment.date()} for n, moment in enumerate(moments)
    ]
    right = sum(int(r["amount"]) for r in rows)
    yield LabStep("The source", "Six orders of three days.", ("day", "order", "amount"),
                  [(r["day"], r["order_id"], r["amount"]) for r in rows])  # fmt: skip
    runs = {"first run": rows, "run that died after one day": rows[:2], "the same run again": rows}
    for form, contract, write in (
        ("append", BY_APPEND, append),
        ("replace each day", BY_DAY, replace_by_day),
    ):
        seen = {}
        for run, written in runs.items():
            write(lake, contract, written)
            seen[run] = totals(lake, contract)
        yield LabStep(
            f"Strategy: {form}",
            "Totals after each run. The orders of the source did not change.",
            ("after the", *seen["first run"]), [(run, *found.values()) for run, found in seen.items()],
            form, right, seen["the same run again"]["all"],
        )  # fmt: skip
    commits = len([c for c in lake.store.commits(BY_DAY.name) if c.receipt])
    yield LabStep("What replacing did", f"{commits} commit(s) with a receipt for three runs: a run whose days hold "
                  "these rows already commits nothing, so that readers and later tables are left alone.")  # fmt: skip
