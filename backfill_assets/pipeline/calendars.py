"""Weeks, months, quarters, years, days without some: `every` and `without` of `[tables.NAME]` in
`lake.toml`, given to the contracts of own tables and of tables that others write.

Not here: calendars themselves (`kernel.core.calendars`), and those that a project's assets bring
(`assets.contracts`).
"""

from collections.abc import Sequence
from dataclasses import replace

from backfill_assets.kernel.core.contracts import InputKind
from backfill_assets.kernel.core.errors import SettingsError, refuse_unknown_names
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Table


def with_calendars(tables: Sequence[Table], settings: LakeSettings) -> list[Table]:
    """The tables with the partitions that `lake.toml` declares for them, from the first one that
    begins on the lake's first day, or after it. Raises UnknownName for a
    table that is not among them, SettingsError for one that has days by what it is made from."""
    declared = {name: section.calendar for name, section in settings.tables.items()}
    named = [name for name, calendar in declared.items() if calendar is not None]
    refuse_unknown_names("table", named, [table.name for table in tables], "Nothing was done")
    found = list[Table]()
    for table in tables:
        calendar = declared.get(table.name) or table.contract.calendar
        is_of_asset = table.name not in named and table.contract.is_given
        if calendar.is_daily or is_of_asset:
            found.append(table)
            continue
        _refuse_daily_only(table)
        contract = replace(table.contract, calendar=calendar)
        if not contract.external:
            contract = replace(contract, first_day=calendar.first_from(settings.start_date))
        found.append(replace(table, contract=contract))
    return found


def _refuse_daily_only(table: Table) -> None:
    """Raise SettingsError for a table whose days are decided by more than days of other tables:
    deliveries, cuts, a horizon."""
    where, made_by = f"[tables.{table.name}] every in lake.toml", table.contract.made_by
    if made_by:
        raise SettingsError(
            where,
            f"the asset {made_by} says itself which partitions this table has: every "
            f"{table.contract.calendar}",
            "Nothing was done",
            "Leave it out here. An asset of other partitions (every=… of daily_table, or its "
            "partitions_def) needs another name than one that has rows",
        )
    reason, fix = "", "Make a table of your own from it, and name that"
    if not (table.brings_code or table.contract.external):
        reason = "it is a table of this package"
    for wanted in table.contract.inputs:
        if wanted.kind is InputKind.KNOWN_AT_CUT:
            reason = (
                f"it reads {wanted.table} as it was known at the midnight after a day (as_known), "
                "of which a month has many"
            )
            fix = "Read so in a table of days, and make this one from that"
        elif wanted.kind is not InputKind.CONTENT:
            reason = f"it reads {wanted.table} by deliveries, which have days"
    if reason:
        raise SettingsError(where, f"its partitions are days: {reason}", "Nothing was done", fix)
