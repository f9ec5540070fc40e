"""The only place that knows the disk: folders that are written in one step, their arrays, and who may write."""

from knn_ue.storage.folder import (
    FolderContent,
    Parsed,
    SubfolderWriter,
    check_replaceable,
    created_folder,
    generation_of,
    kind_of,
    library_version,
    open_plain_file,
    parse_folder,
    read_folder,
    storage_errors,
    write_folder,
)
from knn_ue.storage.locks import locked

__all__ = [
    "FolderContent",
    "Parsed",
    "SubfolderWriter",
    "check_replaceable",
    "created_folder",
    "generation_of",
    "kind_of",
    "library_version",
    "locked",
    "open_plain_file",
    "parse_folder",
    "read_folder",
    "storage_errors",
    "write_folder",
]
