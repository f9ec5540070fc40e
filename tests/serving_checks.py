"""Comparisons of what a server answers."""

import math
from typing import Any


def near(found: Any, expected: Any, *, tolerance: float = 1e-4) -> bool:
    """Say whether two answers are alike but for the rounding that another batch brings."""
    if isinstance(expected, dict):
        return set(found) == set(expected) and all(near(found[key], expected[key]) for key in expected)
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(near, found, expected))
    if isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance)
    return bool(found == expected)
