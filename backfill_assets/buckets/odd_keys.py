"""Objects of S3 beside keys that its client takes for no path (`a//b`, `..`, control signs): a
listing of our own.

The client ends a whole listing at the first such key, so that one stray object kept all others from
being read. Not here: all other requests (`objects`), and stores of another kind, whose listings
stay refused by the key's name.
"""

import hashlib
import hmac
import os
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import datetime
from urllib.parse import quote, unquote_plus, urlencode, urlsplit
from xml.etree import ElementTree

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.place.port import Token

ANSWER_SECONDS = 30.0  # for one answer
MOST_PAGES = 10_000  # of a thousand objects each: a store that repeats itself ends
EMPTY_BODY_SHA256 = hashlib.sha256(b"").hexdigest()


def list_odd_keys(bucket: str, prefix: str, after: str) -> dict[str, Token] | None:
    """The objects below a prefix of a bucket (`s3://NAME`) whose keys come after one, whatever
    their keys; None where the environment has no key to sign a request with, or the store does not
    answer it."""
    if not bucket.startswith("s3://") or not os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    try:
        return dict(_listed_objects(bucket.removeprefix("s3://"), prefix, after))
    except (OSError, ValueError, KeyError, AttributeError, ElementTree.ParseError):
        return None


def _listed_objects(bucket: str, prefix: str, after: str) -> Iterator[tuple[str, Token]]:
    """The keys below a prefix and their tokens, by as many requests as the store needs."""
    asked = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
    if after:
        asked["start-after"] = after
    for _ in range(MOST_PAGES):
        page = ElementTree.fromstring(_signed_answer(bucket, asked))  # noqa: S314  # of the person's own store
        is_quoted = _child_text(page, "EncodingType") == "url"
        for found in page.iterfind("{*}Contents"):
            key = _child_text(found, "Key")
            if is_quoted:
                key = unquote_plus(key, errors="surrogateescape")
            yield key.removesuffix("/"), _listed_token(found)
        if _child_text(page, "IsTruncated") != "true":
            return
        asked["continuation-token"] = _child_text(page, "NextContinuationToken")
    raise ValueError(bucket)


def _child_text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""


def _listed_token(found: ElementTree.Element) -> Token:
    moment = datetime.fromisoformat(_child_text(found, "LastModified"))
    return Token((_child_text(found, "ETag"),), int(_child_text(found, "Size")), moment.timestamp())


def _signed_answer(bucket: str, asked: Mapping[str, str]) -> bytes:
    """The body of one signed listing request. Raises OSError."""
    environ = os.environ
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = environ.get("AWS_ENDPOINT_URL") or environ.get("AWS_ENDPOINT")
    store = endpoint or f"https://s3.{region}.amazonaws.com"
    base = urlsplit(f"{store.rstrip('/')}/{bucket}")
    if base.scheme not in ("http", "https"):
        raise ValueError(base.scheme)
    query = urlencode(sorted(asked.items()), quote_via=quote, safe="")
    headers = signed_headers(base.netloc, base.path, query, region, utc_now())
    url = f"{base.scheme}://{base.netloc}{base.path}?{query}"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # its scheme was looked at
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
        return bytes(answer.read())


def signed_headers(host: str, path: str, query: str, region: str, now: datetime) -> dict[str, str]:
    """The headers of a GET request of a moment in UTC, signed by the environment's key as AWS asks
    for (Signature Version 4)."""
    moment, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    headers = {"host": host, "x-amz-content-sha256": EMPTY_BODY_SHA256, "x-amz-date": moment}
    if token := os.environ.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = token
    names = ";".join(sorted(headers))
    listed = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    asked = "\n".join(["GET", quote(path), query, listed, names, EMPTY_BODY_SHA256])
    scope = f"{day}/{region}/s3/aws4_request"
    digest = hashlib.sha256(asked.encode()).hexdigest()
    signature = _signature(f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}", scope)
    credential = f"Credential={os.environ['AWS_ACCESS_KEY_ID']}/{scope}"
    words = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "Authorization": words}


def _signature(text: str, scope: str) -> str:
    """The signature of a text by the key that the environment's key gives for a scope (day, region,
    service and `aws4_request`)."""
    key = f"AWS4{os.environ['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()
