"""Which machine this is, and where its weights are kept.

Law: weights are read only on the kind of CPU that they were measured on, and only if every number
is there and makes sense; else a sentence says what to do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tidegate.compiled.places import cache_folder
from tidegate.compiled.processor import cpu_name
from tidegate.costs.structures import LETTERS
from tidegate.costs.weights import PAPER, Weights
from tidegate.spec import TidegateError
from tidegate.spec.units import nearest_hint

FILE = "weights.json"
_BY_LETTER = ("search", "update", "per_search", "per_update", "per_match")
_CALIBRATE = "run: tidegate plan --calibrate"


def weights_file() -> Path | None:
    """Where this machine's weights are kept; None where no folder can be written."""
    folder = cache_folder()
    return None if folder is None else folder / FILE


def store(weights: Weights) -> Path:
    """Keep weights for `--weights here`; returns the file."""
    path = weights_file()
    if path is None:
        raise TidegateError(
            "no folder can be written to keep the weights in; set TIDEGATE_CACHE to one that can"
        )
    text = json.dumps(asdict(weights), indent=1)
    partial = path.with_suffix(".partial")
    partial.write_text(f"{text}\n", encoding="utf-8")
    partial.replace(path)
    return path


def stored() -> Weights:
    """The weights that `store` kept."""
    path = weights_file()
    if path is None or not path.is_file():
        raise TidegateError(f"this machine has no weights yet; {_CALIBRATE}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise TidegateError(f"'{path}' cannot be read as weights; {_CALIBRATE}") from None
    weights = _checked(found, path)
    if weights.made.get("cpu") != cpu_name():
        raise TidegateError(
            f"the weights in '{path}' are of another CPU ({weights.made.get('cpu')}, this is "
            f"{cpu_name()}); {_CALIBRATE}"
        )
    return weights


def _checked(found: Any, path: Path) -> Weights:
    names = {each.name for each in fields(Weights)}
    if not isinstance(found, dict) or set(found) != names or not _sound(found):
        raise TidegateError(f"'{path}' does not hold weights of this version; {_CALIBRATE}")
    return Weights(**found)


def _sound(found: Mapping[str, Any]) -> bool:
    try:
        numbers = [float(found[name][letter]) for name in _BY_LETTER for letter in LETTERS]
        numbers += [float(found["per_arrival"]), float(found["band_scan"])]
        numbers += map(float, found["saved"].values())
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    named = found["shape"] in ("paper", "engine") and isinstance(found["made"], dict)
    return named and all(math.isfinite(number) and number >= 0.0 for number in numbers)


def weights_of(name: str | Weights) -> Weights:
    """Weights by name: "paper", "here", or "auto" for those of this machine if it has any."""
    if isinstance(name, Weights):
        return name
    if name == "paper":
        return PAPER
    if name == "here":
        return stored()
    if name == "auto":
        path = weights_file()
        return stored() if path is not None and path.is_file() else PAPER
    known = nearest_hint(name, ("paper", "here", "auto"))
    raise TidegateError(f"weights {name!r} are not known; {known}")
