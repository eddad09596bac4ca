"""How many examples a random test tries.

Law: a test says which share of the profile's examples its law needs (`conftest.py`). So the run as
plain Python, where each example costs some hundred times more, and a search with TIDEGATE_EXAMPLES
or with the profile `explore` change all tests alike.
"""

from __future__ import annotations

from hypothesis import settings


def examples(share: float, at_least: int = 2) -> int:
    """A share of the examples of the profile in use."""
    return max(at_least, round(share * settings().max_examples))
