"""Errors: four parts in one line, and the same after a journey between processes.

Tested here: `kernel.core.errors`. Not tested here: who raises which (each refusal is tested beside
its rule).
"""

import pickle

import pytest

from backfill_assets.kernel.core import errors
from backfill_assets.kernel.core.errors import (
    BackfillError,
    EngineLost,
    SettingsError,
    Superseded,
    TransientError,
    errors_of_source,
)

PARTS = ("the table raw", "2 files are missing", "Nothing was written", "Put them back")
KINDS = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, BackfillError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_reads_object_culprit_consequence_fix(kind: type[BackfillError]) -> None:
    assert (
        str(kind(*PARTS))
        == "the table raw: 2 files are missing. Nothing was written. Put them back."
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_a_journey_between_processes(kind: type[BackfillError]) -> None:
    there = kind(*PARTS)
    back = pickle.loads(pickle.dumps(there))  # noqa: S301 - our own bytes
    assert type(back) is kind
    assert (back.object, back.culprit, back.consequence, back.fix) == PARTS
    assert str(back) == str(there)


def test_what_is_wrong_with_settings_is_told_of_the_section_that_a_source_has() -> None:
    wrong = SettingsError(
        "[source] select in lake.toml", "it lacks seq", "Nothing was read", "See [source] select"
    )
    with pytest.raises(SettingsError) as named, errors_of_source("truth"):
        raise wrong
    assert (named.value.object, named.value.fix) == (
        "[sources.truth] select in lake.toml",
        "See [sources.truth] select",
    )
    with pytest.raises(SettingsError) as alone, errors_of_source(""):
        raise wrong
    assert alone.value is wrong


def test_only_what_a_later_call_may_survive_is_transient() -> None:
    assert {k for k in KINDS if issubclass(k, TransientError)} == {
        TransientError,
        EngineLost,
        Superseded,
    }
