"""Which runs may be begun here, and by which words: those of Dagster's own command.

Tested here: `orchestration.dagster_private_launch`. Not tested here: the processes that are begun by these words, and
what is told of them (`test_run_launcher`).
"""

import sys
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from backfill_assets.orchestration.dagster_private_launch import words_of
from backfill_assets_tests.orchestration.origins import local_origin, remote_origin

OURS = "backfill_assets.definitions"


def words(origin: Any, host: str = "localhost") -> list[str] | None:
    """The words for a run with that origin, whose code location is on the host."""
    run = dg.DagsterRun("rebuild", run_id="r1", remote_job_origin=remote_origin("rebuild"), job_code_origin=origin)
    client = SimpleNamespace(host=host)
    workspace = SimpleNamespace(get_code_location=lambda _name: SimpleNamespace(client=client))
    context: Any = SimpleNamespace(dagster_run=run, job_code_origin=origin, workspace=workspace)
    instance: Any = SimpleNamespace(get_ref=lambda: None)
    return words_of(context, instance, "backfill_assets")


@pytest.mark.parametrize("entry_point", [["dagster"], None, [sys.executable, "-m", "dagster"]])
def test_a_run_of_ours_is_begun_by_dagsters_command(entry_point: list[str] | None) -> None:
    found = words(local_origin("rebuild", OURS, entry_point=entry_point))
    assert found
    assert found[:2] == ["api", "execute_run"]
    assert '"r1"' in found[2]


@pytest.mark.parametrize(
    "origin",
    [
        local_origin("rebuild", "backfill_assets_of_others.definitions"),
        local_origin("rebuild", OURS, executable_path="another-python"),
        local_origin("rebuild", OURS, container_image="image"),
        local_origin("rebuild", OURS, entry_point=["wrapper", "dagster"]),
        None,
    ],
)
def test_of_other_code_pythons_containers_and_programs_none_is(origin: Any) -> None:
    assert words(origin) is None


def test_of_a_code_location_on_another_machine_none_is() -> None:
    assert words(local_origin("rebuild", OURS), "elsewhere.example") is None
