"""The command line: `tidegate join | whatif | optimum | plan | demo | reproduce | bench | ...`.

Law: standard output carries the answer and nothing else, standard error all that is said on the
way. Bad input ends with status 2 and one sentence, never with a traceback. A command imports what
is slow to import (numba, pyarrow) when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable

import typer
from typer.main import get_command

from tidegate.cli import (
    bench,
    demo,
    join,
    optimum,
    plan,
    repair,
    reproduce,
    state,
    version,
    warm,
    watch,
    whatif,
)
from tidegate.cli.screen import say
from tidegate.compiled.versions import UntestedVersionError
from tidegate.spec import TidegateError

BAD_INPUT = 2
INTERRUPTED = 130

app = typer.Typer(
    name="tidegate",
    help="Window joins over streams that stay inside a memory and a CPU budget and say "
    "what they lost.",
    epilog="Start with: tidegate demo",
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS: dict[str, Callable[..., None]] = {
    "join": join.join,
    "optimum": optimum.optimum,
    "plan": plan.plan,
    "whatif": whatif.whatif,
    "repair": repair.repair,
    "watch": watch.watch,
    "state": state.state,
    "demo": demo.demo,
    "reproduce": reproduce.reproduce,
    "bench": bench.bench,
    "warm": warm.warm,
    "version": version.version,
}


def _help_of(command: Callable[..., None]) -> str:
    """Its docstring with a paragraph per line; typer would break lines where the source does."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        text if text.startswith("\b") else " ".join(text.split()) for text in paragraphs
    )


for _name, _command in COMMANDS.items():
    app.command(_name, help=_help_of(_command))(_command)


@app.callback()
def _commands() -> None:
    """Keep the commands named, also where there is only one."""


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    try:
        _refuse_repeats(arguments)
        # Not standalone: errors of usage come here too, instead of being printed as a box.
        status = get_command(app).main(arguments, "tidegate", standalone_mode=False)
        sys.stdout.flush()
    except (TidegateError, UntestedVersionError) as error:
        return _bad_input(str(error))
    except (KeyboardInterrupt, typer.Abort):
        say("tidegate: stopped before the end")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`tidegate join ... | head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        # typer has its own copy of click, whose errors are known by this method.
        if not hasattr(error, "format_message"):
            raise
        return _bad_input(_usage_sentence(error, arguments))
    return status if isinstance(status, int) else 0


def _refuse_repeats(arguments: list[str]) -> None:
    """An option that takes one value and is given twice would lose the first in silence."""
    name = _command_of(arguments)
    if name is None:
        return
    given = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    for option in get_command(app).commands[name].params:  # type: ignore[attr-defined]
        if getattr(option, "multiple", False) or getattr(option, "is_flag", False):
            continue
        for word in option.opts:
            if given.count(word) > 1:
                raise TidegateError(
                    f"option {word} is given twice and takes one value (see tidegate {name} "
                    "--help; values by stream are written left=...,right=...)"
                )


def _command_of(arguments: list[str]) -> str | None:
    return next((word for word in arguments if word in COMMANDS), None)


def _usage_sentence(error: Exception, arguments: list[str]) -> str:
    message = " ".join(str(error.format_message()).split()).rstrip(".")  # type: ignore[attr-defined]
    command = _command_of(arguments)
    where = f"tidegate {command}" if command else "tidegate"
    message = message.replace(". Did you mean", ", did you mean")
    return f"{message[:1].lower()}{message[1:]} (see {where} --help)"


def _bad_input(sentence: str) -> int:
    say(f"tidegate: {' '.join(sentence.split())}")
    return BAD_INPUT


def main() -> None:
    """Run the command that the process was started with."""
    sys.exit(run(sys.argv[1:] or ["--help"]))
