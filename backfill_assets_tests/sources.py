"""The project's own source files, parsed, for the tests that hold the house to its rules. Here:
listing files and answering questions about their syntax trees, standard library only. Not here: the
rules themselves (`test_architecture.py`, `test_house.py`). Nothing is imported, so nothing can
start."""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = "backfill_assets"
TESTS = "backfill_assets_tests"
# Rooms that no other room imports: `.ci/without.py` tries that the house stands without them.
CAN_BE_LEFT_OUT = frozenset(
    {
        "agent",
        "assets",
        "buckets",
        "candidates",
        "closing",
        "compare",
        "erasure",
        "export",
        "foreign",
        "iceberg",
        "learn",
        "plans",
        "reconcile",
        "reports",
        "upkeep",
    }
)

SIGN = re.compile(r'(?:#.*\n|\s)*r?"""(.*?)"""', re.DOTALL)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
Node = TypeVar("Node", bound=ast.AST)


class Import(NamedTuple):
    """One imported module, absolute, and where: `from a import b` gives `a` and `a.b`, since `b`
    may be a module."""

    module: str
    line: int


@dataclass(frozen=True)
class Source:
    """A Python file: its place in the checkout and its text; parsed where a rule asks for more than
    these."""

    place: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def sign(self) -> str:
        """The module's docstring, found without parsing; empty where there is none."""
        found = SIGN.match(self.text)
        return found[1] if found else ""

    @property
    def module(self) -> str:
        """The dotted name it is imported by."""
        return self.place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def room(self) -> str:
        """The package's folder or file it belongs to, such as `plans`, `kernel/core` or
        `definitions`; empty for the package itself."""
        parts = self.module.split(".")[1:]
        return "/".join(parts[:2]) if parts[:1] == ["kernel"] else "".join(parts[:1])

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree, at any depth, in the order of `ast.walk`, in half of its time."""
        found: list[ast.AST] = [self.tree]
        for node in found:  # it grows
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, ast.AST):
                    found.append(value)
                elif isinstance(value, list):
                    found += [v for v in value if isinstance(v, ast.AST)]
        return tuple(found)

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        kinds = defaultdict[type[ast.AST], list[ast.AST]](list)
        for node in self.nodes:
            kinds[type(node)].append(node)
        return dict(kinds)

    def of(self, *kinds: type[Node]) -> Iterator[Node]:
        """The nodes of these kinds, kind by kind: rules look for few of a million nodes."""
        return (cast("Node", node) for kind in kinds for node in self._by_kind.get(kind, ()))

    @cached_property
    def texts(self) -> tuple[ast.Constant, ...]:
        """Every text between quotes, those of f-strings too."""
        return tuple(n for n in self.of(ast.Constant) if isinstance(n.value, str))

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Every import in the file, at any depth, those for type checkers too."""
        return tuple(self._every_import())

    def _every_import(self) -> Iterator[Import]:
        for plain in self.of(ast.Import):
            yield from (Import(alias.name, plain.lineno) for alias in plain.names)
        for node in self.of(ast.ImportFrom):
            base = self._absolute(node)
            yield Import(base, node.lineno)
            yield from (Import(f"{base}.{alias.name}", node.lineno) for alias in node.names)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.place.removesuffix(".py").split("/")[: -node.level]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def functions(self) -> Iterator[Function]:
        """Every function and method, at any depth."""
        yield from self.of(ast.FunctionDef)
        yield from self.of(ast.AsyncFunctionDef)

    def public_definitions(self) -> Iterator[Definition]:
        """Classes, functions and methods that others may name: not underscored, not nested in a
        function."""
        pending: list[ast.Module | ast.ClassDef] = [self.tree]
        while pending:
            for node in pending.pop().body:
                if (
                    isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                    and node.name[0] != "_"
                ):
                    yield node
                    if isinstance(node, ast.ClassDef):
                        pending.append(node)


@cache
def sources(*folders: str) -> tuple[Source, ...]:
    """All Python files under some folders of the checkout, in order."""
    return tuple(
        sorted((f for folder in folders for f in _parsed(folder)), key=lambda f: Path(f.place))
    )


@cache
def _parsed(folder: str) -> tuple[Source, ...]:
    """The files of one folder: whichever folders a rule looks at, each file is read, and parsed,
    once."""
    paths = (CHECKOUT / folder).rglob("*.py")
    return tuple(
        Source(path.relative_to(CHECKOUT).as_posix(), path.read_text(encoding="utf-8"))
        for path in paths
    )


def typed_names(door: str) -> set[str]:
    """The names that a public door, a folder of the package ("": the package itself), shows to type
    checkers."""
    tree = ast.parse((CHECKOUT / PACKAGE / door / "__init__.pyi").read_text("utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in found for alias in node.names}


@cache
def tracked_files() -> tuple[str, ...]:
    """What a commit of everything here would hold; skips the test where there is no git or no
    checkout of it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no git here, so nobody can say which files are the project's")
    if listed.returncode or not (CHECKOUT / ".git").exists():
        pytest.skip("this is no git checkout, so nobody can say which files are the project's")
    return tuple(f for f in listed.stdout.split("\0") if f and (CHECKOUT / f).is_file())


def body_lines(function: Function) -> int:
    """Lines from the first statement after the docstring to the last, comments and blank lines
    between included."""
    body = (
        function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    )
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
