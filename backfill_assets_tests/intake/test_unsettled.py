"""A comparison that looks only at what is not plainly as recorded says what one of all files and all
records says. Not here: what a comparison says of a file (`test_landed_changes`)."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.content_store import content_name_by_path
from backfill_assets.intake.landed_changes import (
    Comparison,
    ListingPart,
    counting_digest,
    listing_and_ledger,
    look_at_landing,
    look_beside,
)
from backfill_assets.intake.landed_days import append_events
from backfill_assets.intake.ledger import LOADED_BEFORE, WITHDRAWN, read_files
from backfill_assets.intake.unsettled import count_records, unsettled, with_contents
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.session import Session
from backfill_assets_tests.files import SMALLEST
from backfill_assets_tests.intake.test_landed_days import cells, event

SEEN = datetime(2024, 3, 1, 9, tzinfo=UTC)
NANOSECONDS = 1_000_000_000
WRITTEN = int(SEEN.timestamp()) * NANOSECONDS  # of a file, when it was first scanned
PATHS = ("a.jsonl", "b.jsonl", "sub/c.jsonl")
TEXTS = (b"one\n", b"two\n", b"three\n")  # two of one size
SHAS = {hashlib.sha256(text).hexdigest(): len(text) for text in TEXTS}
DAYS = 2 * 86_400 * NANOSECONDS  # so much later it was scanned too early
# What an event may say otherwise than that the file of its path landed as it lies there.
OTHERWISE: tuple[dict[str, Any], ...] = (
    {"event": WITHDRAWN, "rows": 0, "usable_rows": 0},
    {"mtime_ns": WRITTEN + DAYS},
    {"mtime_ns": WRITTEN + 1},
    {"usable_rows": 0},
    {"counted_by": "before"},
    {"counted_by": "today declared"},
    {"note": "it is no file"},
    {"note": f"{LOADED_BEFORE}its totals differ"},
)
Folder = Mapping[str, tuple[bytes, int]]  # text and nanoseconds since it was first scanned


@st.composite
def histories(draw: st.DrawFn) -> tuple[Folder, list[dict[str, Any]]]:
    """A landing folder, and events."""
    texts = {path: draw(st.sampled_from(TEXTS)) for path in PATHS}
    events = []
    for _ in range(draw(st.integers(1, 5))):
        path = draw(st.sampled_from(PATHS))
        text = draw(st.sampled_from((texts[path], texts[path], *TEXTS)))
        sha = hashlib.sha256(text).hexdigest()
        name = draw(st.sampled_from((sha, sha, content_name_by_path(sha, path))))
        file = {"size": len(text), "mtime_ns": WRITTEN, "counted_by": "today"}
        other = draw(st.sampled_from(({}, {}, {}, *OTHERWISE)))
        events.append(event(path, name, 0, **file) | other)
    ages = st.sampled_from((0, 0, 0, 1, DAYS))
    listed = draw(st.lists(st.sampled_from((*PATHS, *PATHS)), unique=True))
    return {path: (texts[path], draw(ages)) for path in listed}, events


def lake_with(root: Path, select: str, folder: Folder) -> Lake:
    """A lake with these landed files."""
    root.mkdir(exist_ok=True)
    settled = SMALLEST.replace('select = "*"', f'select = "{select}"')
    (root / FILE_NAME).write_text(settled)
    (root / "landing").mkdir()
    for name, (text, age) in folder.items():
        file = root / "landing" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text)
        os.utime(file, ns=(0, WRITTEN + age))
    return open_lake(root)


def in_order(found: Comparison) -> dict[str, list[Any]]:
    """The lists of a comparison. Their values are compared, not their texts: libraries differ in
    what they call UTC."""
    return {name: sorted(values, key=str) for name, values in vars(found).items()}


def whole(lake_session: Session) -> ListingPart:
    """All files, all records."""
    listing, records = listing_and_ledger(lake_session)
    return ListingPart(listing, listing, records)


@given(histories(), st.sampled_from(("*", "at AS arrival_ts")))
@settings(max_examples=40, deadline=None)
def test_what_is_plainly_as_recorded_changes_no_comparison(
    tmp_path_factory: pytest.TempPathFactory,
    history: tuple[Folder, list[dict[str, Any]]],
    select: str,
) -> None:
    folder, events = history
    lake = lake_with(tmp_path_factory.mktemp("lake"), select, folder)
    today = counting_digest(lake.settings)
    for number, facts in enumerate(events):
        by, at = facts["counted_by"].replace("today", today), SEEN + timedelta(seconds=number)
        append_events(lake, cells([facts | {"recorded_at": at, "counted_by": by}]), "scan", "")
    for to_scan in (False, True):
        look, on = look_at_landing(LakeSession(lake), to_scan), LakeSession(lake)
        expected, records = look_beside(on, whole(on), to_scan), look.records
        every = expected.records
        assert in_order(look.comparison) == in_order(expected.comparison)
        assert [r for r in records if r not in every] == []
    assert count_records(lake) == len(every)
    contents = {*[*SHAS][:1]}
    known = with_contents(lake, records, contents)
    assert [r for r in every if r.sha256 in contents] == [r for r in known if r.sha256 in contents]
    shutil.rmtree(lake.root)


def test_files_that_are_plainly_as_recorded_are_no_objects(tmp_path: Path) -> None:
    folder = dict.fromkeys(PATHS, (TEXTS[0], 0))
    lake = lake_with(tmp_path / "lake", "*", folder)
    today, (sha, size) = counting_digest(lake.settings), next(iter(SHAS.items()))
    landed = [
        event(name, sha, 0, size=size, mtime_ns=WRITTEN, counted_by=today) for name in PATHS[:2]
    ]
    append_events(lake, cells(landed), "scan", "")
    listing, _ = listing_and_ledger(LakeSession(lake))
    files, records = unsettled(lake, listing, today, SEEN, by_path=False)
    assert ([f.name for f in files], records) == ([PATHS[2]], [])
    assert [r.path for r in with_contents(lake, records, {sha})] == [*PATHS[:2]]
    assert len(read_files(lake.store)) == count_records(lake) == 2
    _, records = unsettled(lake, replace(listing, files=()), today, SEEN, by_path=False)
    assert [r.path for r in records] == [*PATHS[:2]]
