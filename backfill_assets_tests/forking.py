"""Runs collected tests in forked children: imported and collected once, in as many processes as there are cores.

Lives here: who gets which tests, and that the parent tells what the children found as if it had run them. A child that
dies is told as the failure of the test it was in; another one goes on. Does not live here: which run is forked and what
belongs together (`conftest.py`); the whole suite, whose servers and browsers want interpreters of their own (xdist).
"""

import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import TYPE_CHECKING, Any

import pytest
from xdist.remote import serialize_warning_message
from xdist.workermanage import unserialize_warning_message

if TYPE_CHECKING:
    Pipe = Connection[Any, Any]

MORE = "more"  # what a child says for the next batch


@dataclass
class Found:
    """What came of one test: its reports and warnings, serialized, and why it wants the session to stop, if it does."""

    location: tuple[str, int | None, str]
    reports: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    stop: bool | str = False


@dataclass
class Child:
    """A child, and the indexes of the tests that it has and has not told of: it is in the first of them, or before."""

    process: ForkProcess
    todo: deque[int] = field(default_factory=deque)


class Parent:
    """Hands out batches of tests, lists of indexes into the session's items, and tells what the children found."""

    def __init__(self, session: pytest.Session, batches: Iterable[list[int]]) -> None:
        self._session, self._batches = session, deque(batches)
        self._children: dict[Pipe, Child] = {}

    def run(self, processes: int) -> None:
        """All of them, in so many children; raises what pytest's own loop does, and `RuntimeError` of a child's."""
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one folder for all
        try:
            for _ in range(min(processes, len(self._batches))):
                self._start()
            while self._children:
                for pipe in wait(list(self._children)):
                    assert isinstance(pipe, Connection)
                    self._hear(pipe)
        finally:
            for child in self._children.values():
                child.process.terminate()
            for child in self._children.values():
                child.process.join()

    def _start(self) -> None:
        context = get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(self._session, theirs, [ours, *self._children]))
        process.start()
        theirs.close()  # or its end would not be seen
        self._children[ours] = Child(process)

    def _hear(self, pipe: "Pipe") -> None:
        child = self._children[pipe]
        try:
            message = pipe.recv()
        except (EOFError, ConnectionError):
            self._ended(pipe)
            return
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, Found):
            self._tell(self._session.items[child.todo.popleft()], message)
        else:
            batch = self._batches.popleft() if self._batches else []
            child.todo.extend(batch)
            pipe.send(batch)

    def _ended(self, pipe: "Pipe") -> None:
        """A child that still had tests died in the first of them; what comes after it is for another child."""
        child = self._children.pop(pipe)
        pipe.close()
        child.process.join()
        if not child.todo:
            return
        item = self._session.items[child.todo.popleft()]
        if child.todo:
            self._batches.appendleft(list(child.todo))
        if self._batches:
            self._start()
        code = child.process.exitcode
        died = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords=dict.fromkeys(item.keywords, 1),
            outcome="failed",
            longrepr=f"the process that ran {item.nodeid} died in it: exit code {code}, negative: by that signal",
            when="call",
        )
        said = item.config.hook.pytest_report_to_serializable(config=item.config, report=died)
        self._tell(item, Found(item.location, [said]))

    def _tell(self, item: pytest.Item, found: Found) -> None:
        """To the plugins of this process, as pytest does for a test that it ran itself."""
        session, hook = self._session, item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=found.location)
        for data in found.reports:
            report = item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
            hook.pytest_runtest_logreport(report=report)
        for warned in found.warnings:
            told = warned | {"warning_message": unserialize_warning_message(warned["warning_message"])}
            item.config.hook.pytest_warning_recorded.call_historic(kwargs=told)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=found.location)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if found.stop:
            raise session.Interrupted(found.stop)


class Ear:
    """The plugin of a child that hears what a test comes to, where the terminal would."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self.found = config, Found(("", None, ""))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A report of one phase of the test."""
        said = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.found.reports.append(said)

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        """A warning that is no error."""
        said = serialize_warning_message(warning_message)
        self.found.warnings.append({"warning_message": said, "when": when, "nodeid": nodeid, "location": location})


def serve(session: pytest.Session, pipe: "Pipe", others: "list[Pipe]") -> None:
    """What a child does: asks for tests and tells of each, until there are no more. The parent's exit codes count."""
    for other in others:  # the parent's ends: held here, nobody would see that the parent is gone
        other.close()
    try:
        _own_streams(session.config)
        ear = Ear(session.config)
        indexes = _asked(pipe)
        index = next(indexes, None)
        session.config.pluginmanager.register(ear)
        while index is not None:
            following = next(indexes, None)  # asked before, because what the next one needs is not torn down
            item, ear.found = session.items[index], Found(session.items[index].location)
            nextitem = None if following is None else session.items[following]
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            ear.found.stop = session.shouldstop
            pipe.send(ear.found)
            index = following
    except (KeyboardInterrupt, ConnectionError):
        return  # the parent heard of it too, or is gone
    except pytest.exit.Exception as stopped:
        pipe.send(stopped)
    except BaseException:  # noqa: BLE001  # the parent raises it
        pipe.send(RuntimeError(traceback.format_exc()))


def _asked(pipe: "Pipe") -> Iterator[int]:
    while True:
        pipe.send(MORE)
        batch = pipe.recv()
        if not batch:
            return
        yield from batch


def _own_streams(config: pytest.Config) -> None:
    """Nothing is printed here, and what tests print is not captured into the file that the others share."""
    config.pluginmanager.unregister(name="terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
