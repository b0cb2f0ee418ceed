"""Spark's analysed plan, parsed from text into a tree of operators with the columns and calls in each line.

Not here: the rules (`unsteady`), and asking Spark (`load.steadiness`). A column is `name#12` there, an alias
`… AS name#13`, a call `name(…)`. A column may have the name of a call (`first(value)#40L`); the number that follows
tells them apart.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

COLUMN = re.compile(r"([A-Za-z_][\w.]*)#(\d+)L?")
RENAMED = re.compile(r"([A-Za-z_][\w.]*)#(\d+)L? AS [^#\[\]]*?#(\d+)L?")
CALL = re.compile(r"([A-Za-z_<][\w>]*)\(")
NUMBERED = re.compile(r"#\d+L?")
BRANCH = re.compile(r"^([\s:]*[:+]- )?(\S.*)$")
BEGIN, END = "== Analyzed Logical Plan ==\n", "\n== Optimized"


@dataclass
class Node:
    """An operator: its name, its line, and its inputs."""

    operator: str
    line: str
    children: list["Node"] = field(default_factory=list)

    def walk(self) -> Iterator["Node"]:
        """Yield the node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Call:
    """A call in a line: its name in small letters, its text, its arguments, and the text right after it.

    `within`: the names of the calls around it, the innermost last. `start`: its offset in the line.
    """

    name: str
    text: str
    arguments: str
    after: str
    within: tuple[str, ...]
    start: int = 0

    @property
    def is_numbered(self) -> bool:
        """Whether a column's number follows."""
        return NUMBERED.match(self.after) is not None


def parse_plan(explained: str) -> Node | None:
    """The root of the analysed plan in the text of `EXPLAIN EXTENDED`; None if there is none."""
    _, found, rest = explained.partition(BEGIN)
    lines = rest.partition(END)[0].splitlines()[1:] if found else []  # the first tells the columns' types
    root: Node | None = None
    path: list[tuple[int, Node]] = []
    for line in lines:
        match = BRANCH.match(line)
        if match is None:
            continue
        depth = len(match[1] or "")
        if depth == 0 and root is not None:
            path[-1][1].line += "\n" + line  # a text with a line break in it
            continue
        node = Node(re.split(r"[\s\[(]", match[2], maxsplit=1)[0], match[2])
        while path and path[-1][0] >= depth:
            path.pop()
        if path:
            path[-1][1].children.append(node)
        root = root or node
        path.append((depth, node))
    return root


def calls(line: str) -> Iterator[Call]:
    """Yield every call in a line, outer ones before inner ones; also columns with the name of a call."""
    open_calls: list[tuple[str, int]] = []  # name and where its brackets end
    for match in CALL.finditer(line):
        end = _closing(line, match.end() - 1)
        open_calls = [(n, e) for n, e in open_calls if e > match.start()]
        within = tuple(n for n, _ in open_calls)
        name = match[1].lower()
        yield Call(name, line[match.start() : end + 1], line[match.end() : end], line[end + 1 :], within, match.start())
        open_calls.append((name, end))


def brackets(line: str, which: int) -> str:
    """The text in the square brackets number `which` (from 0) of a line; empty if there are none."""
    at = 0
    for _ in range(which + 1):
        start = line.find("[", at)
        if start < 0:
            return ""
        at = _closing(line, start, "[", "]") + 1
    return line[start + 1 : at - 1]


def _closing(line: str, start: int, opens: str = "(", closes: str = ")") -> int:
    """The offset at which the bracket opened at `start` ends; the end of the line if it never does."""
    depth = 0
    for at in range(start, len(line)):
        depth += (line[at] == opens) - (line[at] == closes)
        if depth == 0:
            return at
    return len(line)


def outputs(node: Node) -> frozenset[str]:
    """The numbers of the columns that an operator gives."""
    below = frozenset[str]().union(*(outputs(child) for child in node.children))
    if node.operator in ("Project", "Aggregate") or not node.children:
        return _numbers(brackets(node.line, int(node.operator == "Aggregate")))
    if node.operator == "Union":
        return outputs(node.children[0])
    return below | (_numbers(brackets(node.line, 0)) if node.operator in ("Window", "Generate") else frozenset())


def _numbers(listed: str) -> frozenset[str]:
    """The number of each item: the last that it names."""
    return frozenset(found[-1] for item in items(listed) if (found := re.findall(r"#(\d+)", item)))


def items(listed: str) -> list[str]:
    """Split a list at its commas, except within brackets."""
    found, depth = [""], 0
    for sign in listed:
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            found.append("")
        else:
            found[-1] += sign
    return found


@dataclass(frozen=True)
class PlanColumns:
    """The original names of columns: renaming does not make another column."""

    origin: dict[str, str]
    first: dict[str, str]

    def of(self, text: str) -> frozenset[str]:
        """The names of the columns in a text, both there and at their origin."""
        found = COLUMN.findall(text)
        return frozenset(n for n, _ in found) | {self.first.get(self._root(i), n) for n, i in found}

    def _root(self, number: str) -> str:
        seen: set[str] = set()
        while number in self.origin and number not in seen:
            seen.add(number)
            number = self.origin[number]
        return number


def names_in(root: Node) -> PlanColumns:
    """The columns of a plan by their numbers."""
    origin: dict[str, str] = {}
    first: dict[str, str] = {}
    for node in root.walk():
        origin |= {new: old for _, old, new in RENAMED.findall(node.line) if new != old}
        first |= {number: name for name, number in COLUMN.findall(node.line)}
    return PlanColumns(origin, first)
