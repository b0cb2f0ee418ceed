"""What `verify` costs on a healthy lake of 1,096 days: every log, byte and row held against the receipts.

    python -m backfill_assets_tests.benchmarks.verifying DIR

Lives here: three tables of 1,096 days, written without an engine, and the time of `verify`. Does not live here: harm
(`operations.test_verify`).
"""

import sys
import time
from datetime import date, timedelta
from pathlib import Path

from backfill_assets.operations.doctor_tables import Level
from backfill_assets.operations.verify import VerifyRequest, verify
from backfill_assets_tests.builders import CONTRACTS
from backfill_assets_tests.files import bare_lake, publish_by_hand

DAYS, ROWS = 1096, 50
START = date(2024, 1, 1)


def main(root: Path) -> None:
    """Make the lake, verify it deeply, and print one line."""
    lake, contracts = bare_lake(root), CONTRACTS[1:4]
    for contract in contracts:
        days = [START + timedelta(n) for n in range(DAYS)]
        rows = [{"entity": f"A{k}", "value": k, contract.day_column: d} for d in days for k in range(ROWS)]
        publish_by_hand(lake, contract, rows)
    began, cpu = time.monotonic(), time.process_time()
    found = verify(lake, contracts, VerifyRequest(deep=True))
    wrong = [d for d in found if d.level is not Level.OK]
    spent = f"{time.monotonic() - began:.1f} s, {time.process_time() - cpu:.1f} CPU s"
    print(f"{len(contracts)} tables x {DAYS} days x {ROWS} rows: {spent}, {len(wrong)} finding(s)")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
