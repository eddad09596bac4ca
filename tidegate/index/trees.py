"""The two trees behind one set of verbs, and nothing behind them where a join has no tree.

Law: a join without trees must not pay for compiling them. So a state holds either trees or None,
and each verb is chosen by the type while the driver is compiled.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import config as numba_config
from numba.extending import overload

from tidegate.compiled.kernel import COMPILED
from tidegate.index import btree, ttree

_MODULES = {btree.Tree: btree, ttree.Tree: ttree}


def insert(tree: Any, stream: int, key: int, slot: int) -> int:
    """Insert `slot` under `key`; returns the comparisons made."""
    return 0 if tree is None else _MODULES[type(tree)].insert(tree, stream, key, slot)


def remove(tree: Any, stream: int, key: int, slot: int) -> int:
    """Remove `slot`, which stands under `key`; returns the comparisons made."""
    return 0 if tree is None else _MODULES[type(tree)].remove(tree, stream, key, slot)


def probe(tree: Any, stream: int, low: int, high: int, found: Any) -> tuple[int, int, int]:
    """Write the slots with a key in [low, high] into `found`: how many, comparisons, visits."""
    return (0, 0, 0) if tree is None else _MODULES[type(tree)].probe(tree, stream, low, high, found)


def room(tree: Any) -> bool:
    """Is there surely room for one more insert?"""
    return True if tree is None else _MODULES[type(tree)].room(tree)


def _chosen(verb, kind):
    """The function behind a verb for a type of tree; None where there is no tree.

    numba compares the argument names *and annotations* of the typing functions below with those of
    the function they return, so these go without annotations.
    """
    return (
        None if isinstance(kind, types.NoneType) else getattr(_MODULES[kind.instance_class], verb)
    )


def _type_insert(tree, stream, key, slot):
    function = _chosen("insert", tree)
    if function is None:
        return lambda tree, stream, key, slot: 0
    return lambda tree, stream, key, slot: function(tree, stream, key, slot)


def _type_remove(tree, stream, key, slot):
    function = _chosen("remove", tree)
    if function is None:
        return lambda tree, stream, key, slot: 0
    return lambda tree, stream, key, slot: function(tree, stream, key, slot)


def _type_probe(tree, stream, low, high, found):
    function = _chosen("probe", tree)
    if function is None:
        return lambda tree, stream, low, high, found: (0, 0, 0)
    return lambda tree, stream, low, high, found: function(tree, stream, low, high, found)


def _type_room(tree):
    function = _chosen("room", tree)
    if function is None:
        return lambda tree: True
    return lambda tree: function(tree)


if not numba_config.DISABLE_JIT:
    for _verb, _typing in (
        (insert, _type_insert),
        (remove, _type_remove),
        (probe, _type_probe),
        (room, _type_room),
    ):
        overload(_verb, jit_options=COMPILED)(_typing)
