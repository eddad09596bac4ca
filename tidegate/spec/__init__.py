"""What the user asks for: validated at once, frozen, with a JSON round trip."""

from tidegate.spec.join_spec import (
    INDEX_KINDS,
    POLICY_NAMES,
    Band,
    Cpu,
    Equal,
    IndexKind,
    InnerProduct,
    JoinSpec,
    Overlap,
    Policy,
    Predicate,
    Rows,
    SpecError,
    Term,
    Theta,
    TidegateError,
    Window,
    band,
    index_serves,
    inner_product,
    overlap,
    rows,
    theta,
)

__all__ = [
    "INDEX_KINDS", "POLICY_NAMES", "Band", "Cpu", "Equal", "IndexKind", "InnerProduct", "JoinSpec",
    "Overlap", "Policy", "Predicate", "Rows", "SpecError", "Term", "Theta", "TidegateError",
    "Window", "band", "index_serves", "inner_product", "overlap", "rows", "theta",
]  # fmt: skip
