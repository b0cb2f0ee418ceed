"""What a step read from lakes by other ways than its parameters.

Tested here: that each step has a list of its own, which outside of steps nobody fills. Not tested
here: which ways of reading fill it, and the state of the days (`dagster.test_resource`).
"""

import dagster as dg

from backfill_assets.dagster.adapter.read_beside import note_read, running_step, step_reads


def test_each_step_remembers_what_it_read_itself() -> None:
    found = {}

    @dg.op
    def first() -> int:
        note_read("orders")
        note_read("orders")
        found["first"] = step_reads()
        return 1

    @dg.op
    def second(_number: int) -> None:
        found["second"] = step_reads()

    @dg.job
    def both() -> None:
        second(first())

    assert both.execute_in_process().success
    assert found == {"first": {"orders"}, "second": set()}


def test_outside_of_a_step_nothing_is_remembered() -> None:
    note_read("orders")
    assert running_step() is None
    assert step_reads() == set()
