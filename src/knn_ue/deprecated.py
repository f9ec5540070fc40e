"""Names of 0.1 that were renamed: each still works until 0.3.0, and warns with its new name. `RENAMED` lists them all.

The old modules are registered by `knn_ue` itself; a module that has lost a name asks `renamed_in` in its `__getattr__`,
and a class keeps an old method with `renamed_method`.
"""

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

REMOVED_IN = "0.3.0"
RENAMED = {
    "knn_ue.datastore": "knn_ue.stores",
    "knn_ue.selective": "knn_ue.decisions.risk",
    "knn_ue.report.RAW": "knn_ue.evaluation.RAW",
    "knn_ue.report.STYLES": "knn_ue.evaluation.STYLES",
    "knn_ue.report.TEST": "knn_ue.evaluation.TEST",
    "knn_ue.report.Comparison": "knn_ue.evaluation.Comparison",
    "knn_ue.report.Evaluation": "knn_ue.evaluation.Evaluation",
    "knn_ue.report.EvaluationOptions": "knn_ue.evaluation.EvaluationOptions",
    "knn_ue.report.Style": "knn_ue.evaluation.Style",
    "knn_ue.report.Table": "knn_ue.evaluation.Table",
    "knn_ue.report.evaluate": "knn_ue.evaluation.evaluate",
    "knn_ue.stores.Datastore.detached": "knn_ue.stores.Datastore.snapshot",
}


def renamed_in(module: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for `module` that finds the names it had."""

    def get(name: str) -> Any:
        old = f"{module}.{name}"
        if old not in RENAMED:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(old, RENAMED[old])
        place, _, found = RENAMED[old].rpartition(".")
        return getattr(import_module(place), found)

    return get


def renamed_method(old: str) -> Callable[..., Any]:
    """Return the method that `old` (module, class and name) is called by now, with a warning."""
    new = RENAMED[old].rpartition(".")[2]

    def call(self: object, *given: Any, **named: Any) -> Any:
        _warn(old, RENAMED[old])
        return getattr(self, new)(*given, **named)

    call.__doc__ = f"Renamed to `{new}`."
    return call


class OldModule(ModuleType):
    """Stands where a module was; whatever is asked of it is asked of the module that has its content now."""

    def __getattr__(self, name: str) -> Any:
        new = RENAMED[self.__name__]
        if name.startswith("__"):  # tools look into every module there is
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        _warn(self.__name__, new)
        return getattr(import_module(new), name)


def register_old_modules() -> None:
    """Let `import` find the modules that were renamed, and `knn_ue` have them."""
    for name in ("datastore", "selective"):
        old = f"knn_ue.{name}"
        sys.modules[old] = OldModule(old, f"Renamed to `{RENAMED[old]}`.")
        setattr(sys.modules["knn_ue"], name, sys.modules[old])


def _warn(old: str, new: str) -> None:
    message = f"{old} is now {new}: use that, the old name is removed in {REMOVED_IN}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
