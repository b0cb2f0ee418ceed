"""Values made fit to print: texts from elsewhere (file names, reasons) without escapes and secrets.

Not here: records as JSON (`kernel.core.records`), quoting for a shell (`shlex.quote`), and HTML
(the templates escape).
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

_KEY = r"(?:access|account|api|private|sas|secret|shared|storage)[-_.]?(?:access[-_.]?)?key"
_LOOSE = rf"(?:password|passwd|passphrase|pwd|client[-_.]?secret|{_KEY})"
_TIGHT = r"(?:token|secret|signature|credential|(?<![a-z])(?:sig|sas|pass))"
_VALUE = r"(?:'[^'\n]*'|\"[^\"\n]*\"|['\"]?[^\s&;'\"<>]+)"
# What stands before a secret, and the secret: in a query, a connection string, a JSON object, a
# header.
_SECRETS = re.compile(
    rf"((?:{_LOOSE}\s?=\s?|{_TIGHT}=|[\"']?(?:{_LOOSE}|{_TIGHT})[\"']\s?:\s?))(?!PASSWORD|['\"]?\*\*\*){_VALUE}"
    r"|(authorization[\"']?\s?[:=]\s?[\"']?)[^\r\n\"']+"
    r"|(\b(?:bearer|basic)\s)(?=\S*\d)[\w+/=.~-]{8,}"
    r"|(hooks\.slack\.com/services/)[\w/-]+",
    re.IGNORECASE,
)
_WORD = re.compile(r"\S+")
_QUERY = re.compile(r"\?[\w.~%+-]+=[^\s'\"<>)]*")
_PORT = re.compile(r"\d+(?:[/?#]|\Z)")
# Whole runs: around a break inside one, `\s*` would be tried from each of its places.
WHITE = re.compile(r"\s+")
BYTES = 0xDC00  # where Python puts the bytes of a name that are no UTF-8 (PEP 383)

SECRET_NAME = re.compile(r"token|password|secret|credential|(^|[._-])key$", re.IGNORECASE)


def printable_text(text: str) -> str:
    """`text` with every unprintable character escaped, such as `\\u202e`: line breaks, escape
    sequences, changes of the direction of writing, and bytes that are no UTF-8 (lone
    surrogates)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped_character(ord(c)) for c in text)


def _escaped_character(code: int) -> str:
    """A character as an escape; a byte of a file's name that is no UTF-8 (a lone low surrogate) as
    that byte."""
    if code < 1 << 8 or BYTES <= code < BYTES + (1 << 8):
        return f"\\x{code & 0xFF:02x}"
    if code < 1 << 16:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def refusal_reason(refusal: Mapping[str, Any]) -> str:
    """Why pydantic refuses a value, from one of its `errors()`; without the prefix that it gives a
    reason of ours."""
    if refusal["type"] == "too_short":
        return (
            f"it names {refusal['ctx']['actual_length']}, and at least "
            f"{refusal['ctx']['min_length']} is needed"
        )
    return str(refusal["msg"]).removeprefix("Value error, ")


def shortened_text(text: str, most: int) -> str:
    """The first `most` characters, and a `…` in place of what was cut off."""
    if len(text) <= most:
        return text
    return text[: most - 1] + "…"


def one_line(text: str) -> str:
    """`text` with a blank in place of each run of white space that has a line break."""
    return WHITE.sub(lambda run: " " if set(run[0]) & {"\r", "\n"} else run[0], text)


def scrub_secrets(text: str, *known: str) -> str:
    """`text` without secrets: passwords in addresses, whole queries of addresses (signatures, SAS
    tokens), values of keys and passwords in connection strings and JSON, headers of authorization;
    and the `known` texts."""
    for secret in sorted({*known} - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    text = _WORD.sub(lambda found: _scrubbed_word(found[0]), text)
    return _SECRETS.sub(lambda found: f"{''.join(found.groups(''))}***", text)


def _scrubbed_word(word: str) -> str:
    """A word whose addresses have no query, nothing between `:` and the last `@`, and no name alone
    before that of a web address, which is a token. The name of a container (`abfss://NAME@HOST`)
    stays."""
    if ":/" not in word:  # `Path` leaves one slash of an address
        return word
    parts = re.split(r"(:/+)", _QUERY.sub("?***", word))
    for number in range(2, len(parts), 2):
        is_web = re.search(r"https?\Z", parts[number - 2]) is not None
        parts[number] = _scrubbed_address(parts[number], is_web=is_web)
    return "".join(parts)


def _scrubbed_address(address: str, *, is_web: bool) -> str:
    """An address without its scheme, and without the password or token before its host."""
    login, at, host = address.rpartition("@")
    user, colon, password = login.partition(":")
    if not at:
        return address
    if colon:
        is_of_advice = password == "PASSWORD"  # noqa: S105 - as our advice says
        is_port = _PORT.match(password) is not None
        return address if is_of_advice or is_port else f"{user}:***@{host}"
    if is_web and set(login).isdisjoint("/?#"):
        return f"***@{host}"
    return address


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The beginning of an advice: the name that was probably meant; empty if none is near."""
    return "".join(f"Did you mean {near}? " for near in get_close_matches(name, list(known), 1))


def known_names_advice(name: str, known: Iterable[str]) -> str:
    """Advice about an unknown name: the likeliest known name, and all to choose from."""
    choices = list(known)
    if not choices:
        return "There is none yet"
    return f"{did_you_mean(name, choices)}Choose one of {', '.join(choices)}"


def shown_setting(key: str, value: object) -> str:
    """The value of a setting for printing: scrubbed and short; `***` if its name speaks of a
    secret."""
    if isinstance(value, Mapping):
        return f"the keys {', '.join(sorted(map(str, value)))}"[:80]
    if SECRET_NAME.search(key):
        return "***"
    return scrub_secrets(str(value))[:80]
