"""Alerts say what a person needs, once, with a link, and reach a local webhook. No JVM.

Tested here: `dagster.adapter.alerts`, also the address, posting, and that no secret is shown. Not
tested here: what a tick finds (`test_ticks`).
"""

import contextlib
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.alerts import (
    DAY_SECONDS,
    MAIL_TO,
    MOST_POSTING,
    POSTING,
    WEBHOOK,
    Message,
    Posted,
    alert_sensors,
    post_message,
    report_alarms,
    webhook_address,
)
from backfill_assets.dagster.adapter.history import run_failure_cause
from backfill_assets.dagster.adapter.io_manager import as_failure
from backfill_assets.dagster.adapter.runs import ATTEMPT_TAG, RANGE_END, RANGE_START
from backfill_assets.dagster.adapter.verdicts import CARRIED_STANDING, Standing
from backfill_assets.kernel.core.errors import BackfillError, GateRefused, SettingsError
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.dagster.adapter.sinks import SECRET, Hook
from backfill_assets_tests.logs import place_of
from backfill_assets_tests.secret_forms import FORMS
from backfill_assets_tests.secret_forms import SECRET as FORM_SECRET

pytestmark = pytest.mark.usefixtures("storages")
LOG = logging.getLogger(__name__)
BROKEN = BackfillError(
    "the table staging", "unique_key fails on 1 of 31 day(s)", "Nothing was written", "Look at it"
)
DAYS = {RANGE_START: "2024-03-01", RANGE_END: "2024-03-31"}


@dg.asset(check_specs=[dg.AssetCheckSpec("profile", asset="staging")], output_required=False)
def staging(config: dict[str, Any]) -> Iterator[Any]:
    """Breaks, or finds as many things as it is told to."""
    if "found" not in config:
        raise as_failure(BROKEN)
    yield dg.MaterializeResult()
    days = {date(2024, 3, n + 1): "the day is <empty>" for n in range(config["found"])}
    standing = dg.MetadataValue.json(Standing(warned=days).to_json())
    yield dg.AssetCheckResult(
        passed=not days, check_name="profile", metadata={CARRIED_STANDING: standing}
    )


def ran(
    instance: dg.DagsterInstance, tags: dict[str, str] | None = None, **config: int
) -> tuple[dg.DagsterRun, dg.DagsterEvent]:
    """A run of the asset above, and its last event."""
    defs = dg.Definitions(
        [staging], jobs=[dg.define_asset_job("rebuild")], executor=dg.in_process_executor
    )
    result = defs.resolve_job_def("rebuild").execute_in_process(
        instance=instance,
        tags=DAYS | (tags or {}),
        run_config={"ops": {"staging": {"config": config}}},
        raise_on_error=False,
    )
    run = instance.get_run_by_id(result.run_id)
    assert run
    kind = dg.DagsterEventType.RUN_SUCCESS if result.success else dg.DagsterEventType.RUN_FAILURE
    return run, next(e for e in result.all_events if e.event_type == kind)


def tick(
    root: Path, instance: dg.DagsterInstance, run: dg.DagsterRun, event: dg.DagsterEvent
) -> Any:
    """What the sensor that watches this kind of ending answers."""
    context = dg.build_run_status_sensor_context(
        sensor_name="alert", dagster_event=event, dagster_instance=instance, dagster_run=run
    )
    on_failure, on_findings = alert_sensors(root)
    failed = event.event_type == dg.DagsterEventType.RUN_FAILURE
    return on_failure(context.for_run_failure()) if failed else on_findings(context)


def test_a_failed_run_is_told_with_cause_and_advice(
    tmp_path: Path, instance: dg.DagsterInstance, hook: Hook
) -> None:
    run, event = ran(instance)
    tick(tmp_path, instance, run, event)
    (told,) = hook.kept
    assert told["text"].startswith("Failed: ")
    assert str(BROKEN) in told["text"]
    assert (told["first_day"], told["last_day"], told["run_id"]) == (
        "2024-03-01",
        "2024-03-31",
        run.run_id,
    )
    assert told["text"].endswith(told["url"])
    assert told["url"].endswith(f"/runs/{run.run_id}")


def test_findings_of_a_run_that_succeeded_are_told_counted_and_capped_and_none_are_not(
    tmp_path: Path, instance: dg.DagsterInstance, hook: Hook
) -> None:
    answer = tick(tmp_path, instance, *ran(instance, found=0))
    assert answer is None, (
        "a SkipReason would keep the other runs of this tick waiting for the next one"
    )
    assert not hook.kept
    tick(tmp_path, instance, *ran(instance, found=12))
    (told,) = hook.kept
    assert told["subject"].startswith("12 finding(s): ")
    assert "staging profile 2024-03-01: the day is &lt;empty&gt;" in told["text"]
    assert "\nand 2 more\n" in told["text"]


