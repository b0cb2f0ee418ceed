"""Which lake versions go: what each instant reads is at most an hour, later a day, before what was
read then. Not here: what else upkeep does (`upkeep.test_maintain`)."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.versions import KeptEntries, LakeVersion, entry_name
from backfill_assets.upkeep.thinning import ALL_STAY, HOURLY_STAY, Thinned, unneeded_entries
from backfill_assets_tests.strategies import examples

NOW = datetime(2026, 5, 20, 12, 30, tzinfo=UTC)
ROLLBACK = timedelta(days=90)


def write_entries(place: Folder, times: Sequence[datetime], first: int = 1) -> None:
    for number, at in enumerate(times, first):
        entry = LakeVersion(number, {"staging": number}, at, "me", "a run", ())
        place.write(entry_name(number), json.dumps(json_of(entry)).encode())


def thin(
    place: Folder,
    now: datetime,
    thinned: Thinned,
    named: Sequence[datetime] = (),
    stopped_after: int | None = None,
) -> Thinned:
    """Delete what can go, or (`stopped_after`) some of it before the process is killed."""
    entries = KeptEntries(place)
    unneeded, reached = unneeded_entries(entries, now - ROLLBACK, now, lambda: named, thinned)
    entries.delete(unneeded[:stopped_after])
    return reached if stopped_after is None else thinned


def kept_times(place: Folder) -> list[datetime]:
    entries = KeptEntries(place)
    return [entries.entry(index).at for index in range(len(entries.numbers))]


def read_at(times: Sequence[datetime], instant: datetime) -> datetime | None:
    return max((at for at in times if at <= instant), default=None)


def is_same_period(one: datetime, other: datetime, age: timedelta) -> bool:
    """Whether two times are of the hour, or day, of which one entry stays at that age."""
    if age > HOURLY_STAY:
        return one.date() == other.date()
    return one.replace(minute=0, second=0) == other.replace(minute=0, second=0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 7, 50, 60, 61, 600, 1500, 6000]),  # minutes to the next entry
        st.sampled_from(["write", "write", "write", "thin", "kill", "forget", "name", "back"]),
    ),
    min_size=3,
    max_size=60,
)


@given(STEPS)
@settings(max_examples=examples(40), deadline=None)
def test_every_instant_reads_what_was_seen_then_or_in_the_same_hour_or_day(
    steps: Sequence[tuple[int, str]],
) -> None:
    """After any thinning, killed ones, a forgotten place, and one by a machine whose clock is
    behind."""
    with TemporaryDirectory() as folder:
        place, now, times = Folder(folder), NOW, list[datetime]()
        named, thinned = list[datetime](), Thinned()
        for minutes, step in steps:
            now += timedelta(minutes=minutes)
            if step == "write":
                times.append(now)
                write_entries(place, [now], len(times))
            elif step == "name":
                named.append(now)
            elif step == "forget":
                thinned = Thinned()
            else:
                clock = now - timedelta(days=20) if step == "back" else now
                killed = 2 if step == "kill" else None
                thinned = thin(place, clock, thinned, named, killed)
        now += timedelta(days=9)
        thin(place, now, thinned, named)
        kept = kept_times(place)
        assert kept[-1:] == times[-1:], "the newest stays"
        for at in [at for at in times if at >= now - ROLLBACK]:
            found = [k for k in kept if k >= at]
            assert found
            assert at in kept or (now - at > ALL_STAY and is_same_period(at, found[0], now - at)), (
                "only an entry of the same hour or day takes its place"
            )
        for instant in [at for at in named if at >= now - ROLLBACK]:
            seen = read_at(times, instant)
            is_promised = seen is not None and seen >= now - ROLLBACK
            assert not is_promised or read_at(kept, instant) == seen


def test_of_a_year_stay_a_week_whole_three_weeks_by_the_hour_and_the_rest_by_the_day(
    tmp_path: Path,
) -> None:
    place = Folder(str(tmp_path))
    write_entries(place, [NOW - timedelta(minutes=20 * n) for n in range(120 * 72, -1, -1)])
    thinned = thin(place, NOW, Thinned())
    ages = [NOW - at for at in kept_times(place)]
    whole = [age for age in ages if age < ALL_STAY]
    hourly = [age for age in ages if ALL_STAY <= age < HOURLY_STAY]
    assert len(whole) == 7 * 72
    assert len(hourly) in range(23 * 24, 23 * 24 + 2)
    assert len(ages) - len(whole) - len(hourly) in range(60, 62)
    assert thin(place, NOW, thinned) == thinned
    assert [NOW - at for at in kept_times(place)] == ages, "nothing more goes at once"


def test_a_log_that_was_made_anew_is_thinned_from_its_beginning(tmp_path: Path) -> None:
    old, anew = Folder(str(tmp_path / "old")), Folder(str(tmp_path / "anew"))
    times = [NOW - timedelta(days=20, minutes=n) for n in range(120, 0, -1)]
    write_entries(old, times)
    write_entries(anew, [at + timedelta(seconds=1) for at in times])
    thinned = thin(old, NOW, Thinned())
    assert thinned != Thinned()
    thin(anew, NOW, thinned)
    assert len(kept_times(anew)) == len(kept_times(old)) == 4
