"""Runs collected tests in forked children: imported and collected once, in as many processes as there are cores.

Lives here: who gets which tests, and that the parent tells what the children found as if it had run them. A child that
dies is told as the failure of the test it was in; another one goes on. An early child is forked before collection: it
collects what needs few imports itself, and is through with much of it before the parent has collected the rest. Does
not live here: which run is forked and what belongs together (`conftest.py`); the whole suite, whose servers and
browsers want interpreters of their own (xdist).
"""

import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
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
LISTENING = "listening"  # what the parent says once to an early child


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
    early: bool = False  # it keeps what it found until it is listened to: nobody knows which test it is in


class Parent:
    """Hands out batches of tests, lists of indexes into the session's items, and tells what the children found."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._batches: deque[list[int]] = deque()
        self._children: dict[Pipe, Child] = {}

    def begin(self, args: list[str]) -> None:
        """Fork a child that collects these arguments itself, and runs what it finds while this process collects."""
        self._start(partial(collect_and_serve, args=args)).early = True

    def begun(self) -> set[int]:
        """What a child that began before collection has taken, and runs; nothing of one that died."""
        for pipe, child in self._children.items():
            index_of = {item.nodeid: index for index, item in enumerate(self._session.items)}
            with suppress(EOFError, ConnectionError):
                child.todo.extend(index_of[nodeid] for nodeid in self._received(pipe))
        return {index for child in self._children.values() for index in child.todo}

    def run(self, batches: Iterable[list[int]], processes: int) -> None:
        """All of them, in so many children; raises what pytest's own loop does, and `RuntimeError` of a child's."""
        self._batches.extend(batches)
        try:
            for early in self._children:
                with suppress(ConnectionError):  # it died: to be found below
                    early.send(LISTENING)
            for _ in range(min(processes - len(self._children), len(self._batches))):
                self._start(serve)
            while self._children:
                for pipe in wait(list(self._children)):
                    assert isinstance(pipe, Connection)
                    self._hear(pipe)
        finally:
            self.stop()

    def stop(self) -> None:
        """End what still runs."""
        for child in self._children.values():
            child.process.terminate()
        for child in self._children.values():
            child.process.join()

    def _start(self, target: "Callable[[pytest.Session, Pipe, list[Pipe]], None]") -> Child:
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one folder for all
        context = get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=target, args=(self._session, theirs, [ours, *self._children]))
        process.start()
        theirs.close()  # or its end would not be seen
        self._children[ours] = Child(process)
        return self._children[ours]

    def _received(self, pipe: "Pipe") -> Any:
        message = pipe.recv()
        if isinstance(message, BaseException):
            raise message
        return message

    def _hear(self, pipe: "Pipe") -> None:
        child = self._children[pipe]
        try:
            message = self._received(pipe)
        except (EOFError, ConnectionError):
            self._ended(pipe)
            return
        if isinstance(message, Found):
            self._tell(self._session.items[child.todo.popleft()], message)
        else:
            batch = self._batches.popleft() if self._batches else []
            child.todo.extend(batch)
            pipe.send(batch)

    def _ended(self, pipe: "Pipe") -> None:
        """A child that still had tests died in the first of them; what comes after it is for another child.

        Of an early child all are: the one it died in ends the other child, too.
        """
        child = self._children.pop(pipe)
        pipe.close()
        child.process.join()
        died_in = child.todo.popleft() if child.todo and not child.early else None
        if child.todo:
            self._batches.appendleft(list(child.todo))
        if self._batches:
            self._start(serve)
        if died_in is not None:
            self._tell_death(self._session.items[died_in], child.process.exitcode)

    def _tell_death(self, item: pytest.Item, code: int | None) -> None:
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
    with _heard(pipe, others):
        _own_streams(session.config)
        _run(session, _asked(pipe), pipe.send)


def collect_and_serve(session: pytest.Session, pipe: "Pipe", others: "list[Pipe]", args: list[str]) -> None:
    """What an early child does: collects, says which tests it found, runs them, and tells of them once it is heard."""
    kept: list[Found] = []

    def keep(found: Found) -> None:
        kept.append(found)
        if pipe.poll():
            tell()

    def tell() -> None:
        for found in kept:
            pipe.send(found)
        kept.clear()

    with _heard(pipe, others):
        _own_streams(session.config)
        session.config.args = args
        session.config.hook.pytest_collection(session=session)
        pipe.send([item.nodeid for item in session.items])
        _run(session, iter(range(len(session.items))), keep)
        pipe.recv()  # LISTENING, unless it was heard before: it stays in the pipe
        tell()


def _run(session: pytest.Session, indexes: Iterator[int], tell: Callable[[Found], None]) -> None:
    ear = Ear(session.config)
    index = next(indexes, None)
    session.config.pluginmanager.register(ear)
    while index is not None:
        following = next(indexes, None)  # asked before, because what the next one needs is not torn down
        item, ear.found = session.items[index], Found(session.items[index].location)
        nextitem = None if following is None else session.items[following]
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        ear.found.stop = session.shouldstop
        tell(ear.found)
        index = following


@contextmanager
def _heard(pipe: "Pipe", others: "list[Pipe]") -> Iterator[None]:
    """What goes wrong in a child outside of its tests is raised by the parent."""
    for other in others:  # the parent's ends: held here, nobody would see that the parent is gone
        other.close()
    try:
        yield
    except (KeyboardInterrupt, EOFError, ConnectionError):
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
