"""Digests of Python source that depend on its meaning, not on its layout or the version of Python.

Not here: the files that are code of a table (`lake.model`). It imports the standard library only, so that a test runs
it under several Pythons.
"""

import ast
import sys
from hashlib import sha256

DIGEST_CHARS = 32


def python_digest(source: bytes) -> str:
    """The digest of a Python file without comments, docstrings and layout; equal under Python 3.11 to 3.13.

    It covers the syntax tree as Python 3.11 shows it: later versions add `type_params`, leave out empty lists, put
    empty texts between the parts of an f-string, and print characters as they are that 3.11 escapes. Raises
    SyntaxError.
    """
    tree = _without_docstrings(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            node.values = [v for v in node.values if not (isinstance(v, ast.Constant) and v.value == "")]
        elif not getattr(node, "type_params", True):
            del node.type_params  # type: ignore[attr-defined]  # known to Python 3.12 and later
    every_field = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    text = ast.dump(tree, **every_field)
    return sha256(text.encode("ascii", "backslashreplace")).hexdigest()[:DIGEST_CHARS]


def _without_docstrings(source: bytes) -> ast.Module:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not (isinstance(body, list) and body and isinstance(body[0], ast.Expr)):
            continue
        if isinstance(body[0].value, ast.Constant):
            body[:1] = [] if len(body) > 1 else [ast.Pass()]
    return tree
