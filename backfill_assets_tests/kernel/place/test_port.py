"""The port of places: what every filling of it promises, run here through the folder.

Tested here: the verbs of `kernel.place.port.Place` and the functions over them, by their effect
through the port alone, so that another filling is one more entry of `FILLINGS`. Not tested here:
what only a folder has (`kernel/place/test_folder`).
"""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import (
    AlreadyThere,
    Changed,
    Gone,
    Held,
    Place,
    table_lock,
)

FILLINGS: dict[str, Callable[[Path], Place]] = {"folder": lambda folder: Folder(str(folder))}
WRITERS = 8


def never(_name: str, _version: int) -> bool:
    """That the table has no version that a holder tried."""
    return False


@pytest.fixture(params=FILLINGS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place."""
    (tmp_path / "place").mkdir()
    return FILLINGS[request.param](tmp_path / "place")


def at_once(work: Callable[[int], object]) -> list[object]:
    """What so many threads get that do it at once: a result, or the condition that refused it."""

    def tried(number: int) -> object:
        try:
            return work(number)
        except (AlreadyThere, Changed) as error:
            return type(error)

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(tried, range(WRITERS)))


def test_a_place_below_another_is_a_value_with_the_last_part_of_its_name(place: Place) -> None:
    table = place.at("tables/raw")
    assert (table.name, table, len({table, place.at("tables/raw")})) == (
        "raw",
        place.at("tables").at("raw"),
        1,
    )
    place.write("tables/raw/a", b"1")
    assert table.read("a") == b"1"
    assert table.uri("a") == place.uri("tables/raw/a")


def test_what_is_written_is_listed_and_read_and_replaced_whole(place: Place) -> None:
    for content in (b"one\ntwo\n", b"three"):
        place.write("a/b.txt", content)
        assert place.read("a/b.txt") == content
    place.write("a/c/d.txt", b"")
    place.write("e", b"")
    assert sorted(place.names()) == ["a", "e"]
    assert sorted(place.names("a")) == ["b.txt", "c"]
    assert (place.below(), place.below("a/c")) == (["a/b.txt", "a/c/d.txt", "e"], ["a/c/d.txt"])
    assert (place.names("none"), place.names("e"), place.below("none")) == ([], [], [])


def test_files_are_read_in_lines_by_their_ends_and_by_their_digest(place: Place) -> None:
    place.write("a", b"one\ntwo\nthree")
    assert list(place.lines("a")) == [b"one\n", b"two\n", b"three"]
    assert (place.ends("a", 4), place.ends("a", 99)) == (
        (b"one\n", b"hree"),
        (b"one\ntwo\nthree",) * 2,
    )
    assert (place.size("a"), place.exists("a")) == (13, True)
    assert place.sha256("a") == hashlib.sha256(b"one\ntwo\nthree").hexdigest()


@pytest.mark.parametrize("count", [0, 3, 100_000])
def test_a_file_that_is_opened_at_its_end_is_read_anywhere(place: Place, count: int) -> None:
    content = bytes(range(256)) * (count // 256) + bytes(count % 256)
    place.write("a", content)
    with place.open("a", at_end=True) as opened:
        assert (opened.seek(-min(count, 9), 2), opened.read()) == (max(0, count - 9), content[-9:])
        assert (opened.seek(0), opened.read(), opened.read()) == (0, content, b"")
    with pytest.raises(Gone), place.open("b", at_end=True):
        pass


def test_what_is_gone_is_said_by_one_condition(place: Place) -> None:
    assert (place.token("a"), place.size("a"), place.exists("a"), place.read_json("a")) == (
        None,
        None,
        False,
        {},
    )
    readings: tuple[Callable[[], object], ...] = (
        lambda: place.read("a"),
        lambda: list(place.lines("a")),
        lambda: place.sha256("a"),
        lambda: place.ends("a", 1),
    )
    for reading in readings:
        with pytest.raises(Gone):
            reading()
    place.delete("a")  # harmless
    place.delete_below("a")


def test_a_token_changes_with_the_content_and_is_returned_by_the_write(place: Place) -> None:
    first = place.write("a", b"1")
    assert place.token("a") == first
    assert first.size == 1
    second = place.write("a", b"2", if_unchanged=first)
    assert place.token("a") == second != first


def test_a_file_is_created_once_and_never_replaced_by_a_creation(place: Place) -> None:
    place.write("new/a", b"first", if_absent=True)
    with pytest.raises(AlreadyThere):
        place.write("new/a", b"second", if_absent=True)
    assert (place.read("new/a"), place.names("new")) == (b"first", ["a"])


def test_a_file_is_replaced_only_where_it_is_the_one_that_was_seen(place: Place) -> None:
    seen = place.write("a", b"1")
    place.write("a", b"another's")
    with pytest.raises(Changed):
        place.write("a", b"2", if_unchanged=seen)
    assert (place.read("a"), place.names()) == (b"another's", ["a"])
    place.delete("a")
    with pytest.raises(Changed):
        place.write("a", b"2", if_unchanged=seen)
    assert place.names() == []


def test_of_many_that_create_a_file_at_once_one_does(place: Place) -> None:
    for number in range(20):
        found = at_once(
            lambda n, at=number: place.write(f"{at}", f"{n}".encode(), if_absent=True) and n  # type: ignore[misc]
        )
        assert [found.count(AlreadyThere), found[int(place.read(f"{number}"))]] == [
            WRITERS - 1,
            int(place.read(f"{number}")),
        ]


def test_a_counter_that_many_raise_at_once_misses_none(place: Place) -> None:
    place.write("n", b"0")

    def raised(_: int) -> int:
        while True:
            seen, now = place.token("n"), int(place.read("n"))
            try:
                place.write("n", f"{now + 1}".encode(), if_unchanged=seen)
            except Changed:
                continue
            return now

    assert sorted(map(int, map(str, at_once(raised)))) == list(range(WRITERS))
    assert (place.read("n"), place.names()) == (f"{WRITERS}".encode(), ["n"])


def test_a_finished_file_becomes_the_content_of_a_name(place: Place) -> None:
    for content in ("1", "2"):
        finished = place.prepared("work") / "finished"
        finished.write_text(content)
        place.put("at/last", finished)
        assert (place.read("at/last"), finished.exists()) == (content.encode(), False)


def test_a_further_name_keeps_the_content_when_the_first_goes(place: Place) -> None:
    other = place.at("other")
    other.write("a", b"1")
    place.link("kept/b", other, "a")
    other.delete("a")
    assert (place.read("kept/b"), other.names()) == (b"1", [])


def test_a_copy_has_bytes_of_its_own_and_replaces_what_had_its_name(place: Place) -> None:
    other = place.at("other")
    other.write("a", b"1")
    for content in (b"1", b"2"):
        other.write("a", content)
        place.copy("kept/b", other, "a")
        assert place.read("kept/b") == content
    other.delete("a")
    assert place.read("kept/b") == b"2"
    with pytest.raises(Gone):
        place.copy("kept/b", other, "a")


def test_files_are_deleted_alone_or_with_their_folder(place: Place) -> None:
    for name in ("a/1", "a/b/2", "a/b/c/3"):
        place.write(name, name.encode())
    place.delete("a/b/c/3")
    place.prune("a/b/c")
    assert place.below() == ["a/1", "a/b/2"]
    place.delete_below("a/b")
    assert (place.below(), place.names("a")) == (["a/1"], ["1"])


def test_many_files_are_deleted_at_once_and_those_that_are_gone_harm_nothing(place: Place) -> None:
    names = [f"a/{number}" for number in range(9)]
    for name in names[::2]:
        place.write(name, b"1")
    (place.prepared("a") / "9").write_bytes(b"not sent yet")
    place.delete_all([*names[1:], "a/9"])
    place.delete_all([])
    assert place.below() == ["a/0"]


def test_what_engines_write_and_read_is_found_by_name(place: Place) -> None:
    (place.prepared("writes/1") / "part-0.parquet").write_bytes(b"rows")
    place.sync("writes/1/part-0.parquet", "writes/1", "")
    place.sync_new(["writes/1/part-0.parquet"])
    assert place.below() == ["writes/1/part-0.parquet"]
    assert place.local("writes/1/part-0.parquet").read_bytes() == b"rows"


def test_json_is_read_as_it_was_written_and_what_is_none_is_empty(place: Place) -> None:
    place.write_json("a.json", {"n": [1, None]})
    assert place.read_json("a.json") == {"n": [1, None]}
    for text in (b"{", b"[1]", b"\xff", b"[" * 100_000):
        place.write("a.json", text)
        assert place.read_json("a.json") == {}


def test_a_record_is_read_by_its_reader_and_a_damaged_file_is_named_with_what_to_do(
    place: Place,
) -> None:
    def read() -> str:
        return place.read_record("a.json", lambda body: str(body.get("n", [0])[0]), "Delete it")

    assert read() == "0", "there is no file"
    place.write("a.json", b'{"n": ["x"]}')
    assert read() == "x"
    for text in (b"", b"{", b"[1]", b'{"n": []}', b'{"n": 1}', b"\xff", b"[" * 100_000):
        place.write("a.json", text)
        with pytest.raises(BackfillError, match=r"a\.json: it is not what was written.*Delete it"):
            read()


def test_a_lock_has_one_holder_and_who_waits_in_vain_is_told_of_what(place: Place) -> None:
    def held() -> None:
        with place.lock(".locks/x.lock", "the table x", 0):
            raise AssertionError

    with (
        place.lock(".locks/x.lock", "the table x"),
        ThreadPoolExecutor(1) as other,
        pytest.raises(Held, match="the table x"),
    ):
        other.submit(held).result()
    with place.lock(".locks/x.lock", "the table x", 0), table_lock(place, "y"):
        assert {*place.names(".locks")} >= {"x.lock", "y.lock"}


def test_a_marker_is_abandoned_once_nobody_holds_it(place: Place) -> None:
    give_up = place.hold("markers/1")
    place.hold("markers/2")()
    assert (list(place.abandoned("markers", never)), sorted(place.names("markers"))) == (
        ["2"],
        ["1", "2"],
    )
    give_up()
    assert list(place.abandoned("markers", never)) == ["1", "2"]
    for name in place.abandoned("markers", never):
        place.delete(f"markers/{name}")
    assert (list(place.abandoned("markers", never)), list(place.abandoned("none", never))) == (
        [],
        [],
    )
