"""A hunt for what breaks: random cases of every kind, each in a process that it may take with it.

    python -m tests.hunt --cases 1000 --seed 7          # a table by kind in the end
    python -m tests.hunt --cases 1000 --kind many       # cases of one kind only
    python -m tests.hunt --seed 7 --only 123            # case 123 again, with its traceback

The law: a case ends in results that agree with the naive twin or keep the contracts, or in one
sentence of `TidegateError`. Another error, a crash, or a case that does not end is a finding. What
a case does follows from the seed and its number alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from random import Random

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "spark")]

import hunt_faults as faults  # noqa: E402
import hunt_joins as joins  # noqa: E402

# A hang is told from a slow machine by patience: a case that compiles took 200 s on a busy one.
SECONDS_PER_CASE = 600
CASES_PER_PROCESS = 300

KINDS: dict[str, Callable[[Random], None]] = {
    kind.__name__: kind
    for kind in (
        joins.exact,
        joins.shedding,
        joins.many,
        joins.many_exact,
        joins.budgets,
        joins.columns,
        faults.bad_input,
        faults.damaged,
        faults.recrafted,
        faults.interrupt,
        faults.thread,
        faults.restarts,
    )
}


def kind_of(number: int) -> str:
    return list(KINDS)[number % len(KINDS)]


def run(seed_: int, number: int) -> None:
    KINDS[kind_of(number)](Random(f"{seed_}:{number}"))


def number_of(case: int, kind: str | None) -> int:
    """The number by which a case can be run again: all are numbered through, or those of a kind."""
    return case if kind is None else case * len(KINDS) + list(KINDS).index(kind)


def child(seed_: int, begin: int, end: int, kind: str | None) -> None:
    """Run cases and say what became of each, line by line."""
    for case in range(begin, end):
        number = number_of(case, kind)
        print(json.dumps([case, "begins"]), flush=True)
        try:
            run(seed_, number)
            said = "passed"
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = str(error).splitlines() or [""]
            place = f"{Path(last.filename).name}:{last.lineno}"
            said = f"{type(error).__name__}: {text[0][:300]} ({place})"
        print(json.dumps([case, said]), flush=True)


@dataclass
class Hunt:
    """The cases so far, and what was found."""

    seed: int
    kind: str | None = None  # of all cases, if it is only one
    cases: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, str, str]] = field(default_factory=list)

    def run(self, begin: int, end: int, told: Callable[[], None]) -> None:
        """Run cases in child processes; after a crash or a hang the next one goes on."""
        while begin < end:
            begin = self._run_some(begin, min(end, begin + CASES_PER_PROCESS), told)

    def _run_some(self, begin: int, end: int, told: Callable[[], None]) -> int:
        words = ["--child", str(begin), str(end), "--seed", str(self.seed)]
        words += [] if self.kind is None else ["--kind", self.kind]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.hunt", *words], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        )  # fmt: skip
        number = begin
        for number, said in _answers(process):
            if said == "begins":
                continue
            self._note(number, said)
            told()
            begin = number + 1
        if begin < end:  # it ended, or was ended, inside a case
            code = process.wait()
            self._note(begin, f"the process ended with {code}")
            begin += 1
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return begin

    def _note(self, case: int, said: str) -> None:
        number = number_of(case, self.kind)
        self.cases[kind_of(number)] += 1
        if said != "passed":
            self.findings.append((number, kind_of(number), said))

    def table(self) -> str:
        found = Counter(kind for _, kind, _ in self.findings)
        rows = [(kind, self.cases[kind], found[kind]) for kind in KINDS if self.cases[kind]]
        rows.append(("all", self.cases.total(), len(self.findings)))
        lines = [f"{'kind':<12}{'cases':>8}{'findings':>10}"]
        lines += [f"{kind:<12}{cases:>8}{number:>10}" for kind, cases, number in rows]
        again = f"python -m tests.hunt --seed {self.seed} --only"
        lines += [f"{again} {number}  # {kind}: {said}" for number, kind, said in self.findings]
        return "\n".join(lines)


def _answers(process: subprocess.Popen[str]) -> Iterator[tuple[int, str]]:
    """What a child says; it is ended if it says nothing for too long."""
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    stdout = process.stdout

    def read() -> None:
        for line in stdout:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=SECONDS_PER_CASE)
        except Empty:
            process.kill()
            return
        if not line:
            return
        number, said = json.loads(line)
        yield number, said


def hunt(seed_: int, cases: int, is_told: bool = False, kind: str | None = None) -> Hunt:
    found = Hunt(seed_, kind)
    last = [time.monotonic()]

    def told() -> None:
        if is_told and time.monotonic() - last[0] > 2:
            last[0] = time.monotonic()
            done = found.cases.total()
            line = f"seed {seed_}: {done} of {cases} cases, {len(found.findings)} findings"
            print(line, file=sys.stderr, flush=True)

    found.run(0, cases, told)
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=list(KINDS), help="cases of this kind only")
    parser.add_argument("--only", type=int, help="the number of one case, run in this process")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    given_ = parser.parse_args(words)
    if given_.only is not None:
        run(given_.seed, given_.only)
        return 0
    if given_.child is not None:
        child(given_.seed, *given_.child, given_.kind)
        return 0
    found = hunt(given_.seed, given_.cases, is_told=True, kind=given_.kind)
    print(found.table())
    return int(bool(found.findings))


if __name__ == "__main__":
    sys.exit(main())
