"""Alerts on their way: kept in the lake until every address took them, and what was sent already.

Lives here: the folder `LAKE/.alerts/INSTANCE` with a file per message and the file of what was sent. Does not live
here: their text (`alerts`) and where they go (`alert_channels`). Deleting it sends old news once more and loses what
waits.
"""

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from backfill_assets.core.clock import utc_now
from backfill_assets.core.digests import digest_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.orchestration.alert_channels import Channels, Message, unsent

SENT_AT_ONCE = 20  # messages of one tick, which has sixty seconds
FAILURES_AT_ONCE = 2  # per address and tick; each may take ten seconds
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 30.0, 3600.0
TELL_AGAIN_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Outbox:
    """The alerts of one instance of Dagster in one lake. `first_pause`: seconds until the second try."""

    folder: Path
    first_pause: float = FIRST_PAUSE_SECONDS

    def put(self, message: Message) -> None:
        """Keep a message until it is delivered."""
        body = {"subject": message.subject, "text": message.text, "facts": dict(message.facts)}
        name = f"{time.time_ns():020d} {uuid.uuid4().hex}.json"
        _write(self.folder / "waiting" / name, {**body, "sent": [], "tries": 0, "after": 0.0})

    def tell(
        self,
        found: Mapping[str, str],
        over: Collection[str],
        message: Callable[[list[str]], Message],
        again: float | None = None,
    ) -> None:
        """Put the message of the names in `found` whose words were not sent before (with `again`: not within so many
        seconds), in order, if any. The names in `over` are no longer so and will be news when they come back."""
        with self._lock():
            sent, now = self._sent(), utc_now().timestamp()
            fresh = [n for n, words in found.items() if not _was_sent(sent.get(n), digest_of(words), now, again)]
            if fresh:  # first the message: told twice is better than never
                self.put(message(fresh))
            kept = {n: v for n, v in sent.items() if n not in over or n in found}
            kept |= {n: [digest_of(found[n]), now] for n in fresh}
            if kept != sent:
                _write(self.folder / "told.json", kept)

    def over(self, prefix: str, found: Iterable[str]) -> set[str]:
        """The names that were sent, begin so, and are not among `found`."""
        return {n for n in self._sent() if n.startswith(prefix)} - set(found)

    def deliver(self, channels: Channels) -> list[BackfillError]:
        """Hand what waits to every address that did not take it yet, oldest first; why some did not take it. Those are
        tried again later, ever more seldom, and keep no other message waiting."""
        errors: list[BackfillError] = []
        failures: dict[str, int] = {}
        with self._lock():
            for path in self._due()[:SENT_AT_ONCE]:
                kept = _read(path)
                open_ways = {n: send for n, send in channels.ways().items() if n not in kept["sent"]}
                for name, send in open_ways.items():
                    if failures.get(name, 0) >= FAILURES_AT_ONCE:
                        continue
                    try:
                        send(Message(kept["subject"], kept["text"], kept["facts"]))
                    except Exception as error:  # noqa: BLE001 - of that way alone, whatever its library raises
                        # Another library's words may quote an address or a password.
                        errors.append(error if isinstance(error, BackfillError) else unsent(name, type(error).__name__))
                        failures[name] = failures.get(name, 0) + 1
                    else:
                        kept["sent"].append(name)
                        _write(path, kept)
                self._settle(path, kept, set(open_ways) <= set(kept["sent"]))
        return errors

    def waiting(self) -> int:
        """How many messages are not delivered yet."""
        return len(list((self.folder / "waiting").glob("*.json")))

    def _due(self) -> list[Path]:
        paths = sorted((self.folder / "waiting").glob("*.json"))
        now = utc_now().timestamp()
        # A pause that would be longer than the longest was set by a clock that ran ahead.
        return [p for p in paths if not 0 < _read(p).get("after", 0.0) - now <= LONGEST_PAUSE_SECONDS]

    def _settle(self, path: Path, kept: dict[str, Any], done: bool) -> None:
        if done:
            path.unlink(missing_ok=True)
            return
        pause = min(self.first_pause * 2 ** kept["tries"], LONGEST_PAUSE_SECONDS)
        _write(path, {**kept, "tries": kept["tries"] + 1, "after": utc_now().timestamp() + pause})

    def _sent(self) -> dict[str, Any]:
        return _read(self.folder / "told.json")

    def _lock(self) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / "lock")


def _was_sent(before: Any, words: str, now: float, again: float | None) -> bool:
    if not isinstance(before, list) or before[0] != words:
        return False
    return again is None or 0 <= now - before[1] < again


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{uuid.uuid4().hex}")
    aside.write_text(json.dumps(content), encoding="utf-8")
    aside.replace(path)
