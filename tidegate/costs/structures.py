"""The four structures of kang2003, by letter, and the pairs that two windows can have.

Law: the first letter of a pair names the structure on the first window, the second that on the
second window (so kang2003, Table 3).
"""

from __future__ import annotations

from itertools import product

from tidegate.spec import TidegateError

NESTED_LOOP, HASH, BTREE, TTREE = "N", "H", "B", "T"
LETTERS = (NESTED_LOOP, HASH, BTREE, TTREE)
INDEX_NAMES = {"N": "nested-loop", "H": "hash", "B": "btree", "T": "ttree"}

# What serves a predicate: a hash index keeps no order of keys.
SERVES = {"equality": "NHBT", "band": "NBT"}


def pairs(letters: str = "NHBT") -> list[str]:
    """All pairs of these structures.

    >>> pairs("NH")
    ['NN', 'NH', 'HN', 'HH']
    """
    return ["".join(pair) for pair in product(letters, repeat=2)]


def read_letters(text: str, where: str = "structures") -> str:
    """Letters that a user gave, each once and in the order of N, H, B, T."""
    wanted = text.upper().replace(",", "").replace(" ", "")
    unknown = sorted(set(wanted) - set(LETTERS))
    if unknown or not wanted:
        raise TidegateError(
            f"{where} {text!r} is not a choice of structures; write letters of NHBT: N nested "
            "loop, H hash, B B+tree, T T-tree"
        )
    return "".join(letter for letter in LETTERS if letter in wanted)


def index_of(pair: str, streams: tuple[str, str]) -> dict[str, str]:
    """A pair as the option `index` of a join.

    >>> index_of("TN", ("left", "right"))
    {'left': 'ttree', 'right': 'nested-loop'}
    """
    return {stream: INDEX_NAMES[letter] for stream, letter in zip(streams, pair, strict=True)}
