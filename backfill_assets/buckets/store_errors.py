"""What an object store answers, as the conditions and errors of the port.

Not here: requests (`bucket`). An answer's text may quote a key, so none of it but its code and its
state is shown.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import TransientError
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.port import (
    AlreadyThere,
    Changed,
    Gone,
    OddKeys,
    Place,
    StoreLost,
    StoreRefused,
)

# delta-rs breaks its causes into lines, each behind a coloured sign.
CODE, STATE = re.compile(r"<Code>(\w+)</Code>"), re.compile(r"status code(?:\x1b\[\d+m|\W)*(\d{3})")
WAS_RETRIED = re.compile(r"\bretries: [1-9]|after [1-9]\d* retries")  # by the client itself
# Azure says so with the state 409, by which others say that they are busy.
ALREADY_THERE_CODES = ("BlobAlreadyExists",)
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "InvalidBucketName")
EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired")
OLD_SIGNATURE = "Signature not valid in the specified time frame"  # of Azure, whose code says less
DENYING_STATES = ("401", "403")
OTHER_TIME = ("RequestTimeTooSkewed", "RequestInTheFuture")
NO_CREDENTIALS = re.compile(
    r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google|[Cc]redential|missing .*[Kk]ey"
)
ODD_NAME = re.compile(r"with invalid path: .*?[Pp]ath \"(.*?)\" ?(?:contained|:)", re.DOTALL)
REGION = ("AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException")
# In errors of delta-rs: the store did not answer, or denied the request.
OF_STORE = re.compile(r"object store|Generic \w+ error|The operation lacked")
OLD_LIST = re.compile(r"end version (\d+) not the same as the specified end version (\d+)")
NOTHING_WAS_DONE = "Nothing was read or written by this request"
RENEW_CREDENTIALS = (
    "Renew them (`aws sso login`, a new token in AWS_SESSION_TOKEN), in the environment of every "
    "process of this lake: a server or daemon keeps those that it was started with; a role renews "
    "itself"
)
SET_CLOCK = (
    "Set it, and let it be kept by NTP (`timedatectl set-ntp true`); a container has its host's "
    "clock"
)
SET_CREDENTIALS = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (for az://: AZURE_STORAGE_ACCOUNT_NAME and "
    "its key), or run on a machine or in a pod that has a role"
)


class Busy(StoreLost):
    """The store meets another request for the same name (409): nothing was written, and it may be
    tried again."""


class Denied(StoreRefused):
    """The store does not let these credentials in: they may have ended, so that a client which
    reads them anew may be let in."""


class ChangedAfterAll(Changed):
    """The object is another now, and the request was repeated: an earlier turn of it may have been
    done before that."""


@contextmanager
def translated_errors(address: str) -> Iterator[None]:
    """Raise what the store answers about an address as the port's condition, or as an error that
    names the address."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (FileNotFoundError, BaseError) as error:
        raise port_error(address, error) from None  # its text and its cause may quote keys


def port_error(address: str, error: Exception) -> OSError:
    """The port's error for an error of obstore's."""
    from obstore import exceptions as of

    text = str(error)
    code, state = _answered_code(text)
    if code in NO_BUCKET:
        return _no_bucket_error(address)
    if state == "409" and code not in ALREADY_THERE_CODES:
        return Busy(
            address,
            "the store meets another request for the same name (409)",
            NOTHING_WAS_DONE,
            "Run again",
        )
    changed = ChangedAfterAll if WAS_RETRIED.search(text) else Changed
    for kind, condition, number in (
        (FileNotFoundError, Gone, errno.ENOENT),
        (of.AlreadyExistsError, AlreadyThere, errno.EEXIST),
        (of.PreconditionError, changed, errno.ESTALE),
        (of.NotModifiedError, Changed, errno.ESTALE),
    ):
        if isinstance(error, kind):
            return condition(number, os.strerror(number), address)
    return _refused_request_error(address, text, code, state) or lost_request_error(
        address, text, code, state
    )


def _answered_code(text: str) -> tuple[str, str]:
    """The code and the state that a store answered, as an error's text has them; empty where it has
    none."""
    code, state = CODE.search(text), STATE.search(text)
    return code[1] if code else "", state[1] if state else ""


def _no_bucket_error(address: str) -> StoreRefused:
    return StoreRefused(
        address,
        "there is no such bucket (or container)",
        NOTHING_WAS_DONE,
        "Create it, or correct the address; this program creates none",
    )


