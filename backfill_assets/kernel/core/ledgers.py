"""The names of the ledgers, spelled here only, and how the name of a source lengthens a table's
name.

Not here: their contracts (`intake.ledger`), and names of a pipeline's tables, which its contracts
spell.
"""

FILES = "files"  # what has landed
QUARANTINE = "quarantine"  # landed rows that could not become deliveries
# Which arrival day touches which event day; names the version that readers of a load pin.
ARRIVALS = "arrivals"
TOO_LATE = "too_late"  # deliveries kept back until they are released
# What a load writes for its arrival days besides the landed table.
LOAD_LEDGERS = (
    ARRIVALS,
    QUARANTINE,
    TOO_LATE,
)


def source_table_name(table: str, source: str) -> str:
    """The name of a source's table: `table` and the source's name; just `table` for a source
    without a name."""
    if source:
        return f"{table}_{source}"
    return table
