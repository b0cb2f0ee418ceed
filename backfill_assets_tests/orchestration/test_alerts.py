"""Alerts reach a local webhook and a local mail server, say what a person needs, and no secret. No JVM.

Tested here: `orchestration.alerts` and `orchestration.alert_channels`, with sinks on loopback that keep what they get.
"""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message as Letter
from typing import Any

import dagster as dg
import pytest
from aiosmtpd.controller import Controller

from backfill_assets.core.errors import BackfillError, SettingsError
from backfill_assets.orchestration.alert_channels import MAIL_TO, SMTP, WEBHOOK, Channels, Message
from backfill_assets.orchestration.alerts import alert_sensors, failure, findings
from backfill_assets.orchestration.io_manager import as_failure
from backfill_assets.orchestration.runs import RANGE_END, RANGE_START

SECRET = "hook-s3cret"
BROKEN = BackfillError("the table staging", "unique_key fails on 1 of 31 day(s)", "Nothing was written", "Look at it")
DAYS = {RANGE_START: "2024-03-01", RANGE_END: "2024-03-31"}


class Hook:
    """A webhook that keeps what is posted and answers with `status`."""

    def __init__(self, status: int = 200) -> None:
        kept: list[dict[str, Any]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                kept.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.kept = kept
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/{SECRET}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    hook = Hook()
    monkeypatch.setenv(WEBHOOK, hook.url)
    yield hook
    hook.close()


@pytest.fixture
def letters() -> Iterator[tuple[str, list[Letter]]]:
    """A mail server's address and the letters it took."""
    kept: list[Letter] = []

    class Handler:
        async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
            kept.append(message_from_bytes(envelope.content))
            return "250 kept"

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(Handler(), hostname="127.0.0.1", port=port)
    controller.start()
    yield f"smtp://127.0.0.1:{port}", kept
    controller.stop()


@dg.asset(check_specs=[dg.AssetCheckSpec("profile", asset="staging")], output_required=False)
def staging(config: dict[str, Any]) -> Iterator[Any]:
    """Breaks, or finds as many things as it is told to."""
    if "found" not in config:
        raise as_failure(BROKEN)
    yield dg.MaterializeResult()
    for n in range(config["found"]):
        yield dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey("staging"), check_name="profile", passed=False, partition=f"2024-03-{n + 1:02}",
            severity=dg.AssetCheckSeverity.WARN, metadata={"what": "the day is <empty>"},
        )  # fmt: skip
    if not config["found"]:
        yield dg.AssetCheckResult(passed=True, check_name="profile")
    else:
        yield dg.Output(None, output_name=dg.AssetCheckSpec("profile", asset="staging").get_python_identifier())


def ran(instance: dg.DagsterInstance, **config: int) -> tuple[dg.DagsterRun, dg.DagsterEvent]:
    """A run of the asset above, and its last event."""
    defs = dg.Definitions([staging], jobs=[dg.define_asset_job("rebuild")], executor=dg.in_process_executor)
    result = defs.resolve_job_def("rebuild").execute_in_process(
        instance=instance, tags=DAYS, run_config={"ops": {"staging": {"config": config}}}, raise_on_error=False
    )
    run = instance.get_run_by_id(result.run_id)
    assert run
    kind = dg.DagsterEventType.RUN_SUCCESS if result.success else dg.DagsterEventType.RUN_FAILURE
    return run, next(e for e in result.all_events if e.event_type == kind)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def tick(instance: dg.DagsterInstance, run: dg.DagsterRun, event: dg.DagsterEvent) -> Any:
    """What the sensor that watches this kind of ending answers."""
    context = dg.build_run_status_sensor_context(
        sensor_name="alert", dagster_event=event, dagster_instance=instance, dagster_run=run
    )
    on_failure, on_findings = alert_sensors()
    if event.event_type == dg.DagsterEventType.RUN_FAILURE:
        return on_failure(context.for_run_failure())
    return on_findings(context)


def test_a_failed_run_is_told_with_its_cause_days_and_next_step(instance: dg.DagsterInstance, hook: Hook) -> None:
    run, event = ran(instance)
    tick(instance, run, event)
    (told,) = hook.kept
    assert told["text"].startswith("Failed: ")
    assert str(BROKEN) in told["text"]
    assert (told["first_day"], told["last_day"], told["run_id"]) == ("2024-03-01", "2024-03-31", run.run_id)


