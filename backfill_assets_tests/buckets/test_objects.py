"""Requests to an object store: a lost answer is decided by the nonce, a busy name is tried again,
an end comes alone. Not here: the port's promises (`test_bucket`)."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pytest

from backfill_assets.buckets.objects import END_BYTES, Objects
from backfill_assets.buckets.store_errors import Busy
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.port import AlreadyThere, Changed, StoreRefused, Token
from backfill_assets_tests.azure_role import CONTAINER, azure_role
from backfill_assets_tests.faulty_store import end_role
from backfill_assets_tests.stores import StoreServer


@pytest.fixture
def objects(bucket_address: str) -> Objects:
    """A new bucket."""
    return Objects(bucket_address.rpartition("/")[0])


@pytest.mark.parametrize("condition", ["if_absent", "if_unchanged"])
def test_a_write_without_answer_knows_its_object(
    objects: Objects, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = objects.write("a", b"0", False, None) if condition == "if_unchanged" else None
    put = obstore.put

    def twice(*args: Any, **more: Any) -> Any:
        put(*args, **more)
        return put(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(obstore, "put", twice)
        token = objects.write("a", b"1", seen is None, seen)
    assert objects.token("a") == token
    with pytest.raises((AlreadyThere, Changed)):
        objects.write("a", b"1", seen is None, seen)


def test_a_fork_of_a_process_that_used_a_store_is_refused_and_does_not_hang(
    objects: Objects,
) -> None:
    objects.write("a", b"1", True, None)
    read, write = os.pipe()
    with warnings.catch_warnings(
        action="ignore"
    ):  # of threads, as of Python 3.12: that is what the test is about
        child = os.fork()
    if child == 0:
        try:
            objects.token("a")
        except BackfillError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert "this process was forked from one that had used a store" in told.read()
    os.waitpid(child, 0)


def test_a_name_of_another_request_is_tried_again_then_given_up(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obstore.exceptions import AlreadyExistsError

    put, asked = obstore.put, list[int]()

    def busy(*args: Any, **more: Any) -> Any:
        asked.append(1)
        if len(asked) < 3:
            raise AlreadyExistsError(
                "Server returned non-2xx status code: 409 Conflict: "
                "<Code>ConditionalRequestConflict</Code>"
            )
        return put(*args, **more)

    def always(*_: Any, **__: Any) -> Any:
        asked.clear()
        return busy()

    monkeypatch.setattr(obstore, "put", busy)
    assert isinstance(objects.write("a", b"1", True, None), Token)
    monkeypatch.setattr(obstore, "put", always)
    with pytest.raises(Busy, match="the store meets another request for the same name"):
        objects.write("b", b"1", True, None)
    assert objects.token("b") is None


def test_of_an_object_that_is_opened_at_its_end_one_request_brings_the_end_alone(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(256)) * (4 * END_BYTES // 256)
    objects.write("a", content, True, None)
    asked, get = list[Any](), obstore.get

    def counting(*args: Any, **more: Any) -> Any:
        found = get(*args, **more)
        asked.append(found.range)
        return found

    monkeypatch.setattr(obstore, "get", counting)
    with objects.open_at_end("a") as opened:
        for start in (-8, -END_BYTES, -9):
            opened.seek(start, 2)
            assert opened.read(8) == content[start:][:8]
        assert asked == [(3 * END_BYTES, 4 * END_BYTES)]
        opened.seek(-END_BYTES - 5, 2)
        assert opened.read() == content[-END_BYTES - 5 :]
        assert len(asked) == 2
        objects.write("a", content[::-1], False, None)
        opened.seek(0)
        with pytest.raises(Changed):
            opened.read(8)


def test_credentials_that_end_before_their_time_are_read_again_by_each_verb(
    role_proxy: str, moto_server: StoreServer, tmp_path: Path
) -> None:
    objects, file = Objects(moto_server.new_bucket()), tmp_path / "file"
    file.write_bytes(b"of a file")
    objects.write("b", b"1", True, None)
    verbs: dict[str, Callable[[], object]] = {
        "write": lambda: objects.write("a", b"1", True, None),
        "send": lambda: objects.send("c", file),
        "copy": lambda: objects.copy("d", "a"),
        "names": lambda: objects.names(""),
        "tokens": lambda: sorted(objects.tokens("")),
        "token": lambda: objects.token("a") is not None,
        "open": lambda: objects.open("c").read(),
        "open_at_end": lambda: objects.open_at_end("c").read(),
        "part": lambda: objects.part("c", 0, 2, ""),
        "fetch": lambda: b"".join(objects.fetch("c")[1]),
        "delete": lambda: objects.delete(["a", "b"]),
    }
    found = dict[str, object]()
    for name, verb in verbs.items():
        end_role(role_proxy, 1)
        assert objects.token("b") is not None
        client = objects.client
        found[name] = verb()
        assert objects.client is not client, name
    assert found["names"] == {"a", "b", "c", "d"}
    assert found["tokens"] == ["a", "b", "c", "d"]
    assert found["open"] == found["open_at_end"] == found["fetch"] == b"of a file"
    assert (found["token"], found["part"]) == (True, b"of")
    assert objects.names("") == {"c", "d"}


def test_a_token_of_azure_that_ends_before_its_time_is_read_again_by_each_verb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with azure_role() as role:
        for name, value in role.environment.items():
            monkeypatch.setenv(name, value)
        objects = Objects(f"az://{CONTAINER}")
        verbs: dict[str, Callable[[], object]] = {
            "write": lambda: objects.write("a", b"of a blob", False, None).size,
            "names": lambda: objects.names(""),
            "tokens": lambda: sorted(objects.tokens("")),
            "token": lambda: objects.token("a") is not None,
            "open": lambda: objects.open("a").read(),
            "open_at_end": lambda: objects.open_at_end("a").read(),
            "part": lambda: objects.part("a", 0, 2, ""),
            "fetch": lambda: b"".join(objects.fetch("a")[1]),
        }
        found = dict[str, object]()
        for name, verb in verbs.items():
            client, role.token = objects.client, role.token + 1
            found[name] = verb()
            assert (objects.client is client) == (role.token == 1), name
    assert (found["write"], found["names"], found["tokens"]) == (9, {"a"}, ["a"])
    assert found["open"] == found["open_at_end"] == found["fetch"] == b"of a blob"
    assert (found["token"], found["part"]) == (True, b"of")


def test_a_store_that_denies_new_credentials_as_well_is_asked_twice(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    def denied(store: object, *_: Any) -> None:
        asked.append(store)
        raise obstore.exceptions.PermissionDeniedError(
            "status code: 403: <Code>AccessDenied</Code>"
        )

    monkeypatch.setattr(obstore, "head", denied)
    with pytest.raises(StoreRefused, match="refuses the credentials of this process"):
        objects.token("a")
    assert len({*map(id, asked)}) == len(asked) == 2
