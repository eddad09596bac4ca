"""The policies by name.

Law: what `policies()` lists works; a name that is known but has no implementation yet is refused
with the list of those that have one.
"""

from __future__ import annotations

from tidegate.shed.static import STATIC_POLICIES
from tidegate.spec import SpecError

# `auto` is the best that is there: chance, until estimators say what a tuple is worth.
_AUTO = "random"


def policies() -> tuple[str, ...]:
    """The names that `JoinSpec(policy=...)` takes."""
    return (*STATIC_POLICIES, "auto")


def policy_code(name: str) -> int:
    """The number by which the driver knows a policy."""
    code = STATIC_POLICIES.get(_AUTO if name == "auto" else name)
    if code is None:
        raise SpecError(
            f"policy {name!r} is not available in this version; available: {', '.join(policies())}"
        )
    return code
