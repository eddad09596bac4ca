"""What was given where a spec or streams are asked for: one sentence for anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.spec.join_spec import JoinSpec, TidegateError


def check_spec(given: Any) -> None:
    """An error unless this is a spec."""
    if not isinstance(given, JoinSpec):
        raise TidegateError(
            f"spec is {type(given).__name__}; give a tidegate.JoinSpec, such as "
            "tidegate.JoinSpec(on='key', time='time', within='10 minutes')"
        )


def by_name(given: Any, asked_by: str) -> Mapping[str, Any]:
    """What was given for each stream, by its name."""
    if not isinstance(given, Mapping):
        raise TidegateError(
            f"{asked_by} was given {type(given).__name__}; give a dict by stream name, such as "
            "{'left': ...}"
        )
    return given
