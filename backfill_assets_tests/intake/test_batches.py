"""ColumnNames that a file may use, batches in which no record is lost, and the text kept of a bad
one.

Lives here: what both text formats share. Does not live here: the formats (`test_json_lines.py`,
`test_csv_records.py`).
"""

from collections.abc import Iterator

import pytest

from backfill_assets.intake.batches import BadRecord, ColumnNames, TextParser, Values, name_fault
from backfill_assets.intake.text_lines import Limits, TextLines


def test_a_record_with_one_bad_name_adds_none_of_its_names() -> None:
    names = ColumnNames(Limits())
    names.admit(["id"])
    for record in (["fresh", "Id"], ["fresh", "FRESH"], ["fresh", " "], ["fresh", "__D7"]):
        with pytest.raises(BadRecord):
            names.admit(record)
    assert list(names.known) == ["id"]


@pytest.mark.parametrize("name", ["a.b", "a`b", "é", "__v", "n" * 300, " id", "a b;{}()="])
def test_awkward_names_are_names(name: str) -> None:
    assert name_fault(name) is None


class Words(TextParser[str]):
    """One word per line, `?` being unusable, as many columns as asked for."""

    def __init__(self, limits: Limits, width: int) -> None:
        super().__init__(limits, "")
        self._names.admit(f"c{n}" for n in range(width))

    @property
    def columns(self) -> dict[str, str]:
        return dict.fromkeys(self._names.known, "STRING")

    def judged(self, lines: TextLines) -> Iterator[None]:
        for line in lines:
            assert isinstance(line, bytes)
            if line == b"?":
                self.add_bad(line, "why")
            else:
                self.add(line.decode(), len(line))
            yield

    def cut(self, rows: list[str]) -> dict[str, Values]:
        return dict.fromkeys(self._names.known, rows)


@pytest.mark.parametrize(("width", "sizes"), [(1, [4, 2, 0]), (2, [3, 2, 1]), (3, [2, 2, 2, 0])])
def test_a_batch_goes_by_rows_bytes_or_cells_whichever_comes_first(
    width: int, sizes: list[int]
) -> None:
    limits = Limits(batch_rows=4, batch_bytes=100, batch_cells=6)
    lines = TextLines(iter([b"x\n?\nz\ny\n" + b"l" * 99 + b"\nm\n"]), limits)
    batches = list(Words(limits, width).batches(lines))
    assert [b.size for b in batches] == sizes
    assert [b.first for b in batches] == [1 + sum(sizes[:n]) for n in range(len(sizes))]
    assert batches[0].bad == {1: ("?", "why")}
    assert list(batches[0].columns["c0"])[:2] == ["x", ""]
