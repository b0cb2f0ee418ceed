"""Files that are code of a table: their loaded bytes, digests that a layout does not change, named
inputs.

Not here: the choice of files (`kernel.write.model`, `pipeline.chosen`) and loading them
(`pipeline.own_files`). It needs the standard library and `kernel.core` only, so that a test runs it
under several Pythons.
"""

import ast
import contextlib
import io
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError

DISTRIBUTION = "backfill-assets"
START_AGAIN = (
    "Start the command again (in Dagster reload the code location, in a notebook restart the "
    "kernel)"
)
# Receipts and pins of plans name their versions.
LIBRARIES = ("delta-spark", "deltalake", "duckdb", "pyarrow", "pysail", "pyspark", "sqlglot")


@dataclass(frozen=True)
class SourceFile:
    """A file of a table's code with its loaded `content`; `named_input` is its name in
    `Table.code_inputs`, or ""."""

    path: Path
    content: bytes = field(repr=False)
    named_input: str = ""

    @classmethod
    def read(cls, path: Path) -> "SourceFile":
        """Read the file. Raises OSError."""
        return cls(path, path.read_bytes())

    @property
    def has_moved(self) -> bool:
        """Whether the file no longer has the loaded content."""
        try:
            return self.path.read_bytes() != self.content
        except OSError:
            return True

    @property
    def text(self) -> str:
        """The content with line feeds. Raises UnicodeDecodeError."""
        return io.StringIO(self.content.decode("utf-8"), newline=None).read()

    @property
    def digest(self) -> str:
        """The digest of the content; for Python and SQL without comments and layout."""
        if self.named_input:
            return f"{self.named_input} {sha256(self.content).hexdigest()}"
        return python_digest(self.content) if self.path.suffix == ".py" else _sql_digest(self.text)


@lru_cache(maxsize=256)
def _sql_digest(text: str) -> str:
    import sqlglot

    tokens = sqlglot.tokenize(text, read="spark")
    return digest_of([[token.token_type.name, token.text] for token in tokens])


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of the installed packages among these, by name."""
    versions = {}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


@cache
def first_package_version() -> dict[str, str]:
    """The version of this package when the process made its first pipeline; transforms are imported
    later."""
    return installed_versions((DISTRIBUTION,))


def refuse_moved_files(table: str, sources: Iterable[SourceFile]) -> None:
    """Raise BackfillError if one of these files, or this package's version, changed since it was
    loaded."""
    moved = [str(s.path) for s in sources if s.has_moved]
    if installed_versions((DISTRIBUTION,)) != first_package_version():
        moved.append(f"the installed package {DISTRIBUTION}")
    if moved:
        changed = f"{', '.join(moved[:3])} changed after this process had loaded it"
        raise BackfillError(f"the code of {table}", changed, "It was not written", START_AGAIN)


DIGEST_CHARS = 32


@lru_cache(maxsize=256)
def python_digest(source: bytes) -> str:
    """The digest of a Python file without comments, docstrings and layout; equal under Python 3.11
    to 3.13.

    It covers the syntax tree as Python 3.11 shows it: later versions add `type_params`, leave out
    empty lists, put empty texts between the parts of an f-string, and print characters as they are
    that 3.11 escapes. Raises SyntaxError.
    """
    tree = _without_docstrings(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            node.values = [part for part in node.values if not _is_empty_text(part)]
        elif not getattr(node, "type_params", True):
            del node.type_params  # type: ignore[attr-defined]  # known to Python 3.12 and later
    every_field = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    text = ast.dump(tree, **every_field)
    return sha256(text.encode("ascii", "backslashreplace")).hexdigest()[:DIGEST_CHARS]


def _is_empty_text(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value == ""


def _without_docstrings(source: bytes) -> ast.Module:
    """The syntax tree of a Python file without the constants that stand first in a module, class or
    function. Raises SyntaxError."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not (isinstance(body, list) and body and isinstance(body[0], ast.Expr)):
            continue
        if isinstance(body[0].value, ast.Constant):
            body[:1] = [] if len(body) > 1 else [ast.Pass()]
    return tree
