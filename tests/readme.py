"""The code blocks of the README, in order, each with the heading it stands under."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|^#+ ([^\n]*)$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block; `language` is empty for what is typed into a shell."""

    heading: str
    language: str
    text: str
    line: int

    def commands(self) -> list[list[str]]:
        """The commands of a shell block, one per line, as lists of words."""
        return [shlex.split(line, comments=True) for line in self.text.splitlines()]


def blocks() -> list[Block]:
    """All blocks of the README."""
    text, heading, found = README.read_text(encoding="utf-8"), "", []
    for match in _BLOCK.finditer(text):
        if match[3] is not None:
            heading = match[3]
        else:
            line = text.count("\n", 0, match.start()) + 2
            found.append(Block(heading, match[1], match[2], line))
    return found


def under(*headings: str) -> list[Block]:
    """The blocks under some headings, in order."""
    return [block for block in blocks() if block.heading in headings]


def execute(found: list[Block], names: dict[str, object]) -> None:
    """Run Python blocks one after the other, as somebody would type them."""
    for block in found:
        # Empty lines put the line numbers of a traceback where the block stands in the README.
        code = compile("\n" * (block.line - 1) + block.text, str(README), "exec")
        exec(code, names)