def test_findings_of_a_run_that_succeeded_are_told_counted_and_capped(instance: dg.DagsterInstance, hook: Hook) -> None:
    tick(instance, *ran(instance, found=12))
    (told,) = hook.kept
    assert told["subject"].startswith("12 finding(s): ")
    assert "staging 2024-03-01 profile: the day is &lt;empty&gt;" in told["text"]
    assert told["text"].endswith("and 2 more")


def test_a_run_without_findings_is_not_told(instance: dg.DagsterInstance, hook: Hook) -> None:
    answer = tick(instance, *ran(instance, found=0))
    assert answer is None, "a SkipReason would keep the other runs of this tick waiting for the next one"
    assert not hook.kept


def test_the_same_goes_out_by_mail(instance: dg.DagsterInstance, letters: tuple[str, list[Letter]]) -> None:
    server, kept = letters
    run, _ = ran(instance)
    channels = Channels.of({MAIL_TO: "a@example.org, b@example.org", SMTP: server})
    channels.send(failure(instance, run, ""))
    (letter,) = kept
    assert letter["To"] == "a@example.org, b@example.org"
    assert letter["Subject"].startswith("backfill_assets: Failed: ")
    body = letter.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert "unique_key fails on 1 of 31 day(s)" in body.decode()
    assert f"run_id: {run.run_id}" in body.decode()


def test_without_an_address_the_sensors_are_off_and_say_so(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (WEBHOOK, MAIL_TO, SMTP):
        monkeypatch.delenv(variable, raising=False)
    assert {s.default_status for s in alert_sensors()} == {dg.DefaultSensorStatus.STOPPED}
    assert isinstance(tick(instance, *ran(instance)), dg.SkipReason)
    monkeypatch.setenv(WEBHOOK, "https://example.org/hook")
    assert {s.default_status for s in alert_sensors()} == {dg.DefaultSensorStatus.RUNNING}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (WEBHOOK, f"ftp://x/{SECRET}"),
        (WEBHOOK, f"http://[{SECRET}"),
        (MAIL_TO, SECRET),
        (SMTP, f"{SECRET}://x"),
        (SMTP, f"smtps://me:{SECRET}/x@example.org"),
        (SMTP, f"smtps://me:12{SECRET}#x@example.org:465"),
        (SMTP, "smtp://me:12345#x@example.org"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_by_its_variable_and_not_shown(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable) as refused:
        Channels.of({variable: value})
    assert SECRET not in str(refused.value)


def test_a_malformed_address_stops_no_run_and_is_told_by_the_tick(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MAIL_TO, "nobody")
    assert {s.default_status for s in alert_sensors()} == {dg.DefaultSensorStatus.RUNNING}
    with pytest.raises((SettingsError, dg.DagsterError)):
        tick(instance, *ran(instance))


def test_a_webhook_that_is_down_does_not_silence_mail(letters: tuple[str, list[Letter]]) -> None:
    server, kept = letters
    with pytest.raises(BackfillError, match="the webhook at"):
        Channels("http://127.0.0.1:9/x", ("a@example.org",), server).send(Message("subject", "text"))
    assert len(kept) == 1


def test_a_webhook_that_refuses_is_told_without_its_address() -> None:
    hook = Hook(status=500)
    try:
        with pytest.raises(BackfillError, match="HTTP 500") as refused:
            Channels(hook.url).send(Message("subject", "text"))
    finally:
        hook.close()
    assert SECRET not in str(refused.value)


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    with pytest.raises(BackfillError, match="The alert was not sent") as refused:
        Channels(mail_to=("a@example.org",), smtp=f"smtp://user:{SECRET}@127.0.0.1:9").send(Message("subject", "text"))
    assert SECRET not in str(refused.value)


def test_a_login_is_never_sent_over_an_open_line(letters: tuple[str, list[Letter]]) -> None:
    server, kept = letters
    open_line = server.replace("smtp://", f"smtp://user:{SECRET}@")
    with pytest.raises(BackfillError, match="STARTTLS"):
        Channels(mail_to=("a@example.org",), smtp=open_line).send(Message("subject", "text"))
    assert not kept


def test_a_run_that_found_nothing_has_no_message(instance: dg.DagsterInstance) -> None:
    run, _ = ran(instance, found=0)
    assert findings(instance, run) is None
