"""`schema`: every command with `--json` has one, it is pinned, and within a version nothing goes.

Tested here: schemas of types, the command, and the list of all documents. Not tested here: that
documents are as their schemas say, which every test that runs a command with `--json` holds
(`cli/typed.py`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest
from jsonschema import Draft202012Validator, ValidationError

from backfill_assets.cli.schema_command import RecordSchemas, all_documents, document_schema
from backfill_assets.kernel.core.days import inclusive_range
from backfill_assets.kernel.core.records import json_of
from backfill_assets_tests.answers import closed_schema, hold_schema, words_of
from backfill_assets_tests.cli.typed import commands, read, run
from backfill_assets_tests.pins import hold_pin

PINNED = Path(__file__).with_name("schemas.txt")
PLACES = ("items", "additionalProperties")


class Leaf(TypedDict):
    """Values of each kind."""

    day: date | None
    shares: Mapping[str, float]
    pair: tuple[int, str]
    more: NotRequired[Sequence["Leaf"]]


@dataclass(frozen=True)
class Written:
    """A record that says itself what is written of it."""

    hidden: int

    def to_dict(self) -> Leaf:
        return {"day": date(2024, 3, 1), "shares": {"a": float("inf")}, "pair": (1, "x")}


def validator(kind: Any) -> Draft202012Validator:
    records = RecordSchemas()
    schema = {**records.schema_of(kind), "$defs": records.found}
    return Draft202012Validator(closed_schema(schema))


def test_a_schema_is_of_the_values_that_the_codec_writes() -> None:
    found = json_of(Written(7))
    document = json.loads(json.dumps(found, default=str))
    validator(Written).validate(document)
    validator(Written).validate({**document, "more": [document]})
    for wrong in ({"pair": ["x", "x"]}, {"hidden": 7}, {"shares": {"a": "much"}}):
        with pytest.raises(ValidationError):
            validator(Written).validate({**document, **wrong})
    del document["day"]
    with pytest.raises(ValidationError):
        validator(Written).validate(document)


def test_a_range_of_days_is_its_first_and_its_last_one() -> None:
    days = inclusive_range(date(2024, 3, 1), date(2024, 3, 4))
    validator(type(days)).validate(days.to_dict())


def test_every_command_with_json_has_a_schema_and_no_other_has() -> None:
    told = {
        name
        for name, command in commands()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    assert {*all_documents()} == told


def test_schemas_are_schemas_and_name_their_command_and_version() -> None:
    for words, document in all_documents().items():
        schema = document_schema(words)
        Draft202012Validator.check_schema(schema)
        name = words.replace(" ", ":")
        assert schema["$id"] == f"urn:backfill-assets:{name}:{document.version}"


def test_the_command_prints_one_or_lists_all() -> None:
    printed = read(run("schema", "server", "status"))
    assert printed == document_schema("server status")
    assert read(run("schema", "--json"))["catch-up"] == 1
    assert "server status" in run("schema").stdout
    refused = run("schema", "ui")
    assert refused.exit_code == 2
    assert "Nothing was printed" in refused.stderr


def test_a_line_is_known_by_its_command_whatever_stands_before_it() -> None:
    assert words_of(["--lake", "scan.d", "server", "status", "--json"]) == "server status"
    assert words_of(["backfill", "--from", "2024-03-01", "--json"]) == "backfill"
    assert words_of(["ui", "--json"]) == ""
    with pytest.raises(AssertionError, match=r"\$: Additional properties"):
        hold_schema("server stop", {"stopped": True, "new": 1})


def kind_text(schema: Mapping[str, Any]) -> str:
    """What a value is, in a word or a few."""
    if "anyOf" in schema:
        return "|".join(map(kind_text, schema["anyOf"]))
    if "enum" in schema:
        return "/".join(map(str, schema["enum"]))
    name = str(schema.get("$ref", schema.get("type", "any"))).rpartition("/")[2]
    return str(schema.get("format", "object" if "$ref" in schema else name))


def key_lines(schema: Mapping[str, Any], records: Mapping[str, Any], at: str) -> Iterator[str]:
    """A line for each key of a document with what its values are, `?` where it may lack."""
    for part in schema.get("anyOf", ()):
        yield from key_lines(part, records, at)
    for name in PLACES:
        if isinstance(schema.get(name), dict):
            yield f"{at}[]: {kind_text(schema[name])}"
            yield from key_lines(schema[name], records, f"{at}[]")
    for n, part in enumerate(schema.get("prefixItems", ())):
        yield f"{at}[{n}]: {kind_text(part)}"
    if "$ref" in schema:
        record = schema["$ref"].rpartition("/")[2]
        others = {name: part for name, part in records.items() if name != record}
        if record in records:  # else it holds others of its kind
            yield from record_lines(records[record], others, at)


def record_lines(record: Mapping[str, Any], records: Mapping[str, Any], at: str) -> Iterator[str]:
    for name, part in record["properties"].items():
        may_lack = "" if name in record["required"] else "?"
        yield f"{at}.{name}{may_lack}: {kind_text(part)}"
        yield from key_lines(part, records, f"{at}.{name}")


@pytest.fixture(scope="module")
def found() -> list[str]:
    """Lines of all documents, each behind the words of its command and its version."""
    lines = []
    for words, document in all_documents().items():
        schema = document_schema(words)
        head = f"{words} {document.version}"
        lines.append(f"{head} {kind_text(schema)}")
        lines += dict.fromkeys(f"{head} {line}" for line in key_lines(schema, schema["$defs"], ""))
    return lines


def head_of(line: str) -> str:
    """The command and the version of a line."""
    words = line.split()
    return " ".join(words[: next(n for n, word in enumerate(words) if word.isdigit()) + 1])


def test_within_a_version_no_key_goes_and_none_means_another(found: list[str]) -> None:
    heads = {head_of(line) for line in found}
    pinned = PINNED.read_text(encoding="utf-8").splitlines()
    gone = [line for line in pinned if head_of(line) in heads and line not in found]
    assert not gone, "raise the version of the `Document` in the room's __init__"


@pytest.mark.whole_house
def test_the_schemas_are_those_that_programs_know(found: list[str]) -> None:
    hold_pin(PINNED, found)
