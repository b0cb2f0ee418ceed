"""The JSON in which Dagster keeps an event, where many events of a step differ in little.

Lives here: writing out what they share once, and each event's own beside it. Does not live here: storing it
(`quick_events`). Every text is, sign for sign, what `dagster.serialize_value` gives of the event; a test holds both to
that. Two thirds of what storing a day's event takes were its text.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

# None of them occurs in what events share: names of jobs, steps and tags.
_OWN, _MESSAGE, _SAID, _AT = (f"\x01{name}\x01" for name in ("own", "message", "said", "at"))


@dataclass
class EventTexts:
    """The texts of events, by what those of the same type shared last."""

    _shared: dict[str, tuple[Any, list[str]]] = field(default_factory=dict)

    def text(self, entry: dg.EventLogEntry) -> str:
        """The entry as Dagster writes it."""
        event = entry.dagster_event
        if event is None:
            return dg.serialize_value(entry)
        bare: Any = event._replace(event_specific_data=_OWN, message=_MESSAGE)  # type: ignore[arg-type]
        shared = entry._replace(timestamp=_AT, user_message=_SAID, dagster_event=bare)  # type: ignore[arg-type]
        known, parts = self._shared.get(event.event_type_value, (None, []))
        if known != shared:
            parts = _parts(dg.serialize_value(shared))
            self._shared[event.event_type_value] = shared, parts
        own = {
            _OWN: dg.serialize_value(event.event_specific_data), _MESSAGE: json.dumps(event.message),
            _SAID: json.dumps(entry.user_message), _AT: json.dumps(entry.timestamp),
        }  # fmt: skip
        return "".join(own.get(part, part) for part in parts)


def _parts(text: str) -> list[str]:
    """The text between the marks, and the marks themselves in their places."""
    parts = [text]
    for mark in (_OWN, _MESSAGE, _SAID, _AT):
        written = json.dumps(mark)
        parts = [p for part in parts for p in _apart(part, written, mark)]
    return parts


def _apart(text: str, written: str, mark: str) -> list[str]:
    before, found, after = text.partition(written)
    return [before, mark, after] if found else [text]
