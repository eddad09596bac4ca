"""An engine whose call is interrupted at a line, or entered by a second thread there.

The law: whatever line of the package a call has come to, an exception there leaves the engine in
one of two states. Either the same call can be made again and everything goes on as if it had not
been interrupted, or every later call says in one sentence that the engine was interrupted and must
be restored. A second thread that comes while a call is at that line is refused in one sentence, or
is served as if its call had come before or after the other one.

Compiled code has no lines that Python could be interrupted at, so the lines are those of the plain
Python around it. `python interrupts.py` does all checks and prints what went wrong as JSON, in a
process of its own: an engine that computes on with half of its arrays may take the process with it.
There one engine is rewound (`rewinding.py`) and disturbed again, line after line.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from contracts import check_conservation
from interrupt_scenarios import SCENARIOS, Scenario, account, both, prepared, pushed
from rewinding import Mark

import tidegate as tg
from tidegate.compiled import scratch

PACKAGE = f"{Path(tg.__file__).parent}{os.sep}"
INTERRUPTED = "interrupted.*restore"
THREAD = "thread"


# --- lines -------------------------------------------------------------------------------

Line = tuple[str, int]
Call = Callable[[tg.JoinEngine], Any]


@dataclass(frozen=True)
class Moment:
    """A call comes to a line of the package for the `times`-th time."""

    line: Line
    times: int


@contextmanager
def tracing(trace: Any) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def moments(scenario: Scenario, call: Call) -> list[Moment]:
    """All moments of a call, in their order."""
    call(prepared(scenario))  # code that was not loaded yet has lines of its own
    found: list[Moment] = []
    times: Counter[Line] = Counter()

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            line = (frame.f_code.co_filename[len(PACKAGE) :], frame.f_lineno)
            times[line] += 1
            found.append(Moment(line, times[line]))
        return inside

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        return inside if frame.f_code.co_filename.startswith(PACKAGE) else None

    engine = prepared(scenario)
    with tracing(trace):
        call(engine)
    assert len(times) > 20, "the lines of the call were not seen"
    return found


def first_and_last(found: Sequence[Moment]) -> list[tuple[Moment, Moment]]:
    """The first and the last moment of each line."""
    last = {moment.line: moment for moment in found}
    return [(Moment(line, 1), moment) for line, moment in last.items()]


@contextmanager
def at(moment: Moment, act: Callable[[], None]) -> Iterator[None]:
    """Do something at a moment. Functions without the line run as fast as ever."""
    path, number = PACKAGE + moment.line[0], moment.line[1]
    left = moment.times

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "line" and frame.f_lineno == number:
            left -= 1
            if left == 0:
                sys.settrace(None)
                act()
        return inside

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        return inside if code.co_filename == path and code.co_firstlineno <= number else None

    with tracing(trace):
        yield
    assert left <= 0, "the call did not come to the line"


# --- checks ------------------------------------------------------------------------------


def _texts(tables: list[Any]) -> list[str]:
    """What tables hold, so that NaN is equal to NaN."""
    return [repr(table.to_pylist()) for table in tables]


def goes_on(scenario: Scenario, engine: tg.JoinEngine, expected: Expected) -> None:
    """From the interrupted push on, everything is as it is without an interrupt."""
    tables = [pushed(engine, push) for push in (scenario.push, *scenario.after)]
    assert _texts(tables) == expected.texts, "the results differ"
    check_conservation(engine.stats(), scenario.spec.streams)
    assert account(engine) == expected.account, "the account differs"
    assert engine.snapshot() == expected.snapshot, "the snapshot differs"


def says_so(engine: tg.JoinEngine, scenario: Scenario) -> None:
    """Every call says that the engine was interrupted, and goes on saying it."""
    for _ in range(2):
        for call in (lambda: pushed(engine, scenario.push), engine.snapshot, engine.stats):
            with pytest.raises(tg.TidegateError, match=INTERRUPTED) as caught:
                call()
            assert "\n" not in str(caught.value)


@dataclass(frozen=True)
class Expected:
    """What comes of the push and those after it when nothing disturbs them."""

    texts: list[str]
    account: dict[str, float]
    snapshot: bytes


def undisturbed(scenario: Scenario) -> Expected:
    engine = prepared(scenario)
    tables = [pushed(engine, push) for push in (scenario.push, *scenario.after)]
    expected = Expected(_texts(tables), account(engine), engine.snapshot())
    assert account(tg.JoinEngine.restore(expected.snapshot)) == expected.account
    return expected


def interrupted(
    scenario: Scenario,
    engine: tg.JoinEngine,
    call: Call,
    moment: Moment,
    stop: type[BaseException],
    expected: Expected,
) -> None:
    def act() -> None:
        raise stop()

    try:
        with at(moment, act):
            call(engine)
    except stop:
        pass
    else:
        raise AssertionError(f"{stop.__name__} was swallowed")
    try:
        engine.stats()
    except tg.TidegateError:
        says_so(engine, scenario)
    else:
        goes_on(scenario, engine, expected)


def entered(
    scenario: Scenario, engine: tg.JoinEngine, moment: Moment, call: Call, expected: Expected
) -> str:
    """A second thread calls while a push is at a line; "refused" or "served"."""
    answers: list[Any] = []

    def second() -> None:
        try:
            answers.append(call(engine))
        except BaseException as error:
            answers.append(error)

    def act() -> None:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()

    before = account(engine)
    with at(moment, act):
        table = pushed(engine, scenario.push)
    (answer,) = answers
    if isinstance(answer, BaseException):
        assert isinstance(answer, tg.TidegateError), f"it raised {answer!r}"
        assert THREAD in str(answer), f"it says {answer}"
        assert "\n" not in str(answer)
        rest = [pushed(engine, push) for push in scenario.after]
        assert _texts([table, *rest]) == expected.texts, "the push was disturbed"
        assert account(engine) == expected.account, "the push was disturbed"
        return "refused"
    if isinstance(answer, dict):
        seen = {name: n for name, n in answer.items() if name in before}
        assert seen in (before, account(engine)), "the stats are neither of before nor of after"
    if isinstance(answer, bytes):
        seen = account(tg.JoinEngine.restore(answer))
        assert seen in (before, account(engine)), "the snapshot is neither of before nor of after"
    check_conservation(engine.stats(), scenario.spec.streams)
    return "served"


def push_elsewhere(engine: tg.JoinEngine) -> pa.Table:
    return engine.push(both(10_000, 3))


CALLS: dict[str, Call] = {
    "push": push_elsewhere,
    "snapshot": tg.JoinEngine.snapshot,
    "stats": tg.JoinEngine.stats,
}


def check_rewinding(scenario: Scenario) -> None:
    """A rewound engine gives what a new one gives, again and again."""
    engine = prepared(scenario)
    mark = Mark((engine, scratch._unused))
    for _ in range(3):
        goes_on(scenario, engine, undisturbed(scenario))
        mark.rewind()


def stops_of(
    found: Sequence[Moment], before: Counter[Line], scenarios: Counter[Line]
) -> Iterator[tuple[type[BaseException], Moment]]:
    """Where a call is interrupted, and by what.

    A line has two interrupts: one exception where the call comes to it first, another where it
    comes to it last. If only one scenario has the line, both happen there, else one in each of the
    first two scenarios that have it. In the others every fourth line has one, since what an
    interrupt does depends on what the push has done by then, rather than on the line.
    """
    for first, last in first_and_last(found):
        stops = [(KeyboardInterrupt, first), (MemoryError, last)]
        turn = before[first.line]
        before[first.line] += 1
        if scenarios[first.line] == 1:
            yield from stops
        elif turn < 2 or (first.line[1] + turn) % 4 == 0:
            yield stops[(first.line[1] + turn) % 2]


def interrupt_everywhere(
    scenarios: dict[str, Scenario], call_of: Callable[[Scenario], Call]
) -> list[str]:
    """What went wrong, line by line."""
    found = {name: moments(each, call_of(each)) for name, each in scenarios.items()}
    lines = Counter(line for each in found.values() for line in {moment.line for moment in each})
    before: Counter[Line] = Counter()
    wrong = []
    for name, scenario in scenarios.items():
        check_rewinding(scenario)
        expected = undisturbed(scenario)
        engine = prepared(scenario)
        mark = Mark((engine, scratch._unused))
        for stop, moment in stops_of(found[name], before, lines):
            mark.rewind()
            try:
                interrupted(scenario, engine, call_of(scenario), moment, stop, expected)
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
                wrong.append(f"{name}: {stop.__name__} at {moment.line}: {said}"[:300])
    return wrong


def enter_everywhere(scenario: Scenario) -> list[str]:
    check_rewinding(scenario)
    expected = undisturbed(scenario)
    wrong = []
    found = first_and_last(push_moments(scenario))
    engine = prepared(scenario)
    mark = Mark((engine, scratch._unused))
    # One of three calls comes at each line.
    for turn, name in enumerate(CALLS):
        lines = found[turn::3]
        call, answers = CALLS[name], []
        for first, _ in lines:
            mark.rewind()
            try:
                answers.append(entered(scenario, engine, first, call, expected))
            except Exception as error:
                wrong.append(f"{name} at {first.line}: {type(error).__name__}: {error}"[:300])
        if "refused" not in answers:
            wrong.append(f"{name} was never refused")
    return wrong


def push_of(scenario: Scenario) -> Call:
    return lambda engine: pushed(engine, scenario.push)


def push_moments(scenario: Scenario) -> list[Moment]:
    return moments(scenario, push_of(scenario))


def snapshot_of(_: Scenario) -> Call:
    return tg.JoinEngine.snapshot


def checked() -> dict[str, list[str]]:
    """All checks, each with what went wrong."""
    return {
        "push": interrupt_everywhere(SCENARIOS, push_of),
        "snapshot": interrupt_everywhere({"value": SCENARIOS["value"]}, snapshot_of),
        "thread": enter_everywhere(SCENARIOS["exact"]),
    }


if __name__ == "__main__":
    print(json.dumps(checked()))
