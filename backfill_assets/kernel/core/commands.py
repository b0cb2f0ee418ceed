"""Commands as errors, checks and Dagster's pages print them: the words of a command that looks at
a day, or makes days again.

Not here: the lake that a command names where one stands elsewhere
(`dagster.adapter.printed_commands`), running commands (`cli`), and when an error gives which
advice.
"""

from collections.abc import Collection
from datetime import date

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import contiguous_ranges, days_text


def show_command(table: str, day: date) -> str:
    """The command that prints the receipt, inputs and history of a day of a table, and why it is in
    its state now."""
    return f"backfill-assets show {table} {day}"


def backfill_command(table: str, days: Collection[date]) -> str:
    """The command that makes exactly these days of a table."""
    span = f"--days {days_text(days)}"
    if len(contiguous_ranges(days)) == 1:
        span = f"--from {min(days)} --to {max(days)}"
    return f"backfill-assets backfill {span} --tables {table}"


def making_advice(contract: Contract, days: Collection[date], *, can_run: bool) -> str:
    """What a person does to make these days of a table (again), as an advice in the imperative.
    `can_run`: whether the lake names the definitions of the project whose assets return rows, so
    that a command can run them."""
    if contract.made_by and not can_run:
        return materializing_advice(contract.made_by, days)
    return f"`{backfill_command(contract.name, days)}`"


def mending_advice(
    contract: Contract, culprit: date, days: Collection[date], *, is_known: bool, can_run: bool
) -> str:
    """What a person does about the refused day `culprit`, with which `days` stayed as they were.
    `is_known`: whether the table has any commit; a command knows no table of an asset before.
    `can_run`: as of `making_advice`."""
    mend = f"Correct the input or the rule, then {making_advice(contract, days, can_run=can_run)}"
    if contract.made_by and not is_known:
        return mend
    return f"Look with `{show_command(contract.name, culprit)}`. {mend}"


def materializing_advice(asset: str, days: Collection[date]) -> str:
    """How a person makes days of an asset that Dagster alone can run, with the days as Dagster's
    dialog takes them."""
    spans = ", ".join(str(span).replace("..", "...") for span in contiguous_ranges(days))
    return f"materialize the asset {asset} for {spans}"
