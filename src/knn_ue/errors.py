"""Every error the library raises on purpose. Each message states the rule, the value and the way out."""

from importlib.util import find_spec


class KnnUeError(Exception):
    """Base of all errors that knn-ue raises; `shell` is the message for the command line."""

    def __init__(self, message: str, *, shell: str | None = None) -> None:
        super().__init__(message)
        self.shell = shell or message


class InvalidInputError(KnnUeError, ValueError):
    """An argument breaks a stated rule."""


class NotFittedError(KnnUeError, RuntimeError):
    """A calibrator or pipeline was used before `fit`."""

    def __init__(self, name: str, *, call: str = "fit(validation)") -> None:
        super().__init__(f"{name} is not fitted: call {call} first")


class StorageError(KnnUeError, OSError):
    """A folder on disk cannot be read or written safely."""


class StaleFolderError(StorageError):
    """A folder was saved, compacted or tuned by another process since it was opened: open it again."""


class StoreUnreachableError(KnnUeError, ConnectionError):
    """A store on a server does not answer in time; the message says what was or was not changed."""


class MissingExtraError(KnnUeError, ImportError):
    """An optional dependency is not installed."""


class FitWarning(UserWarning):
    """What was fitted should not be trusted; the sentence says why."""


def require(module: str, *, extra: str, purpose: str) -> None:
    """Raise `MissingExtraError` unless `module` can be imported.

    >>> require("numpy", extra="plots", purpose="reliability_diagram")
    >>> require("no_such_module", extra="plots", purpose="reliability_diagram")
    Traceback (most recent call last):
    knn_ue.errors.MissingExtraError: reliability_diagram needs no_such_module. \
Install it with: pip install "knn-ue[plots]"
    """
    if find_spec(module) is None:
        raise MissingExtraError(f'{purpose} needs {module}. Install it with: pip install "knn-ue[{extra}]"')
