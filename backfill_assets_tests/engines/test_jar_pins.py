"""The jars by which a Spark of ours reaches S3: a set of their own beside Delta's, with a checksum
each. Not here: Delta's (`test_cache`)."""

from pathlib import Path

import pytest

from backfill_assets.engines.cache import CACHE_VARIABLE, jars_folder, present_jars, s3a_jars
from backfill_assets.engines.jar_pins import PINS, S3A
from backfill_assets.kernel.core.errors import BackfillError

NO_JAVA = Path("no java is needed")


def test_the_jars_of_s3_are_a_set_of_their_own_with_a_checksum_each_for_sparks_hadoop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    folder = jars_folder(S3A)
    folder.mkdir(parents=True)
    for name in PINS[S3A]:
        (folder / name).touch()
    assert len(present_jars(S3A)) == len(PINS[S3A])
    assert present_jars() == ()
    with pytest.raises(
        BackfillError, match=r"the jar .*hadoop-aws-3\.5\.0\.jar: its sha256 is .*Spark was not"
    ):
        s3a_jars(NO_JAVA, ())
    with pytest.raises(
        BackfillError, match=r"brings another Hadoop than 3\.5\.0.*Spark Connect server"
    ):
        s3a_jars(NO_JAVA, (), tmp_path)
