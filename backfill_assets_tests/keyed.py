"""A lake of two tables as plain values: `orders`, whose days have a number each, and `total`, made
from keys of it. Here: corrections, writes as the IO manager signs them, and what is right. Not
here: tests, and Dagster's mappings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from backfill_assets.kernel.core.calendars import DAILY, Calendar
from backfill_assets.kernel.core.contracts import Column, Contract, Input
from backfill_assets.kernel.core.keys import Keys, days_by_keys
from backfill_assets.kernel.core.readings import parse_parameters, todays_parameters
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.states import Codes, States
from backfill_assets.kernel.core.view import DayReceipt, LakeView, TableView

COLUMNS = (Column("day", "DATE", ""), Column("n", "BIGINT", ""))
CODES = Codes("code", "settings")
ORDERS = Contract("orders", "", COLUMNS, "day", (), (), made_by="orders")


@dataclass
class KeyedLake:
    """The receipts of both tables, and the numbers that each day of `total` was made from."""

    orders: dict[date, DayReceipt] = field(default_factory=dict)
    totals: dict[date, DayReceipt] = field(default_factory=dict)
    made_from: dict[date, dict[date, int]] = field(default_factory=dict)
    keys: dict[date, Keys] = field(default_factory=dict)
    calendar: Calendar = DAILY  # of `total`

    def correct(self, at: date, value: int) -> None:
        """Give a day of `orders` another number; 0: no rows."""
        entry = DayEntry(int(value > 0), str(value), "")
        self.orders[at] = DayReceipt(entry, 0, "", "code", "settings", "")

    def values(self, days: list[date]) -> dict[date, int]:
        """The numbers of these days now, of those with rows."""
        found = ((d, self.orders[d].entry) for d in days if d in self.orders)
        return {d: int(entry.fingerprint) for d, entry in found if entry.rows}

    def states(self, wanted: Input, **made: Any) -> States:
        """The states of today, or of a write that is made from `wanted`."""
        contracts = [
            ORDERS,
            Contract(
                "total",
                "",
                COLUMNS,
                "day",
                (),
                (wanted,),
                made_by="total",
                calendar=self.calendar,
                **made,
            ),
        ]
        tables = {"orders": TableView(0, self.orders), "total": TableView(0, self.totals)}
        view = LakeView(date(2000, 1, 1), None, timedelta(), tables, {})
        return States(contracts, view, {"orders": CODES, "total": CODES})

    def make(
        self, wanted: Input, loaded: Mapping[date, list[date]], *, unpinned: tuple[str, ...] = ()
    ) -> None:
        """Make days of `total` in one commit from the `loaded` days, as the IO manager signs it."""
        now = self.states(wanted, is_being_made=True, unpinned=unpinned)
        text = todays_parameters(now.contracts["total"], now.view).to_json()
        assert parse_parameters(text) == todays_parameters(now.contracts["total"], now.view)
        for at, days in loaded.items():
            self.made_from[at] = self.values(days)
            entry = DayEntry(1, "", now.digests.of("total", at), now.built_as("total", at))
            self.totals[at] = DayReceipt(entry, 0, "", "code", "settings", "", parameters=text)

    def make_by_keys(
        self, window: Input, keys: Mapping[date, Keys], *, unpinned: tuple[str, ...] = ()
    ) -> None:
        """Make days of `total` from keys that are others than the window's."""
        self.keys |= keys
        wanted = replace(window, keys=days_by_keys(keys))
        self.make(wanted, {at: own.loaded_for(at) for at, own in keys.items()}, unpinned=unpinned)
