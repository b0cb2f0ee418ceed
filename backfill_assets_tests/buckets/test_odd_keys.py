"""Beside keys that are no paths the other objects of a bucket are listed, with the tokens that the
client gives them.

Not here: what a scan says of such keys (`intake.test_object_listing`).
"""

import http.client
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from backfill_assets.buckets.objects import Objects
from backfill_assets.buckets.odd_keys import list_odd_keys, signed_headers
from backfill_assets.kernel.place.choice import bucket_prefix_at
from backfill_assets.kernel.place.port import OddKeys
from backfill_assets_tests.stores import StoreServer

ODD = [
    "landing//x.csv",
    "landing/a/../x.csv",
    "landing/./x.csv",
    "landing/x\ry.csv",
    "landing/x\x7fy.csv",
]


def put_key(server: StoreServer, bucket: str, key: str) -> None:
    """Write an object under a key that the store's client refuses to name."""
    made = http.client.HTTPConnection(server.endpoint.removeprefix("http://"), timeout=60)
    made.request("PUT", f"/{bucket.removeprefix('s3://')}/{quote(key)}", b"odd")
    assert made.getresponse().status == 200
    made.close()


@pytest.mark.parametrize("odd", ODD)
def test_beside_an_odd_key_all_others_are_listed_with_their_tokens(
    bucket_address: str, moto_server: StoreServer, odd: str
) -> None:
    bucket = bucket_address.rpartition("/")[0]
    place = bucket_prefix_at(f"{bucket}/landing")
    for name in ("2024-03-01.csv", "a b+c%20é.csv", "deep/er/x.csv"):
        place.write(name, name.encode())
    before = place.tokens()
    put_key(moto_server, bucket, odd)
    with pytest.raises(
        OddKeys, match="an object below it has a name that no path can have"
    ) as told:
        place.tokens()
    assert told.value.odd == (odd.removeprefix("landing/"),)
    assert told.value.good == before
    assert [told.value.good[name].size for name in before] == [before[name].size for name in before]


def test_a_listing_of_several_pages_begins_behind_a_key(bucket_address: str) -> None:
    bucket = bucket_address.rpartition("/")[0]
    place = bucket_prefix_at(f"{bucket}/landing")
    for number in range(1_002):
        place.write(f"{number:04d}.csv", b"")
    assert list_odd_keys(bucket, "landing/", "landing/0000.csv") == Objects(bucket).tokens(
        "landing", "landing/0000.csv"
    )


def test_without_a_key_to_sign_with_the_refusal_stands(
    bucket_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = bucket_address.rpartition("/")[0]
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert list_odd_keys(bucket, "", "") is None
    assert list_odd_keys("az://container", "", "") is None


@pytest.mark.parametrize("token", ["", "TOKEN"])
def test_a_request_is_signed_as_the_client_of_aws_signs_it(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    auth, request_of = (
        pytest.importorskip("botocore.auth"),
        pytest.importorskip("botocore.awsrequest"),
    )
    credentials = pytest.importorskip("botocore.credentials").Credentials(
        "KEY", "SECRET", token or None
    )
    named = {
        "AWS_ACCESS_KEY_ID": "KEY",
        "AWS_SECRET_ACCESS_KEY": "SECRET",
        "AWS_SESSION_TOKEN": token,
    }
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    query = "encoding-type=url&list-type=2&prefix=a%20b%2F%C3%A9%2B&start-after=x~y"
    headers = signed_headers(
        "s3.eu-west-1.amazonaws.com",
        "/bucket",
        query,
        "eu-west-1",
        datetime(2024, 3, 1, 9, tzinfo=UTC),
    )
    signer = auth.S3SigV4Auth(credentials, "s3", "eu-west-1")
    asked = request_of.AWSRequest("GET", f"https://s3.eu-west-1.amazonaws.com/bucket?{query}")
    asked.context["timestamp"] = headers["x-amz-date"]
    signer._modify_request_before_signing(asked)
    signature = signer.signature(
        signer.string_to_sign(asked, signer.canonical_request(asked)), asked
    )
    assert headers["Authorization"].endswith(f"Signature={signature}")
