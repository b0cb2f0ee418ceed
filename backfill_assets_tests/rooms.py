"""Draws the rooms of the package and who imports whom, from the imports: `python -m backfill_assets_tests.rooms`.

Lives here: a mermaid drawing with each room's share of the code, for notes. Does not live here: which arrows are
allowed (`pyproject.toml`). An arrow that others already lead along is left out, so that the floors can be seen.
"""

from collections import Counter

from backfill_assets_tests.sources import PACKAGE, sources

Arrows = Counter[tuple[str, str]]


def arrows() -> Arrows:
    """How often a file of one room imports another room, at any depth and for type checkers too."""
    found: Arrows = Counter()
    for source in sources(PACKAGE):
        rooms = {i.module.split(".")[1] for i in source.imports if i.module.startswith(f"{PACKAGE}.")}
        found.update((source.room, room) for room in rooms if source.room not in ("", room))
    return found


def direct(found: Arrows) -> Arrows:
    """The arrows without those that a way over another room already shows; there is no circle among rooms."""
    leads: dict[str, set[str]] = {room: set() for arrow in found for room in arrow}
    for above, below in found:
        leads[above].add(below)
    over = {(a, c) for a, rooms in leads.items() for b in rooms for c in _below(leads, b)}
    return Counter({arrow: times for arrow, times in found.items() if arrow not in over})


def _below(leads: dict[str, set[str]], room: str) -> set[str]:
    return leads[room].union(*(_below(leads, lower) for lower in leads[room]))


def drawing() -> str:
    """The rooms as mermaid: each with its lines and share, each arrow with how many files import along it."""
    lines = Counter[str]()
    for source in sources(PACKAGE):
        lines[source.room] += source.text.count("\n")
    told = [
        f'  {room}["{room}<br>{n} lines, {n / lines.total():.0%}"]'
        for room, n in lines.most_common()
        if room and n > 50
    ]
    told += [f"  {above} -->|{files}| {below}" for (above, below), files in sorted(direct(arrows()).items())]
    return "\n".join(["flowchart TD", *told])


if __name__ == "__main__":
    print(drawing())
