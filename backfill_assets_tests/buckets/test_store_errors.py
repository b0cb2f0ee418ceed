"""What a store answers: one error per condition, which names the address and never a key.
Not here: what a command prints of them."""

import os
import pickle
import re
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest
import requests
from deltalake import DeltaTable

from backfill_assets.buckets.bucket import Bucket
from backfill_assets.buckets.objects import Objects
from backfill_assets.buckets.store_errors import Denied, port_error
from backfill_assets.kernel.core.errors import BackfillError, TransientError
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.port import StoreLost, StoreRefused
from backfill_assets_tests.azure_role import CONTAINER, azure_role
from backfill_assets_tests.stores import versitygw

ANSWER = (
    "Server returned non-2xx status code: {} X: "
    "<?xml?><Error><Code>{}</Code><AWSAccessKeyId>SECRET1</AWSAccessKeyId>"
)


@pytest.mark.parametrize(
    ("state", "code", "kind", "words"),
    [
        (
            403,
            "SignatureDoesNotMatch",
            StoreRefused,
            "refuses the credentials of this process .SignatureDoesNotMatch",
        ),
        (400, "ExpiredToken", StoreRefused, "have expired .ExpiredToken.*Renew them"),
        (403, "RequestTimeTooSkewed", StoreRefused, "the clock of this machine is off .*Set it"),
        (404, "NoSuchBucket", StoreRefused, "there is no such bucket"),
        (301, "PermanentRedirect", StoreRefused, "lies in another region"),
        (400, "InvalidArgument", StoreRefused, "does not take the request .InvalidArgument"),
        (409, "ConditionalRequestConflict", StoreLost, "another request for the same name"),
        (409, "LeaseIdMissing", StoreLost, "another request for the same name"),
        (503, "SlowDown", StoreLost, "answers SlowDown again and again"),
    ],
)
def test_each_answer_is_an_error_with_address_and_no_key(
    state: int, code: str, kind: type[BackfillError], words: str
) -> None:
    from obstore.exceptions import GenericError

    error = port_error("s3://bucket/lake/a", GenericError(ANSWER.format(state, code)))
    assert isinstance(error, kind)
    with pytest.raises(OSError, match=f"^s3://bucket/lake/a: .*{words}"):
        raise error
    assert "SECRET1" not in str(error)
    assert isinstance(error, TransientError) == (kind is StoreLost)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # of this very test
    assert (type(again), str(again)) == (type(error), str(error))
    asked = (
        "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 5s - "
        "HTTP error"
    )
    assert "no credentials for it were found" in str(
        port_error("s3://bucket/lake", GenericError(asked))
    )


def test_what_delta_rs_was_answered_is_named_as_what_this_client_was(
    bucket_address: str, tmp_path: Path
) -> None:
    place = Bucket(bucket_address, str(tmp_path))
    for answer, kind in (
        (ANSWER.format(400, "ExpiredToken"), StoreRefused),
        (ANSWER.format(503, "SlowDown"), StoreLost),
    ):
        with pytest.raises(kind) as caught:
            place.refuse_loss(OSError(f"Generic S3 error: {answer}"))
        assert str(caught.value).startswith(bucket_address)
        assert "SECRET1" not in str(caught.value)
    place.refuse_loss(OSError("Invalid JSON in log record"))


@pytest.mark.parametrize("state", [401, 403])
def test_delta_rs_whose_token_ended_is_told_as_this_client_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: int
) -> None:
    place = Bucket(f"az://{CONTAINER}/tables/t", str(tmp_path))
    with azure_role() as role:
        for name, value in role.environment.items():
            monkeypatch.setenv(name, value)
        role.is_closed, role.denies_by = True, state
        with pytest.raises(OSError, match="lacked") as said:
            DeltaTable(place.uri())
    with pytest.raises(Denied, match=r"az://lake/tables/t: the store refuses the credentials"):
        place.refuse_loss(said.value)


BUSY_TIMES = 8  # more than a client with six retries asks


class BusyStore(BaseHTTPRequestHandler):
    """It says so many times that it is busy, then that there is no such object."""

    asked = 0

    def do_HEAD(self) -> None:
        """Answer."""
        BusyStore.asked += 1
        self.send_response(503 if BusyStore.asked <= BUSY_TIMES else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.slow
def test_a_store_that_is_busy_for_seconds_is_asked_until_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BusyStore) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        of_store = {"ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "ACCESS_KEY_ID": "x"}
        for name, value in {**of_store, "SECRET_ACCESS_KEY": "x", "ALLOW_HTTP": "true"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        assert Objects("s3://bucket").token("a") is None
        server.shutdown()
    assert BusyStore.asked == BUSY_TIMES + 1


ALONE: tuple[Callable[[Objects], object], ...] = (
    lambda store: store.token("a"),
    lambda store: store.names(""),
    lambda store: store.write("a", b"", True, None),
)


def test_a_store_that_is_not_there_is_told_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    environ = {
        "ENDPOINT_URL": endpoint,
        "ACCESS_KEY_ID": "x",
        "SECRET_ACCESS_KEY": "SECRET1",
        "ALLOW_HTTP": "true",
    }
    for name, value in environ.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for asked in ALONE:
        with pytest.raises(StoreLost, match=r"^s3://bucket.*: the store does not answer") as caught:
            asked(Objects("s3://bucket", retries=0))
        assert "SECRET1" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_bucket_that_is_not_there_is_refused_by_its_address(
    bucket_address: str, tmp_path: Path
) -> None:
    place = Bucket("s3://none-of-that-name/lake", str(tmp_path))
    for asked in (lambda: place.names(), lambda: place.write("a", b"")):
        with pytest.raises(
            StoreRefused, match=r"^s3://none-of-that-name/lake.*: there is no such bucket"
        ):
            asked()


@pytest.mark.parametrize("name", ["in//e.csv", "in/e\x07.csv"])
def test_an_object_whose_name_no_path_can_have_is_refused_by_its_name(
    bucket_address: str, name: str
) -> None:
    bucket = bucket_address.split("/")[2]
    requests.put(
        f"{os.environ['AWS_ENDPOINT_URL']}/{bucket}/{quote(name)}", data=b"x", timeout=60
    ).raise_for_status()
    with pytest.raises(
        StoreRefused, match=f"a name that no path can have: {re.escape(printable_text(name))}"
    ):
        Objects(f"s3://{bucket}").tokens("in")


@pytest.mark.usefixtures("processes")
def test_wrong_credentials_are_refused_by_the_address_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with versitygw() as server:
        for name, value in {**server.environment, "AWS_SECRET_ACCESS_KEY": "SECRET1"}.items():
            monkeypatch.setenv(name, value)
        bucket = Objects(server.new_bucket())
        for asked in ALONE:
            with pytest.raises(
                StoreRefused, match=r"the store refuses the credentials of this process"
            ) as caught:
                asked(bucket)
            assert not {"SECRET1", "AccessKey", "Signature:"} & {*str(caught.value).split()}
            assert str(caught.value).startswith(bucket.bucket)
