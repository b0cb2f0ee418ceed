"""Parquet files decoded in a child of limited memory: what a file can do to the child, and what
others can.

Lives here: the child's deaths and what is said of the file. Does not live here: what a file is
refused for while the child lives (`test_parquet_files`, `test_parquet_files`).
"""

import base64
import os
import signal
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.intake import limited_decoding
from backfill_assets.intake.limited_decoding import DecoderGone, examine_apart
from backfill_assets.intake.text_lines import Limits, Unreadable

pytestmark = pytest.mark.usefixtures("processes")

# 400 rows of lists of booleans, one of which has 150 million, as pyarrow writes them: 855 bytes.
SKEWED = zlib.decompress(
    base64.b64decode(
        "eNoLcAwyFGUQnfHyg6DoHU4d0Xln2voZgQJsomwyDAwMGlv1/zZ4+EjJMeowMrzgBoow//twFKiEcR4bAyeQ23AMyGGex8bIwMjQ"
        "+P/5AU4mBgGGUTyKScXJlxgYRFkkfUwZJNiKkzNScxNFmRhMmSQYgbQom48NMK2Zskiw5GQWlwAlRBlUmSTYU3NSc1PzShjEFrBJ"
        "ykjKqDHIiDJIqrIxSFowJoJVwlSI8oiBE7bYOWA6F5vEpcbhCVQKhEwMNppqC9j+gZK0pBsDMFGDEzTQMojSBWxqHED1DBoKBYlF"
        "haWpJbrJBQW6iUVF+eUKZalFxZn5eQpGZnoGeoaSMqD8cgiIA4BZCgBKWVQR"
    )
)


def good(folder: Path) -> Path:
    pq.write_table(pa.table({"a": [1, 2, 3]}), folder / "good.parquet")
    return folder / "good.parquet"


def examined(path: Path) -> int:
    return examine_apart(path, path.stat().st_size, Limits())


def test_a_file_that_takes_too_much_memory_is_refused_and_the_next_one_is_read(
    tmp_path: Path,
) -> None:
    bomb = tmp_path / "bomb.parquet"
    bomb.write_bytes(SKEWED)
    assert pq.read_metadata(bomb).row_group(0).num_rows == 400, "its footer alone gives no reason"
    with pytest.raises(Unreadable, match="more memory than a file may"):
        examined(bomb)
    assert examined(good(tmp_path)) == 3


@pytest.mark.parametrize("by", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_of_the_reader_is_the_files_fault(tmp_path: Path, by: signal.Signals) -> None:
    path = good(tmp_path)
    examined(path)
    os.kill(limited_decoding._decoding_child(os.getpid())._process.pid, by)
    with pytest.raises(Unreadable, match=by.name):
        examined(path)
    assert examined(path) == 3


def test_a_reader_that_somebody_killed_says_nothing_of_the_file(tmp_path: Path) -> None:
    path = good(tmp_path)
    examined(path)
    os.kill(limited_decoding._decoding_child(os.getpid())._process.pid, signal.SIGKILL)
    with pytest.raises(DecoderGone, match="ended"):
        examined(path)
    assert examined(path) == 3
