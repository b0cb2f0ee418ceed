"""What happens to one file of a lake: drawn by a seed, so that a seed and a commit give it again.

Here: the ways to change bytes, and those that know JSON. Not here: which commands are asked
afterwards (`judge`).
"""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from backfill_assets.kernel.place.port import Place

MOST_CHANGES = 4  # bytes or values, in one file
DEEP = 100_000  # levels: more than Python's parser goes down
LONG = 4 << 20  # bytes
GONE = "gone"
PACKED = b"\x1f\x8b"  # begins a gzip file
# What a program of another kind, a careless hand or a bomb could put into the place of a value.
ODD_VALUES: Sequence[Any] = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "../../etc",
    "/",
    "\x00",
    "\ud800",
    "9999-12-31",
    "0001-01-01",
    "10000-01-01",
    "99999999999999999999",
    "<script>",
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": []}},
)


@dataclass(frozen=True)
class Damage:
    """The new content of a file of the lake, by its path below it; None: the file is gone."""

    path: str
    what: str
    content: bytes | None

    def do(self, lake: Place) -> None:
        """Write it. The file is made anew: a hard link keeps its content."""
        lake.delete(self.path)
        if self.content is not None:
            lake.write(self.path, self.content)

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def damage_of(chance: Random, files: Mapping[str, bytes], path: str) -> Damage:
    """One damage to this file; another of `files` may take its place."""
    others = [content for name, content in sorted(files.items()) if _is_alike(path, name)]
    ways: dict[str, Callable[[Random, bytes], bytes | None]] = {**BYTES, GONE: lambda _, __: None}
    if others:
        ways["another file of its kind"] = lambda chance, _: chance.choice(others)
    if _documents(files[path]):
        ways |= WORDS
    weights = [4 if name in WORDS else 1 for name in ways]
    (what,) = chance.choices([*ways], weights)
    return Damage(path, what, ways[what](chance, files[path]))


def _is_alike(path: str, other: str) -> bool:
    """Whether another file has the same kind of name."""
    return path != other and Path(path).suffixes == Path(other).suffixes


def _flipped(chance: Random, content: bytes) -> bytes:
    found = bytearray(content)
    for _ in range(chance.randint(1, MOST_CHANGES)):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


def _digit_changed(chance: Random, content: bytes) -> bytes:
    """One digit is another: still a number, a day or a hash."""
    places = [n for n, byte in enumerate(content) if chr(byte).isdigit()]
    if not places:
        return _flipped(chance, content)
    place = chance.choice(places)
    return content[:place] + chance.choice("0123456789").encode() + content[place + 1 :]


def _cut(chance: Random, content: bytes) -> bytes:
    return content[: chance.randrange(len(content))]


def _line_cut(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[: chance.randrange(len(lines))])


def _line_lost(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def _lines_shuffled(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def _piece_moved(chance: Random, content: bytes) -> bytes:
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    place = chance.randrange(len(content) + 1)
    return content[:place] + content[first:last] + content[place:]


def _zeros(chance: Random, content: bytes) -> bytes:
    """A block that the disk lost."""
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    return content[:first] + bytes(last - first) + content[last:]


@cache
def _bomb() -> bytes:
    """A small file that holds 64 MiB of zeros."""
    return gzip.compress(bytes(LONG * 16))


BYTES: Mapping[str, Callable[[Random, bytes], bytes]] = {
    "bits flipped": _flipped,
    "a digit changed": _digit_changed,
    "cut off": _cut,
    "cut off after a line": _line_cut,
    "a line lost": _line_lost,
    "lines shuffled": _lines_shuffled,
    "twice": lambda _, content: content + content,
    "a piece moved": _piece_moved,
    "empty": lambda _, __: b"",
    "all zeros": lambda _, content: bytes(len(content)),
    "a block of zeros": _zeros,
    "no UTF-8": lambda chance, content: _inserted(chance, content, b"\xff\xfe"),
    "a zero byte": lambda chance, content: _inserted(chance, content, b"\x00"),
    "deep lists": lambda _, __: b"[" * DEEP,
    "deep objects": lambda _, __: b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "long text": lambda _, __: b'"' + b"x" * LONG + b'"',
    "a huge number": lambda _, __: b"9" * 10_000,
    "a bomb": lambda _, __: _bomb(),
    "a list": lambda _, __: b"[]",
    "an empty object": lambda _, __: b"{}",
    "null": lambda _, __: b"null",
    "a word": lambda _, __: b"unexpected\n",
}


def _inserted(chance: Random, content: bytes, piece: bytes) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + piece + content[place:]


def _documents(content: bytes) -> list[Any]:
    """The JSON documents of a file, one a line or one in all, packed or not; none where it holds
    something else."""
    try:
        text = gzip.decompress(content) if content.startswith(PACKED) else content
        try:
            return [json.loads(text)]
        except ValueError:
            return [json.loads(line) for line in text.splitlines()]
    except (ValueError, OSError, EOFError):
        return []


def _with_documents(change: Callable[[Random, Any], Any], chance: Random, content: bytes) -> bytes:
    """The file after a change of one of its documents; texts in it that hold JSON, as receipts are,
    are changed inside, too."""
    documents = _documents(content)
    number = chance.randrange(len(documents))
    documents[number] = change(chance, documents[number])
    text = "\n".join(json.dumps(document) for document in documents).encode()
    if len(documents) > 1:
        text += b"\n"
    return gzip.compress(text, mtime=0) if content.startswith(PACKED) else text


def _changed_value(replacement: Callable[[Random, Any], Any], chance: Random, document: Any) -> Any:
    """A document in which one value, at any depth, is another."""
    inner = _inner_document(document)
    if inner is not None:
        return json.dumps(_changed_value(replacement, chance, inner))
    if not document or not isinstance(document, dict | list) or chance.random() < 0.1:
        return replacement(chance, document)
    keys = [*document] if isinstance(document, dict) else [*range(len(document))]
    key = chance.choice(keys)
    found = {**document} if isinstance(document, dict) else [*document]
    found[key] = _changed_value(replacement, chance, found[key])
    return found


def _inner_document(text: Any) -> Any:
    """The object that a text holds; None where it holds none."""
    if not isinstance(text, str) or not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _odd_value(chance: Random, _: Any) -> Any:
    return chance.choice(ODD_VALUES)


def _near_value(chance: Random, value: Any) -> Any:
    """A value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + chance.choice((-1, 1, 1000))
    if isinstance(value, str):
        return chance.choice((value[:-1], value + "0", value[::-1], value.upper()))
    return _odd_value(chance, value)


def _keys_changed(chance: Random, value: Any) -> Any:
    """An object without one of its keys, or with one that has another name; of other values
    another."""
    if not value or not isinstance(value, dict | list):
        return _near_value(chance, value)
    if isinstance(value, list):
        return chance.choice((value[1:], value + value, value[::-1]))
    key = chance.choice(sorted(value))
    found = {name: inner for name, inner in value.items() if name != key}
    return found if chance.random() < 0.5 else {**found, f"{key}_": value[key]}


WORDS: Mapping[str, Callable[[Random, bytes], bytes]] = {
    "an odd value": partial(_with_documents, partial(_changed_value, _odd_value)),
    "a near value": partial(_with_documents, partial(_changed_value, _near_value)),
    "keys changed": partial(_with_documents, partial(_changed_value, _keys_changed)),
}
