"""The folder of a demo: claimed before anything is written, so that no file of others is lost."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from knn_ue.errors import KnnUeError, StorageError

# It says that the rest is the demo's own and may be written again.
MARKER = ".knn-ue-demo"


@contextmanager
def demo_folder(out: str | Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the folder `out`, created if needed; raise where a file the demo did not write has one of `names`."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MARKER).exists():
            for name in names:
                if (folder / name).exists():
                    raise StorageError(f"{folder} has a {name} that the demo did not write: choose another folder")
        (folder / MARKER).write_text("knn-ue demo wrote the files beside this one and may overwrite them\n")
        yield folder
    except OSError as error:
        if isinstance(error, KnnUeError):
            raise
        raise StorageError(f"{folder} cannot be written ({error.strerror or error}): choose another folder") from error
