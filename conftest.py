"""What makes tests quick: no file is imported in vain, no garbage is sought in imports, and `make check` does less."""

import gc
import re
from pathlib import Path

import pytest
from hypothesis import settings

QUICK = "not slow"
SLOW_FILE = re.compile(r"^pytestmark = (?:\[[^\]]*)?pytest\.mark\.slow\b", re.MULTILINE)

# Imports leave a million objects and hardly any garbage: walking them again and again was a third of the collection.
gc.disable()


def pytest_collection_finish() -> None:
    """Seek garbage from here on, but not among what was imported, which stays to the end."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without a test, which `--doctest-modules` would import, with all they need, to find none."""
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    if collection_path.name.startswith("test_"):
        return True if config.option.markexpr == QUICK and SLOW_FILE.search(text) else None
    return None if ">>>" in text else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Try a fifth of the examples in the quick run; `make test` tries all."""
    if config.option.markexpr != QUICK:
        return
    for function in {getattr(item, "obj", None) for item in items}:
        full = getattr(function, "_hypothesis_internal_use_settings", None)  # a state machine keeps its own elsewhere
        if full is not None:
            function._hypothesis_internal_use_settings = settings(full, max_examples=max(3, full.max_examples // 5))
