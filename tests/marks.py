"""Which cases of a test the quick run has."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(fast: Any, cases: Iterable[Any]) -> list[Any]:
    """Return the cases for `parametrize`, all of them slow but one, or all but those of a tuple."""
    kept = fast if isinstance(fast, tuple) else (fast,)
    cases = list(cases)
    assert set(kept) <= set(cases)
    return [case if case in kept else pytest.param(case, marks=pytest.mark.slow) for case in cases]
