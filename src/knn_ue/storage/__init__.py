"""The only place that knows the disk: folders that are written in one step, their arrays, and who may write."""

from knn_ue.storage.atomic import created_folder, locked, storage_errors, waiting_at_most, write_file, write_files
from knn_ue.storage.folder import (
    FolderContent,
    Parsed,
    SubfolderWriter,
    check_replaceable,
    file_state,
    fingerprint,
    library_version,
    parse_folder,
    read_folder,
    write_folder,
)
from knn_ue.storage.schema import check_named, generation_of, identity_of, kind_of, open_plain_file

__all__ = [
    "FolderContent",
    "Parsed",
    "SubfolderWriter",
    "check_named",
    "check_replaceable",
    "created_folder",
    "file_state",
    "fingerprint",
    "generation_of",
    "identity_of",
    "kind_of",
    "library_version",
    "locked",
    "open_plain_file",
    "parse_folder",
    "read_folder",
    "storage_errors",
    "waiting_at_most",
    "write_file",
    "write_files",
    "write_folder",
]
