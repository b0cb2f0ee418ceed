"""The names of the machinery's own tables: the one place that spells them.

Lives here: names, and how the name of a source lengthens them. Does not live here: their contracts (`lake.ledger`,
`lake.too_late`) and the names of a pipeline's tables, which its contracts alone spell: who needs one asks a contract
what it is made from.
"""

FILES = "files"  # what has landed
QUARANTINE = "quarantine"  # landed rows that could not become deliveries
ARRIVALS = "arrivals"  # which arrival day touches which event day; names the version that readers of a load pin
TOO_LATE = "too_late"  # deliveries kept back until they are released
BESIDE = (ARRIVALS, QUARANTINE, TOO_LATE)  # what a load writes for its arrival days besides the landed table


def named(table: str, source: str) -> str:
    """What a table is called that belongs to a source: where a lake has one source, which has no name, as it stands."""
    return f"{table}_{source}" if source else table
