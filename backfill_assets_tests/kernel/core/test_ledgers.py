"""The names of the machinery's tables are those that its contracts have.

Tested here: `kernel.core.ledgers`. Not tested here: that nobody else spells them
(`test_architecture`).
"""

from backfill_assets.intake.ledger import ARRIVALS, FILES, QUARANTINE
from backfill_assets.kernel.core import ledgers


def test_contracts_are_called_what_the_names_say() -> None:
    assert (ARRIVALS.name, FILES.name, QUARANTINE.name) == (
        ledgers.ARRIVALS,
        ledgers.FILES,
        ledgers.QUARANTINE,
    )


def test_what_a_load_writes_besides_the_landed_table_is_every_ledger_but_the_account_of_files() -> (
    None
):
    assert set(ledgers.LOAD_LEDGERS) == {ledgers.ARRIVALS, ledgers.QUARANTINE, ledgers.TOO_LATE}
