"""Requests to an object store by obstore: the objects of one bucket by their keys.

Not here: the names of a place, and files on this machine (`bucket`); what answers mean
(`store_errors`). Objects carry the nonce of the write that made them: a write whose answer was
lost, and which meets its own object when it is repeated, knows it by that. ETags do not tell equal
bodies apart.
"""

import io
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_assets.buckets.odd_keys import list_odd_keys
from backfill_assets.buckets.store_errors import (
    Busy,
    ChangedAfterAll,
    Denied,
    lost_request_error,
    translated_errors,
)
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.place.port import AlreadyThere, Changed, Gone, OddKeys, Token

if TYPE_CHECKING:
    from obstore.store import ObjectStore

OF_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_")  # what the store's client reads
RETRY_SECONDS = 30.0  # so long the client repeats one request: stores say SlowDown for seconds
RETRIES = 1000  # more than it makes in that time: the time is the limit
# Between two of its tries.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=0.1), timedelta(seconds=3)
WRITE_ATTEMPTS = 5  # times that a write is tried which meets another's request
PAGE_OBJECTS = 1000  # objects of one listing request
READ_BYTES = 8 << 20  # of one request: smaller objects are read at once
# Of a request for the end of an object: Parquet's readers look there for a footer first.
END_BYTES = 64 << 10
PART_BYTES = 16 << 20  # of a large file that is sent in parts
NONCE_ATTRIBUTE = "nonce"
T = TypeVar("T")


