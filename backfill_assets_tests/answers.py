"""What commands print with `--json`, held against their schemas: no key that a schema does not name,
and none too few.

Here: the schemas without room for other keys, and which command a line types. Not here: what the
values mean (each command's own test), and how schemas are made (`cli/test_schema_command.py`).
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from backfill_assets.cli.schema_command import all_documents, document_schema


@cache
def validator_of(words: str) -> Draft202012Validator:
    """The schema of a command's document, in which each record has the named keys alone."""
    return Draft202012Validator(closed_schema(document_schema(words)))


def closed_schema(schema: Any) -> Any:
    """The schema without room for keys that it does not name."""
    if isinstance(schema, list):
        return [closed_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: closed_schema(value) for name, value in schema.items()}
    if isinstance(closed.get("required"), list):  # a record's; a map has none
        closed["additionalProperties"] = False
    return closed


def words_of(typed: Sequence[str]) -> str:
    """The words of `all_documents` that name the command of a line; "" where it has no document."""
    documents = all_documents()
    names = {words.split()[0] for words in documents}
    at = next((n for n, word in enumerate(typed) if word in names), len(typed))
    for known in (" ".join(typed[at : at + 2]), "".join(typed[at : at + 1])):
        if known in documents:
            return known
    return ""


def hold_schema(words: str, document: Any) -> None:
    """Fail where the document of a command is not as its schema says."""
    wrong = [
        f"{error.json_path}: {error.message[:300]}"
        for error in validator_of(words).iter_errors(document)
    ]
    assert not wrong, f"`{words} --json` is not what `schema {words}` says: {wrong[:5]}"
