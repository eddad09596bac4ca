"""Memory that is no longer used goes back to the system.

The store's blocks come from the C library (Arrow's system pool), which keeps what is freed for the
next who asks. Arrow's own `release_unused` does nothing for that pool unless it is the default one
(pyarrow 26), so glibc is asked directly; other C libraries have no such call and are left alone.
"""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa

OWN_POOL = pa.system_memory_pool()


def return_unused_pages() -> None:
    """Ask the C library and Arrow's default pool to return what nobody uses."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    pa.default_memory_pool().release_unused()
