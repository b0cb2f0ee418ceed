"""Whether the rows of a table are those that its receipts say, by reading every row.

Lives here: the comparison of fingerprints. Does not live here: telling it (`cli.deep`, `snapshots`), and the
fingerprint (`lake.fingerprints`). Needs no JVM.
"""

from collections.abc import Mapping
from datetime import date

from backfill_assets.core.contracts import Contract
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.receipts import DayEntry
from backfill_assets.lake.audit import audit_as_written
from backfill_assets.lake.home import Lake


def differing_days(
    lake: Lake, contract: Contract, entries: Mapping[date, DayEntry], found: Mapping[date | None, DayProfile]
) -> list[date]:
    """The days whose rows (`found`: their profiles) are not those of their receipts (`entries`), ascending."""
    days = {*entries, *(d for d in found if d is not None)}
    wrong = [d for d in days if d not in entries or not entries[d].agrees_with(found.get(d, DayProfile()))]
    if wrong:  # perhaps made under a contract of other columns
        then = audit_as_written(lake, contract, wrong)
        wrong = [d for d in wrong if d not in entries or not entries[d].agrees_with(then.get(d, DayProfile()))]
    return sorted(wrong)
