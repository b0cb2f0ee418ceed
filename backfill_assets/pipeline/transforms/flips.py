"""How many labels that were mature a write changes, per day: for people who learn from them.

Lives here: the query of the embedded engine over queries for the rows before and after, for any entity. Does not live
here: making labels (`labels`, `outcomes`), and what late deliveries turned over all days (`operations.label_flips`).
"""

from collections.abc import Sequence


def flips(before: str, after: str, entity: Sequence[str]) -> str:
    """Per day how many labels that were mature have another value, or are gone: `label_date`, `label_flips`."""
    names = ['"' + column.replace('"', '""') + '"' for column in ("label_date", *entity)]
    same = " AND ".join(f"before.{n} = after.{n}" for n in names)
    return (
        "SELECT before.label_date, count(*) FILTER (before.label IS DISTINCT FROM after.label) AS label_flips "
        f"FROM ({before}) AS before LEFT JOIN ({after}) AS after ON {same} "
        "WHERE before.label_state = 'mature' GROUP BY 1"
    )