def _refused_request_error(address: str, text: str, code: str, state: str) -> StoreRefused | None:
    """The error if another identical request cannot succeed."""
    if found := ODD_NAME.search(text):
        return OddKeys(
            address,
            f"an object below it has a name that no path can have: {printable_text(found[1])}",
            NOTHING_WAS_DONE,
            "Delete the object, or give it a name without empty parts, dots alone, and control "
            "characters",
        )
    cause = _cause_in_setup(text, code, state) or _cause_in_rights(text, code, state)
    if cause is None:
        return None
    culprit, fix = cause
    kind = Denied if _may_have_ended(text, code, state) else StoreRefused
    return kind(address, culprit, NOTHING_WAS_DONE, fix)


def _may_have_ended(text: str, code: str, state: str) -> bool:
    """Whether the store may have answered so because the credentials ended; an answer to HEAD has
    no code."""
    is_told = code in EXPIRED or OLD_SIGNATURE in text
    return is_told or state in DENYING_STATES or (state == "400" and not code)


def _cause_in_setup(text: str, code: str, state: str) -> tuple[str, str] | None:
    """Culprit and fix if region, clock or credentials of this process are wrong or absent; `text`,
    `code` and `state` are the store's."""
    if code in REGION:
        culprit = f"the bucket lies in another region ({code})"
        return culprit, "Set AWS_REGION to the bucket's region"
    if code in EXPIRED or OLD_SIGNATURE in text:
        return f"the credentials of this process have expired ({code or state})", RENEW_CREDENTIALS
    if code in OTHER_TIME:
        culprit = (
            f"the clock of this machine is off by more than the store allows ({code}); it shows "
            f"{utc_now():%Y-%m-%d %H:%M:%S} UTC"
        )
        return culprit, SET_CLOCK
    own_words = text.partition("<?xml")[0]  # of the client, before the store's
    if not code and NO_CREDENTIALS.search(own_words):
        culprit = "no credentials for it were found, neither in the environment nor of this machine"
        return culprit, SET_CREDENTIALS
    return None


def _cause_in_rights(text: str, code: str, state: str) -> tuple[str, str] | None:
    """Culprit and fix if the store knows this process and denies the request; `text`, `code` and
    `state` are the store's."""
    if state in DENYING_STATES or "Permission" in text[:40]:
        return (
            f"the store refuses the credentials of this process ({code or state})",
            "Check whose they are and what they may do: list, read, write and delete below this "
            "address",
        )
    may_pass_later = state in ("408", "429")
    if state.startswith("4") and not may_pass_later:
        return (
            f"the store does not take the request ({code or state})",
            "Check the address and the region; `backfill-assets doctor` tries each kind of request",
        )
    return None


def lost_request_error(address: str, text: str = "", code: str = "", state: str = "") -> StoreLost:
    """The error of a request of which nobody knows whether it was done."""
    culprit = "the store does not answer"
    if answer := code or state:
        culprit = f"the store answers {answer} again and again"
    if "timed out" in text or "TimedOut" in text:
        culprit = "the store does not answer in time"
    return StoreLost(
        address,
        culprit,
        "Whether this request was done is not known; nothing is half written",
        "Check the network and, for a store of your own, AWS_ENDPOINT_URL (AWS_ALLOW_HTTP for "
        "http); then run again",
    )


def refuse_lost_request(place: Place, error: Exception, expected: str) -> None:
    """Raise this package's own error for one of a program that reads a place in a store, where the
    store is the cause; return where it is not, so that the caller raises `error` itself.

    The cause is the store where the error's text says that it did not answer (StoreRefused if a
    retry cannot help, else StoreLost), or that it lists no file `expected` (a name in the place;
    "": none), which is there (TransientError). Nothing of that text is shown: it may quote a key.
    """
    text = str(error)
    if OF_STORE.search(text):
        raise _refused_request_error(
            place.uri(), text, *_answered_code(text)
        ) or lost_request_error(place.uri()) from None
    found = OLD_LIST.search(text)
    if found is not None and expected and place.exists(expected):
        raise TransientError(
            f"the table {place.name}",
            f"its store lists its log up to version {found[1]}, though version {found[2]} is there",
            NOTHING_WAS_DONE,
            "Run again; a store whose listings stay old breaks what is asked of it "
            "(`backfill-assets doctor`)",
        ) from None
