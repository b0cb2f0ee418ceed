"""Forgetting says what holds an entity, what stands against it, and which days of others changed.
No engine. Not here: an erasure from end to end (`end_to_end.test_forget`)."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.candidates.candidates import candidate_names
from backfill_assets.erasure.forget import (
    ForgetRequest,
    FoundFiles,
    days_left_out,
    differing_days_of_others,
    entity_trace,
    erase_everywhere,
    erasure_obstacles,
    old_logs,
    rebuild_commands,
    write_certificate,
)
from backfill_assets.erasure.traces import Trace
from backfill_assets.intake.forgotten import all_erasures, begin_erasure
from backfill_assets.intake.ledger import FILES
from backfill_assets.kernel.core.addresses import CANDIDATES
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.place.port import RUNS
from backfill_assets.kernel.place.processes import PlacedProcess
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.staging import fill_staging
from backfill_assets.kernel.tables.table_places import SNAPSHOTS
from backfill_assets.kernel.tables.versions import UnfinishedSwitch, record_versions, switch_tables
from backfill_assets.kernel.tables.view import settled_view
from backfill_assets_tests.builders import make_commit, receipt, write_rows
from backfill_assets_tests.candidate_world import CandidateWorld
from backfill_assets_tests.files import write_json
from backfill_assets_tests.lakes import configure
from backfill_assets_tests.planned import BUILT, Planned
from backfill_assets_tests.synthetic import START, landed, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")
ANN = Trace({"entity": "ann-77"})


@pytest.fixture
def request_(tmp_path: Path) -> ForgetRequest:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 2)
    for fake in lake.tables.rglob("part-1.parquet"):
        fake.unlink()
    return ForgetRequest(lake, pipeline, ANN, "asked for", drops=[SNAPSHOTS])


def told(asked: ForgetRequest) -> list[str]:
    return [str(o) for o in erasure_obstacles(asked, asked.look().held)]


def put(asked: ForgetRequest, name: str) -> Path:
    path = asked.lake.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"entity": "ann-77"}')
    return path


def test_a_value_of_a_whole_number_is_written_as_tables_show_it_or_it_would_match_nothing(
    tmp_path: Path,
) -> None:
    lake = configure(tmp_path, "2024-03-01", features={"entity": ["entity", "value"]})
    assert entity_trace(lake, ["007", "-7"]).values == {"entity": "007", "value": "-7"}
    for odd in ("007", "7.0", "seven", "7 "):
        with pytest.raises(BackfillError, match="value is a whole number, not"):
            entity_trace(lake, ["a", odd])


def test_an_entity_of_columns_that_nothing_has_is_refused_since_no_search_would_find_it(
    request_: ForgetRequest,
) -> None:
    (refusal,) = told(replace(request_, trace=Trace({"customer": "ann-77"})))
    assert "no source and no table has the column(s) customer" in refusal
    assert "Name its columns as `entity` below [features] in lake.toml" in refusal


def test_what_stands_against_it_is_named_with_the_way_out(request_: ForgetRequest) -> None:
    assert told(request_) == []
    put(request_, ".snapshots/march/x.json")
    assert "Say --drop snapshots" in told(replace(request_, drops=()))[0]
    assert told(request_) == []
    assert "the note names it" in told(replace(request_, note="for ann-77"))[0]
    assert (
        "this is a candidate"
        in told(replace(request_, lake=replace(request_.lake, shared=Path("x"))))[0]
    )


def test_a_snapshot_that_pins_a_file_with_the_entity_holds_it_and_goes_whole_or_keeps_the_file(
    tmp_path: Path,
) -> None:
    made = Planned(tmp_path / "lake")
    asked = ForgetRequest(made.lake, made.pipeline, ANN, "asked for")
    held = put(asked, "tables/staging/event_date=2024-03-01/part-9.parquet")
    body = {
        "tables": {
            "staging": {
                "pinned": True,
                "data_files": [[held.relative_to(made.root).as_posix(), "", 1]],
            }
        }
    }
    made.lake.place.write(f"{SNAPSHOTS}/march/snapshot.json", json.dumps(body).encode())
    assert "march in .snapshots would lose rows" in told(asked)[0]
    erasure = begin_erasure(made.lake, ANN.values, "asked for")
    erase_everywhere(asked, erasure)
    assert held.exists(), "what a snapshot keeps stays, and the certificate is not given"
    assert write_certificate(asked, erasure).held == [held]
    erase_everywhere(replace(asked, drops=[SNAPSHOTS]), erasure)
    assert not held.exists()
    assert erasure.done["deleted"][f"{SNAPSHOTS}/march"] == 1
    assert not made.lake.place.below(SNAPSHOTS)


def test_nothing_is_erased_while_a_table_lies_there_that_no_declaration_rebuilds(
    request_: ForgetRequest,
) -> None:
    make_commit(request_.lake.tables / "down", 0)
    make_commit(request_.lake.tables / "raw_orders", 0)
    (found,) = told(request_)
    assert found == (
        "the entity: the pipeline lacks down, raw_orders, whose rows nothing rebuilds without it. "
        "Nothing was erased. "
        f"Declare them again, or move their folders out of {request_.lake.tables}."
    )


def test_days_of_live_tables_that_hold_it_are_named_with_the_command_that_rebuilds_them(
    request_: ForgetRequest,
) -> None:
    put(request_, "notes.txt")
    assert rebuild_commands(request_, request_.look().held) == []
    for day in (3, 1):
        put(request_, f"tables/labels/label_date=2024-03-0{day}/part-1.parquet")
    command = "backfill-assets backfill --force --from 2024-03-01 --to 2024-03-03 --tables labels"
    assert rebuild_commands(request_, request_.look().held) == [command]


def test_days_that_are_left_out_by_now_are_named_since_no_command_makes_them_again(
    request_: ForgetRequest,
) -> None:
    labels = request_.pipeline.table("labels")
    left_out = replace(labels, contract=labels.contract.leaving_out(["2024-03-03"]))
    tables = tuple(left_out if t.name == "labels" else t for t in request_.pipeline.tables)
    of_less = replace(request_, pipeline=replace(request_.pipeline, tables=tables))
    for day in (3, 1):
        put(request_, f"tables/labels/label_date=2024-03-0{day}/part-1.parquet")
    held = of_less.look().held
    command = "backfill-assets backfill --force --from 2024-03-01 --to 2024-03-01 --tables labels"
    assert rebuild_commands(of_less, held) == [command]
    assert days_left_out(of_less, held) == {"labels": [date(2024, 3, 3)]}
    assert days_left_out(request_, held) == {}


def test_logs_that_hold_it_are_counted_by_table_and_the_certificate_is_not_finished(
    request_: ForgetRequest,
) -> None:
    """As notes do, or other programs by bounds of columns; no commit is changed."""
    for name in (
        "labels/_delta_log/x.json",
        "labels/_delta_log/y.json",
        "labels/label_date=2024-03-01/z.parquet",
    ):
        put(request_, f"tables/{name}")
    erase_everywhere(request_, erasure := begin_erasure(request_.lake, ANN.values, "asked for"))
    found = write_certificate(request_, erasure)
    assert old_logs(request_, found.held) == {"labels": 2}
    assert (erasure.done["left"], erasure.done["deleted"]) == ({"tables/labels": 2}, {"labels": 1})
    assert "finished_at" not in erasure.done


@pytest.mark.parametrize("name", ["landing/x.zst", "notes/x.orc", ".reconciled/r.parquet"])
def test_a_file_that_nobody_can_decode_is_listed_and_the_certificate_waits_for_it(
    request_: ForgetRequest, name: str
) -> None:
    (path := put(request_, name)).write_bytes(bytes(range(256)))
    put(request_, ".server/spill.lz4").write_bytes(bytes(range(256)))
    put(request_, "tables/.x.parquet.crc").write_bytes(bytes(range(256)))
    assert request_.look().unread == [path]
    erasure = begin_erasure(request_.lake, ANN.values, "asked for")
    assert write_certificate(request_, erasure).unread == [path]
    assert (sum(erasure.done["not_searched"].values()), "finished_at" in erasure.done) == (1, False)
    path.unlink()
    write_certificate(request_, erasure)
    assert "finished_at" in erasure.done


def test_of_files_in_a_declared_encoding_those_are_searched_whose_records_were_read(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 2)
    with (lake.root / "lake.toml").open("a") as settings:
        settings.write('[source.dialect]\nencoding = "cp1252"\n')
    lake, seen = open_lake(lake.root), datetime(2026, 2, 1, tzinfo=UTC)
    read, torn = (f"{START + ONE_DAY * n}.jsonl" for n in range(2))
    for name in (read, torn):
        (lake.root / "landing" / name).write_bytes(bytes(range(256)))
    refused = landed(START + ONE_DAY, seen) | {"note": "it was cut off"}
    write_rows(
        lake.table_place(FILES.name).local(),
        FILES,
        [landed(START, seen), refused],
        receipt(FILES.name, {}),
    )
    found = ForgetRequest(lake, pipeline, ANN, "asked for").look()
    assert [path.name for path in found.unread if path.suffix == ".jsonl"] == [torn]


def test_what_holds_it_is_counted_per_place_and_goes_but_files_of_the_user_stay_and_are_named(
    request_: ForgetRequest,
) -> None:
    for name in (
        ".plans/a.json",
        ".reconciled/r.parquet",
        "notes/x.txt",
        ".snapshots/march/y.json",
    ):
        put(request_, name)
    places = request_.places(request_.look().held)
    assert places == {".plans": 1, ".reconciled": 1, ".snapshots/march": 1, "notes": 1}
    erasure = begin_erasure(request_.lake, ANN.values, "asked for")
    erase_everywhere(request_, erasure)
    assert not (request_.lake.root / ".plans" / "a.json").exists()
    write_certificate(request_, erasure)
    assert (erasure.done["left"], erasure.done["mentions"]) == ({"notes": 1}, {})
    assert "finished_at" not in erasure.done
    (request_.lake.root / "notes" / "x.txt").unlink()
    assert write_certificate(request_, erasure) == FoundFiles([], [], [])
    assert "finished_at" in all_erasures(request_.lake)[0].done


def test_rows_of_others_that_only_mention_it_are_listed_and_stand_against_nothing(
    request_: ForgetRequest,
) -> None:
    for name in ("landing/a.csv", "tables/own/x.json", ".snapshots/march/y.json"):
        put(request_, name).write_text("1,ann-77 the elder\n")
    own = put(request_, "notes.txt")
    own.write_text("call ann-77 back")
    assert told(replace(request_, drops=())) == []
    erasure = begin_erasure(request_.lake, ANN.values, "asked for")
    erase_everywhere(request_, erasure)
    mentions = {".snapshots/march": 1, "landing": 1, "tables/own": 1}
    assert write_certificate(request_, erasure).held == [own], "a file of the user holds no rows"
    own.unlink()
    write_certificate(request_, erasure)
    assert (erasure.done["left"], erasure.done["mentions"]) == ({}, mentions)
    assert "finished_at" in all_erasures(request_.lake)[0].done


def test_what_a_killed_snapshot_left_goes_without_being_asked_for(request_: ForgetRequest) -> None:
    left = put(request_, ".snapshots/.march.ab12cd34/y.json").parent
    assert told(replace(request_, drops=())) == []
    erase_everywhere(
        replace(request_, drops=()), begin_erasure(request_.lake, ANN.values, "asked for")
    )
    assert not left.exists()


def test_it_waits_for_a_publication_that_was_stopped_because_readers_see_versions_of_before(
    tmp_path: Path,
) -> None:
    beside = CandidateWorld.of(Planned(tmp_path / "lake"), *BUILT)
    work = UnfinishedSwitch("p9", "publish v2", "Finish it")
    with (
        suppress(KeyboardInterrupt),
        switch_tables(beside.made.lake, beside.made.pipeline.contracts, BUILT, work),
    ):
        beside.made.write("staging", {0: 9}, plan="p9")
        raise KeyboardInterrupt
    assert (
        "publish v2 was stopped"
        in told(ForgetRequest(beside.made.lake, beside.made.pipeline, ANN, "asked for"))[0]
    )


def test_nothing_is_erased_while_a_write_is_staged_or_days_of_a_candidate_are_of_before(
    tmp_path: Path,
) -> None:
    """It may have read the entity before; its files lie where the search would find them, or come
    after it."""
    beside = CandidateWorld.of(Planned(tmp_path / "lake"), "features")
    asked = ForgetRequest(beside.made.lake, beside.made.pipeline, ANN, "asked for")
    left = put(asked, ".plans/a.json")
    erasure = begin_erasure(asked.lake, ANN.values, "asked for")
    for lake, words in (
        (beside.made.lake, "features and may"),
        (beside.there.lake, "features of v2 and may"),
    ):
        with fill_staging(lake, beside.made.contract("features")) as staged:
            with pytest.raises(
                BackfillError, match=f"another command writes {words}.* the same command goes on"
            ):
                erase_everywhere(asked, erasure)
            staged.drop()
    with pytest.raises(
        BackfillError, match=r"candidate v2 has days made from its rows.* --drop candidates"
    ):
        erase_everywhere(asked, erasure, ["v2"])
    assert "ann-77" in left.read_text()
    erase_everywhere(replace(asked, drops=[CANDIDATES]), erasure, ["v2"])
    assert (left.exists(), candidate_names(asked.lake)) == (False, [])


def test_days_on_which_others_changed_are_named() -> None:
    assert (
        differing_days_of_others(
            {"staging": {"d1": "A"}}, {"staging": {"d1": "A"}, "new": {"d1": "A"}}
        )
        == {}
    )
    assert differing_days_of_others(
        {"staging": {"d1": "A", "d2": "B"}}, {"staging": {"d1": "A", "d3": "C"}}
    ) == {"staging": ["d2", "d3"]}


def test_files_go_once_readers_see_the_versions_without_them(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    record_versions(made.lake, made.pipeline.contracts, "made")
    asked, marker = (
        ForgetRequest(made.lake, made.pipeline, ANN, "asked for"),
        made.root / RUNS / "here" / "long",
    )
    erasure = begin_erasure(made.lake, ANN.values, "asked for")
    write_json(marker, vars(PlacedProcess.this()))
    made.write("features", {1: 7}, "long")
    made.write("staging", {0: 9})
    with pytest.raises(
        BackfillError, match="readers see features as before it until another run ends"
    ):
        erase_everywhere(asked, erasure)
    assert erasure.done["deleted"] == {}
    marker.unlink()
    erase_everywhere(asked, erasure)
    view = settled_view(made.lake, made.pipeline.contracts)
    for table in BUILT:
        contract = made.contract(table)
        assert made.lake.store.data_files(contract, view.table(table).version), (
            "it refuses files that are gone"
        )
    assert erasure.done["deleted"]["staging"]
