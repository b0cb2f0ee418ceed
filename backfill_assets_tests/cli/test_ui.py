"""The guard before Dagster's web server: who passes, and what the others are told; ports and folders.

Tested here: `cli.ui` without Dagster's processes. Not tested here: these (`orchestration.test_dagster_private_ui`), and
the pages in a browser (`browser.test_private`).
"""

import asyncio
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.cli.ui import guard, own_folder
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.files import bare_lake

SECRET = "/s3cret"
HERE = "127.0.0.1:3000"


def answered(path: str, kind: str = "http", **headers: str) -> Any:
    """What the guard sends, or "passed" where it lets through."""
    sent: list[Any] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send("passed")

    async def send(message: Any) -> None:
        sent.append(message)

    said = {"host": HERE, **headers}
    scope = {"type": kind, "path": path, "headers": [(k.encode(), v.encode()) for k, v in said.items()]}

    async def ask() -> None:
        await guard(app, SECRET)(scope, None, send)

    asyncio.run(ask())
    return sent[0] if sent[0] == "passed" else sent[0].get("status", sent[0].get("code"))


@pytest.mark.parametrize("path", ["/s3cret", "/s3cret/", "/s3cret/graphql", "/s3cret/runs/1"])
def test_who_knows_the_secret_passes(path: str) -> None:
    for host in (HERE, "localhost:4000", "localhost"):
        assert answered(path, host=host) == answered(path, "websocket", host=host) == "passed"
        assert answered(path, host=host, origin=f"http://{host}") == "passed"


@pytest.mark.parametrize(
    "path", ["", "/", "/graphql", "/s3cre", "/s3crets", "/x/s3cret", "//s3cret", "/server_info", "/é"]
)
def test_who_does_not_gets_no_answer_and_no_hint(path: str) -> None:
    assert answered(path) == 403
    assert answered(path, "websocket") == 1008


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:8000"},
        {"host": "evil.example:3000", "origin": "http://evil.example:3000"}, {"host": "evil.example"}, {"host": ""},
    ],
)  # fmt: skip
def test_pages_of_another_origin_or_by_a_foreign_name_do_not_pass(headers: dict[str, str]) -> None:
    assert answered(f"{SECRET}/graphql", **headers) == 403
    assert answered(f"{SECRET}/graphql", "websocket", **headers) == 1008


def test_a_port_that_is_taken_is_one_line_and_nothing_is_started(tmp_path: Path) -> None:
    bare_lake(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run("ui", "--port", taken.getsockname()[1], "--lake", tmp_path)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "--port" in done.stderr


def test_temporary_files_lie_where_no_other_user_can_put_any(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir(mode=0o777)
    for home in (tmp_path, tmp_path / ("long" * 30)):
        own = own_folder(home)
        assert stat.S_IMODE(own.stat().st_mode) == 0o700
        assert len(bytes(own / "tmp12345678")) < 100, "a socket's path"
    own.rmdir()
