"""The command of a lake's server: what it holds, what it hides, and when two processes may share one.

Tested here: `engine.jvm` without starting anything. Not tested here: the process (`test_server`).
"""

from pathlib import Path

import pytest

from backfill_assets.engine.confs import EngineSettings
from backfill_assets.engine.jvm import Embedded
from backfill_assets.engine.server import differences
from backfill_assets.engine.server_state import ServerFolder

JAR = Path(__file__)  # any file
EMBEDDED = Embedded(jars_of=lambda *_: [JAR])


def test_the_token_is_in_the_private_file_and_nowhere_on_the_command_line(tmp_path: Path) -> None:
    folder = ServerFolder.of(tmp_path)
    folder.make()
    confs = {"spark.driver.extraJavaOptions": "-Da='b c'", "spark.driver.extraClassPath": "mine.jar"}
    request = EMBEDDED.request(folder, EngineSettings(memory="1G", idle_minutes=2, confs=confs))
    assert request.token in (folder.folder / request.properties).read_text()
    assert request.token not in " ".join(request.command)
    assert {"-Xmx1g", "-Da=b c"} <= set(request.command)
    path = request.command[request.command.index("-cp") + 1].split(":")
    assert (path[0], path[-1]) == ("mine.jar", str(JAR))
    assert request.idle_seconds == 120


def test_two_requests_have_tokens_and_files_of_their_own(tmp_path: Path) -> None:
    folder = ServerFolder.of(tmp_path)
    folder.make()
    one, two = (EMBEDDED.request(folder, EngineSettings()) for _ in range(2))
    assert one.token != two.token
    assert one.properties != two.properties
    assert one.identity == two.identity


def test_servers_of_other_settings_differ_in_words_and_the_values_of_configurations_stay_hidden() -> None:
    ours = EMBEDDED.identity(EngineSettings(memory="2g", confs={"spark.my.password": "hunter2"}))
    theirs = EMBEDDED.identity(EngineSettings(memory="1g", confs={"spark.my.password": "other"}))
    told = differences(theirs, ours)
    assert "memory 1g instead of 2g" in told
    assert "the configuration spark.my.password" in told
    assert "hunter2" not in told + repr(ours)
    assert differences(ours, ours) == ""


def test_nothing_of_the_callers_environment_redirects_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "elsewhere")
    monkeypatch.setenv("PYSPARK_PYTHON", "python2")
    monkeypatch.setenv("MASTER", "yarn")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    env = EMBEDDED.environ(ServerFolder.of(tmp_path), EngineSettings())
    assert not {"SPARK_CONF_DIR", "PYSPARK_PYTHON", "MASTER"} & env.keys()
    assert (env["TZ"], env["SPARK_LOCAL_IP"]) == ("Asia/Tokyo", "127.0.0.1")