def test_without_an_address_sensors_are_off(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (WEBHOOK, MAIL_TO):
        monkeypatch.delenv(variable, raising=False)
    assert {s.default_status for s in alert_sensors(tmp_path)} == {dg.DefaultSensorStatus.STOPPED}
    tick(tmp_path, instance, *ran(instance))
    assert not (tmp_path / ".alerts").exists()
    monkeypatch.setenv(WEBHOOK, "https://example.org/hook")
    assert {s.default_status for s in alert_sensors(tmp_path)} == {dg.DefaultSensorStatus.RUNNING}


def test_a_failure_is_told_once_and_no_retry(
    tmp_path: Path, instance: dg.DagsterInstance, hook: Hook
) -> None:
    for again in ({}, {}, {ATTEMPT_TAG: "1"}):
        tick(tmp_path, instance, *ran(instance, again))
    assert len(hook.kept) == 1


def test_findings_that_were_told_are_not_told_again_until_they_were_good_in_between(
    tmp_path: Path, instance: dg.DagsterInstance, hook: Hook
) -> None:
    for found in (1, 1, 2, 0, 2):
        tick(tmp_path, instance, *ran(instance, found=found))
    assert [told["subject"] for told in hook.kept] == [
        "1 finding(s): staging, 2024-03-01",
        "1 finding(s): staging, 2024-03-02",
        "2 finding(s): staging, 2024-03-01..2024-03-02",
    ]


def test_what_needs_a_person_is_told_once_and_when_it_changes(
    tmp_path: Path, instance: dg.DagsterInstance, hook: Hook
) -> None:
    one, two = (
        {"altered files": "1 landed file(s) altered: a"},
        {"altered files": "2 landed file(s) altered: a, b"},
    )
    for alarms in (one, one, two, {}, two):
        report_alarms(tmp_path, instance, "landing", alarms, LOG)
        report_alarms(tmp_path, instance, "late_data", {}, LOG)
    assert [told["text"].splitlines()[1] for told in hook.kept] == [
        *one.values(),
        *two.values(),
        *two.values(),
    ]
    assert {told["subject"] for told in hook.kept} == {"Needs a person: altered files"}


@pytest.mark.parametrize("address", ["nowhere", "http://127.0.0.1:9/x"])
def test_a_webhook_that_takes_nothing_warns_and_gets_the_alarm_by_the_next_tick_that_finds_it(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    hook: Hook,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    address: str,
) -> None:
    for url in (address, hook.url, hook.url):
        monkeypatch.setenv(WEBHOOK, url)
        report_alarms(
            tmp_path, instance, "landing", {"altered files": "1 landed file(s) altered: a"}, LOG
        )
    assert len(hook.kept) == 1
    (warned,) = caplog.records
    assert "webhook" in warned.getMessage().lower()


def test_runs_that_fail_while_the_webhook_is_away_are_told_once_it_is_back(
    tmp_path: Path, instance: dg.DagsterInstance, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster hands an ended run to its sensor once, also where the sensor fails."""
    monkeypatch.setenv(WEBHOOK, AWAY)
    for _ in range(2):
        with contextlib.suppress(BackfillError):
            tick(tmp_path, instance, *ran(instance))
    report_alarms(tmp_path, instance, "quarantine", {"raw 2024-03-01": "1 row"}, LOG, is_run=True)
    report_alarms(tmp_path, instance, "landing", {}, LOG)
    monkeypatch.setenv(WEBHOOK, hook.url)
    for _ in range(2):
        report_alarms(tmp_path, instance, "landing", {}, LOG)
    assert [kept["subject"].split(",")[0] for kept in hook.kept] == [
        "Failed: staging",
        "Needs a person: raw 2024-03-01",
    ]


def refused(record: Posted, message: Message) -> None:
    """Post a message of a run while the webhook is away."""
    with pytest.raises(BackfillError):
        record.post_news(
            AWAY, {message.subject: message.text}, lambda _: message, is_seen_once=True
        )


def test_alerts_that_wait_are_posted_for_one_deadline_in_all_and_hold_no_secret(
    tmp_path: Path, hook: Hook
) -> None:
    record = Posted(place_of(tmp_path), ".alerts/one", ())
    for number in range(3):
        refused(record, Message(f"run {number}", "password=s3cret"))
    assert "s3cret" not in (tmp_path / ".alerts/one/unsent.json").read_text()
    record.post_unsent(hook.url, seconds=0)
    assert not hook.kept
    record.post_unsent(hook.url)
    assert [kept["subject"] for kept in hook.kept] == ["run 0", "run 1", "run 2"]


def test_the_failed_step_of_a_gate_carries_the_next_command_from_another_process_too() -> None:
    command = "backfill-assets rollback --plan p --chunk 2 --yes"
    refused = GateRefused("the plan p", "3 rows before, 9 now", "It stopped", command).with_facts(
        rollback=command
    )
    assert as_failure(refused).metadata["rollback"].value == command
    assert pickle.loads(pickle.dumps(refused)).facts["rollback"] == command  # noqa: S301  # our own


MESSAGE = Message("subject", "text")
AT_ONCE = (0.0, 0.0)
AWAY = "http://127.0.0.1:9/x"


@pytest.fixture
def posted(tmp_path: Path) -> Posted:
    return Posted(place_of(tmp_path), "alerts", AT_ONCE)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (WEBHOOK, f"ftp://x/{SECRET}"),
        (WEBHOOK, f"http://[{SECRET}"),
        (MAIL_TO, f"{SECRET}@example.org"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_by_its_variable_and_not_shown(
    variable: str, value: str
) -> None:
    with pytest.raises(SettingsError, match=variable) as refused:
        webhook_address({variable: value})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("status", [500, 301, 307])
def test_a_message_is_tried_again_no_redirect_is_followed_and_a_refusal_names_no_address(
    status: int,
) -> None:
    with (
        contextlib.closing(Hook()) as other,
        contextlib.closing(Hook(status, to=other.url)) as hook,
    ):
        with pytest.raises(BackfillError, match=f"HTTP {status}") as refused:
            post_message(hook.url, MESSAGE, AT_ONCE)
        assert (len(hook.kept), other.kept) == (3, [])
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "piece"), [(200, b"x"), (100, b"\r\nHTTP/1.1 100 Continue\r\n")]
)
def test_an_answer_that_never_ends_is_given_up_at_one_deadline(status: int, piece: bytes) -> None:
    with contextlib.closing(Hook(status, piece=piece)) as hook:
        began = time.monotonic()
        with pytest.raises(BackfillError, match="no whole answer within") as refused:
            post_message(hook.url, MESSAGE, (0.1, 9.0), seconds=0.4)
        assert time.monotonic() - began < 5
        assert len(hook.kept) == 1
    assert SECRET not in str(refused.value)


def test_a_process_waits_for_few_answers_at_once() -> None:
    over = threading.Event()
    waiting = [
        threading.Thread(target=over.wait, name=POSTING, daemon=True) for _ in range(MOST_POSTING)
    ]
    for thread in waiting:
        thread.start()
    with contextlib.closing(Hook()) as hook:
        with pytest.raises(BackfillError, match="earlier ones still wait"):
            post_message(hook.url, MESSAGE, AT_ONCE)
        over.set()
        for thread in waiting:
            thread.join()
        post_message(hook.url, MESSAGE, AT_ONCE)
        assert len(hook.kept) == 1


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_secret_leaves_by_an_alert_or_by_the_event_of_a_failed_step(
    hook: Hook, form: str
) -> None:
    post_message(hook.url, Message(f"Failed: {form}", f"it says {form}"), AT_ONCE)
    assert FORM_SECRET not in str(hook.kept)
    failed = as_failure(BackfillError("the table t", form, "Nothing was written", "Look"))
    assert FORM_SECRET not in f"{failed.description} {failed.metadata} {failed}"


def test_the_cause_of_a_failed_run_holds_no_secret_whoever_raised_it(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    form = FORMS["signed address of AWS"]

    @dg.op
    def fails() -> None:
        raise ConnectionError(f"cannot reach {form}")

    @dg.job
    def one() -> None:
        fails()

    run_id = one.execute_in_process(instance=instance, raise_on_error=False).run_id
    assert run_failure_cause(instance, run_id).startswith(
        "ConnectionError: cannot reach https://b.s3.example/x?***"
    )


def test_a_text_that_is_no_utf8_is_sent_and_holds_back_no_other(hook: Hook) -> None:
    for text in ("a lake called \udcff", "the next one"):
        post_message(hook.url, Message(text, text), AT_ONCE)
    assert [told["subject"] for told in hook.kept] == ["a lake called \udcff", "the next one"]


def about(subject: str) -> Callable[[list[str]], Message]:
    return lambda names: Message(f"{subject}: {', '.join(names)}", "")


@pytest.mark.parametrize("off", [timedelta(days=-3650), timedelta(hours=2), timedelta(days=3650)])
def test_a_clock_that_is_set_right_again_silences_no_news(
    posted: Posted, hook: Hook, off: timedelta
) -> None:
    with set_to(Clock(off)):
        posted.post_news(hook.url, {"a": "1"}, about("news"), again=DAY_SECONDS)
    posted.post_news(hook.url, {"a": "1"}, about("news"), again=DAY_SECONDS)
    assert len(hook.kept) == 2
