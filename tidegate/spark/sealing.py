"""Stored bytes behind a header: a format's number, a length and a checksum.

Law: bytes that are not those that were stored, under the number they were stored under, are
refused with one sentence and never read further.

    8 bytes   "tidegate"
    2 bytes   the format's number
    8 bytes   the length of the body
    16 bytes  BLAKE2b of the body, keyed by the number under which it is stored
    the body
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tidegate.spec import TidegateError

MAGIC = b"tidegate"
_HEADER = struct.Struct("!8sHQ16s")


def sealed(body: bytes, number: int, version: int) -> bytes:
    """Put the header before a body.

    >>> unsealed(sealed(b"rows", 7, 2), 7, 1, 2)
    b'rows'
    """
    return _HEADER.pack(MAGIC, version, len(body), _checksum(body, number)) + body


def unsealed(stored: bytes, number: int, oldest: int, newest: int) -> bytes:
    """Take the header off, and refuse what another version wrote or what was damaged."""
    if not stored:
        raise TidegateError(_damaged(number, "is missing"))
    if not stored.startswith(MAGIC):
        if stored.startswith(b"{"):  # the record of format 1 was bare JSON
            raise _other_format(1, oldest, newest)
        raise TidegateError(_damaged(number, "does not begin as it should"))
    if len(stored) < _HEADER.size:
        raise TidegateError(_damaged(number, "is cut off"))
    _, version, length, checksum = _HEADER.unpack_from(stored)
    if not oldest <= version <= newest:
        raise _other_format(version, oldest, newest)
    body = stored[_HEADER.size :]
    if len(body) != length:
        raise TidegateError(_damaged(number, f"has {len(body)} bytes instead of {length}"))
    if _checksum(body, number) != checksum:
        raise TidegateError(_damaged(number, "does not match its checksum"))
    return body


@contextmanager
def reading(number: int) -> Iterator[None]:
    """What cannot be read, or does not fit, behind a right checksum too, is damage."""
    try:
        yield
    except TidegateError:
        raise
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, OSError, pa.ArrowException,
        RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        said = (str(error).splitlines() or [""])[0]
        raise TidegateError(_damaged(number, f"cannot be read ({said})")) from error


def _checksum(body: bytes, number: int) -> bytes:
    key = number.to_bytes(8, "big", signed=True)
    return hashlib.blake2b(body, digest_size=16, key=key).digest()


def _damaged(number: int, what: str) -> str:
    return (
        f"the stored state of the join is damaged: part {number} {what}; restore the checkpoint "
        "from a copy, or start from a new checkpoint location"
    )


def _other_format(found: int, oldest: int, newest: int) -> TidegateError:
    reads = f"format {newest}" if oldest == newest else f"formats {oldest} to {newest}"
    hint = "a newer" if found > newest else "an older"
    return TidegateError(
        f"the checkpoint holds tidegate state of format {found}, but this version reads {reads}; "
        f"use {hint} version of tidegate, or start from a new checkpoint location"
    )
