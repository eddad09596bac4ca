"""What every test run shares: repeatable examples, and the mark of tests that start a JVM.

Law: two runs of the same sources try the same examples. hypothesis derives them from the test
itself instead of from chance; `pytest --hypothesis-profile=explore` looks for new ones.
"""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings
from shared_queue import shared_queue

# Helper modules get the same readable assertions as test modules.
pytest.register_assert_rewrite("contracts", "naive")

# How many examples a law gets that nothing else shows; other tests take a share (`tries.examples`).
EXAMPLES = int(os.environ.get("TIDEGATE_EXAMPLES", "100"))

# No deadline: the first example of a kernel pays for its compilation. Far more examples are tried
# with the profile `explore`, with TIDEGATE_EXAMPLES, and by `python -m tests.hunt`.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=EXAMPLES,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# Kernels run as plain Python are some hundred times slower, so they get fewer examples.
settings.register_profile(
    "nojit", settings.get_profile("repeatable"), max_examples=max(2, EXAMPLES // 5)
)
settings.register_profile(
    "explore", settings.get_profile("repeatable"), derandomize=False, max_examples=3000
)
settings.load_profile("nojit" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "repeatable")


def pytest_configure(config: pytest.Config) -> None:
    queue = shared_queue()
    if queue is not None:
        config.pluginmanager.register(queue)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the Spark session before pytest selects by mark."""
    for item in items:
        if "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def pytest_collection_finish() -> None:
    """What collecting made stays to the end: the garbage collector need not look at it again."""
    gc.freeze()
