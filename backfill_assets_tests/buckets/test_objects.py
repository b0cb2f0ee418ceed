"""Requests to an object store: a lost answer is decided by the nonce, a busy name is tried again,
an end comes alone. Not here: the port's promises (`test_bucket`)."""

import os
import warnings
from typing import Any

import obstore
import pytest

from backfill_assets.buckets.objects import END_BYTES, Objects
from backfill_assets.buckets.store_errors import Busy
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.port import AlreadyThere, Changed, Token


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
