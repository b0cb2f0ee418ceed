"""What changed between the columns that a table has and those of its contract, in words.

Lives here: the comparison. Does not live here: bringing a table up to its contract (`lake.evolution`), which days are
`outdated` by it (`core.states`), and the grid (`status`).
"""

from collections.abc import Mapping

from backfill_assets.core.contracts import Contract

STUCK = "cannot be written: "  # how a change begins that nothing but a table made anew can follow


def column_changes(contract: Contract, there: Mapping[str, str]) -> tuple[str, ...]:
    """What a table with these columns (name -> type; none: it is not made yet) gets and loses when it is made again,
    and the columns whose type stands in the way of that."""
    wanted = {c.name: c.type for c in contract.columns}
    if not there:
        return ()
    gets = [f"gets {name} {kind}" for name, kind in wanted.items() if name not in there]
    loses = [f"loses {name}" for name in there if name not in wanted]
    other = [
        f"{STUCK}{name} is {there[name]}, not {kind}"
        for name, kind in wanted.items()
        if name in there and there[name] != kind
    ]
    return (*gets, *loses, *other)
