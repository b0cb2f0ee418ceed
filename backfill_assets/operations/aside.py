"""What loads put beside raw: rows in quarantine, rows that came too late, and the ledger of arrivals, in numbers.

Lives here: counting them by receipts, and the newest reasons. Does not live here: one day's reasons (`show`) and who
records it in Dagster (`orchestration.ledgers`). No JVM; of quarantined rows only the newest days are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.core.contracts import Contract
from backfill_assets.core.view import TableView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import ARRIVALS, QUARANTINE, of_source, read_arrivals
from backfill_assets.lake.too_late import contract_of, waiting

NEWEST_DAYS = 7  # a week of arrivals shows what is wrong now
MOST_REASONS = 10
REASON_CHARS = 160


@dataclass(frozen=True)
class Reason:
    """Why rows are in quarantine: how many of the newest days, and the newest day that has one."""

    text: str
    rows: int
    newest: date


@dataclass(frozen=True)
class SetAside:
    """One of these tables as it stands. `newest` is the newest arrival day with rows; `counts` are further numbers."""

    contract: Contract
    version: int
    rows: int
    newest: date | None
    counts: Mapping[str, int] = field(default_factory=dict)
    reasons: Sequence[Reason] = ()


def contracts_beside(raw: Contract) -> tuple[Contract, ...]:
    """The contracts of the tables that a load of `raw` writes beside it."""
    return (of_source(QUARANTINE, raw.source), contract_of(raw), of_source(ARRIVALS, raw.source))


def set_aside(lake: Lake, raw: Contract, known: Mapping[str, int] | None = None) -> list[SetAside]:
    """All three; left out are those that were never written, or are of the version that is `known` already."""
    own, told = lake.of_source(raw.source), []
    for contract, count in zip(contracts_beside(raw), (_quarantine, _too_late, _arrivals), strict=True):
        version = lake.store.view(contract.name, contract.day_column).version
        if version >= 0 and version != (known or {}).get(contract.name):
            told.append(count(own, contract))
    return told


def _quarantine(lake: Lake, contract: Contract) -> SetAside:
    view = lake.store.view(contract.name, contract.day_column)
    days = _with_rows(view)
    reasons = newest_reasons(lake, (contract.name, view.version), days) if days else ()
    return SetAside(contract, view.version, _rows(view), days[-1] if days else None, {"days": len(days)}, reasons)


def newest_reasons(lake: Lake, table: tuple[str, int], days: Iterable[date]) -> Sequence[Reason]:
    """Why rows are in a quarantine (name and version), of the newest of these arrival days, the newest reason first."""
    listed = ", ".join(f"DATE '{d}'" for d in sorted(days)[-NEWEST_DAYS:])
    asked = (
        f"SELECT substr(reason, 1, {REASON_CHARS}) AS text, count(*) AS n, max(arrival_date) AS newest FROM q "
        f"WHERE arrival_date IN ({listed}) GROUP BY 1 ORDER BY 3 DESC, 2 DESC, 1 LIMIT {MOST_REASONS}"
    )
    found = []
    for batch in lake.store.query(asked, {"q": table}):
        columns = [batch.column(i).to_pylist() for i in range(3)]
        found += [Reason(text, int(n), newest) for text, n, newest in zip(*columns, strict=True)]
    return found


def _too_late(lake: Lake, contract: Contract) -> SetAside:
    view = lake.store.view(contract.name, contract.day_column)
    days = _with_rows(view)
    still = sum(waiting(lake, date.min, date.max).values()) if days else 0
    return SetAside(contract, view.version, _rows(view), days[-1] if days else None, {"waiting_rows": still})


def _arrivals(lake: Lake, contract: Contract) -> SetAside:
    version = lake.store.view(contract.name, contract.day_column).version
    known = read_arrivals(lake.store, version, lake.source) if version >= 0 else {}
    newest = max((a for arrived in known.values() for a, _ in arrived), default=None)
    touched = sum(any(a == newest for a, _ in arrived) for arrived in known.values())
    rows = sum(len(arrived) for arrived in known.values())
    return SetAside(contract, version, rows, newest, {"event_days_of_the_newest": touched})


def _with_rows(view: TableView) -> list[date]:
    return sorted(d for d, s in view.stamps.items() if s.entry.rows)


def _rows(view: TableView) -> int:
    return sum(s.entry.rows for s in view.stamps.values())