@dataclass(frozen=True)
class Objects:
    """The objects of a bucket, e.g. `s3://bucket`. Each verb is one request, repeated by the client
    where the store asks for it, and once more where it denies the credentials, which may have
    ended (`_answer`); raises the conditions of the port and what `store_errors` says. Keys have no
    `/` at their ends."""

    bucket: str
    retries: int = RETRIES

    @property
    def client(self) -> "ObjectStore":
        """The client of the bucket, shared in this process: another object once the store denied
        what it asked. Raises BackfillError in a forked process."""
        if _first_process() != os.getpid():
            raise BackfillError(
                self.bucket,
                "this process was forked from one that had used a store, and lacks its client's "
                "threads",
                "Nothing was read or written",
                "Start it anew (`multiprocessing`: by `spawn` or `forkserver`)",
            )
        # By their names alone, as this is asked before each request, and values cost the most.
        names = sorted(name for name in os.environ if name.startswith(OF_ENVIRONMENT))
        environment = tuple((name, os.environ.get(name, "")) for name in names)
        return _opened_store(self.bucket, self.retries, environment)

    def _answer(self, key: str, request: "Callable[[ObjectStore], T]") -> T:
        """What a request about a key gives. Where the store denies it, a new client repeats it
        once: a client keeps what a role gave it until the time that this named, and the store may
        end it before."""
        client = self.client
        try:
            with translated_errors(self.uri(key)):
                return request(client)
        except Denied:
            if client is self.client:  # else another thread made a new one
                _opened_store.cache_clear()
        with translated_errors(self.uri(key)):
            return request(self.client)

    def uri(self, key: str) -> str:
        """The address of an object."""
        return f"{self.bucket}/{key}".rstrip("/")

    def names(self, key: str) -> set[str]:
        """The last parts of the names directly below a key, of objects and of prefixes."""
        prefix = f"{key}/" if key else None
        found = self._answer(key, lambda s: _obstore_module().list_with_delimiter(s, prefix))
        paths = [o["path"] for o in found["objects"]] + [*found["common_prefixes"]]
        return {path.rstrip("/").rpartition("/")[2] for path in paths}

    def tokens(self, key: str, after: str = "") -> dict[str, Token]:
        """The objects at any depth below a key whose keys come after one; a request for each
        thousand. Raises OddKeys, which has the others, where some keys are no paths."""
        prefix = f"{key}/" if key else ""

        def listed(store: "ObjectStore") -> dict[str, Token]:
            """All pages: the first as the last may be denied."""
            pages = _obstore_module().list(
                store, prefix or None, offset=after or None, chunk_size=PAGE_OBJECTS
            )
            found = (o for page in pages for o in page)
            # Azurite lists all.
            return {o["path"]: _object_token(o) for o in found if o["path"] > after}

        try:
            return self._answer(key, listed)
        except OddKeys as error:
            if (odd := list_odd_keys(self.bucket, prefix, after)) is not None:
                error.with_listing(odd)
            raise

    def token(self, key: str) -> Token | None:
        """The token of an object; None if it is gone."""
        try:
            return _object_token(self._answer(key, lambda s: _obstore_module().head(s, key)))
        except Gone:
            return None

    def open(self, key: str) -> BufferedReader:
        """An object of one content, to read and seek in."""
        found = self._answer(key, lambda s: _obstore_module().get(s, key))
        if found.meta["size"] <= READ_BYTES:
            with translated_errors(self.uri(key)):
                content = bytes(found.bytes())
            return io.BufferedReader(_RangedObject(self, key, found.meta, content, 0))
        return io.BufferedReader(_RangedObject(self, key, found.meta), READ_BYTES)

    def open_at_end(self, key: str) -> BufferedReader:
        """An object of one content, to read and seek in, whose last bytes are fetched at once by
        one request; others fetch what else is read."""
        store, errors = self.client, _obstore_module().exceptions
        # Azure takes no such range, an empty object has no end, and `open` asks again.
        with (
            suppress(Denied),
            translated_errors(self.uri(key)),
            suppress(errors.NotSupportedError, errors.GenericError),
        ):
            found = _obstore_module().get(store, key, options={"range": {"suffix": END_BYTES}})
            content = _RangedObject(self, key, found.meta, bytes(found.bytes()), found.range[0])
            return io.BufferedReader(content, READ_BYTES)
        return self.open(key)

    def part(self, key: str, start: int, end: int, e_tag: str) -> bytes:
        """Bytes of an object, `end` not included; raises Changed if its ETag is another."""
        options: dict[str, Any] = {"range": (start, end)}
        if e_tag:
            options["if_match"] = e_tag
        return self._answer(
            key, lambda s: bytes(_obstore_module().get(s, key, options=options).bytes())
        )

    def fetch(self, key: str) -> tuple[int, Iterable[bytes]]:
        """The size of an object, and its bytes in blocks."""
        found = self._answer(key, lambda s: _obstore_module().get(s, key))
        return found.meta["size"], self._stream_blocks(key, found.stream(READ_BYTES))

    def _stream_blocks(self, key: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
        with translated_errors(self.uri(key)):
            yield from blocks

    def write(self, key: str, content: bytes, if_absent: bool, if_unchanged: Token | None) -> Token:
        """Write an object, under the condition that the port names; true also where an answer is
        lost."""
        nonce, mode = uuid.uuid4().hex, "create" if if_absent else "overwrite"
        put_mode: Any = mode if if_unchanged is None else _put_condition(if_unchanged)
        try:
            done = self._put_object(
                key,
                content,
                mode=put_mode,
                attributes={NONCE_ATTRIBUTE: nonce},
                use_multipart=False,
            )
        except (AlreadyThere, Changed) as error:
            if (own := self._own_token(key, nonce)) is not None:
                return own
            if isinstance(error, ChangedAfterAll):
                # Perhaps ours was the content before the one that is there.
                raise lost_request_error(self.uri(key)) from None
            raise
        return Token(
            (_quoted_e_tag(done["e_tag"]),),
            len(content),
            utc_now().timestamp(),
            done["version"] or "",
        )

    def _put_object(self, key: str, content: object, **how: Any) -> Mapping[str, Any]:
        """Write an object; again where the store meets another request for its name."""
        for _ in range(WRITE_ATTEMPTS - 1):
            with suppress(Busy):
                return self._put_once(key, content, **how)
        return self._put_once(key, content, **how)

    def _put_once(self, key: str, content: object, **how: Any) -> Mapping[str, Any]:
        def put(store: "ObjectStore") -> Mapping[str, Any]:
            """All of the content."""
            if isinstance(content, BufferedReader):
                content.seek(0)
            return dict(_obstore_module().put(store, key, content, **how))

        return self._answer(key, put)

    def _own_token(self, key: str, nonce: str) -> Token | None:
        """The token of the object if the write with this nonce made it: its first answer was
        lost."""
        try:
            found = self._answer(
                key, lambda s: _obstore_module().get(s, key, options={"head": True})
            )
        except Gone:
            return None
        return _object_token(found.meta) if found.attributes.get(NONCE_ATTRIBUTE) == nonce else None

    def send(self, key: str, content: Path | BufferedReader) -> None:
        """Make the content of a file an object, whatever was there."""
        self._put_object(key, content, chunk_size=PART_BYTES)

    def copy(self, key: str, source: str) -> None:
        """Give the content of an object another key."""
        self._answer(source, lambda s: _obstore_module().copy(s, source, key))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, a thousand by each request; harmless for those that are gone."""
        if not keys:
            return
        try:
            self._answer(keys[0], lambda s: _obstore_module().delete(s, keys))
        except Gone:  # some stores say so, and delete no others of the request then
            if len(keys) > 1:
                for key in keys:
                    self.delete([key])


class _RangedObject(io.RawIOBase):
    """An object, read in ranges of one content; its bytes from `known` on are here already."""

    def __init__(
        self,
        objects: Objects,
        key: str,
        meta: Mapping[str, Any],
        content: bytes = b"",
        known: int | None = None,
    ) -> None:
        self._objects, self._key = objects, key
        self._size, self._e_tag = meta["size"], meta["e_tag"] or ""
        # The bytes that are here already, from the place `known` on; without any it is the end.
        self._content, self._known = content, self._size if known is None else known
        self._at = 0  # the place of the next read

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def readall(self) -> bytes:
        start, self._at = self._at, max(self._at, self._size)
        return b"" if start >= self._size else self._read_range(start, self._size)

    def _read_range(self, start: int, end: int) -> bytes:
        if start >= self._known:
            return self._content[start - self._known : end - self._known]
        return self._objects.part(self._key, start, end, self._e_tag)

    def readinto(self, buffer: Any) -> int:
        start, end = self._at, min(self._at + len(buffer), self._size)
        if end <= start:
            return 0
        found = self._read_range(start, end)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def _obstore_module() -> Any:
    try:
        import obstore
    except ModuleNotFoundError:
        raise SettingsError(
            "a lake in a bucket",
            "the client of object stores is not installed",
            "Nothing was done",
            "Run `pip install 'backfill-assets[stores]'`",
        ) from None
    return obstore


@lru_cache(maxsize=1)
def _first_process() -> int:
    """The process that used a store first: in a fork of it, a request would wait for ever."""
    return os.getpid()


@lru_cache(maxsize=16)
def _opened_store(
    bucket: str, retries: int, _environment: tuple[tuple[str, str], ...]
) -> "ObjectStore":
    """The client of a bucket, by what the environment says of it."""
    _obstore_module()
    from obstore.store import from_url

    pauses = {"init_backoff": FIRST_PAUSE, "max_backoff": LONGEST_PAUSE, "base": 2}
    retry: Any = {
        "max_retries": retries,
        "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        "backoff": pauses,
    }
    return from_url(bucket, retry_config=retry)


def _object_token(meta: Mapping[str, Any]) -> Token:
    return Token(
        (_quoted_e_tag(meta["e_tag"]),),
        meta["size"],
        meta["last_modified"].timestamp(),
        meta["version"] or "",
    )


def _quoted_e_tag(e_tag: str | None) -> str:
    """An ETag as every answer of a store has it: listings of Azure leave the quotes out."""
    if not e_tag:
        return ""
    return e_tag if '"' in e_tag else f'"{e_tag}"'


def _put_condition(token: Token) -> dict[str, str]:
    """What a conditional put names: S3 and Azure look at the ETag, Google at the version."""
    named = {"e_tag": str(token.mark[0]), "version": token.version}
    return {name: value for name, value in named.items() if value}
