"""The only place that knows the disk: what is fitted never changes, what changes is one SQLite file beside it.

ue/
    fitted-<16 hex digits>/   immutable: see `part`
    changes.db                which of them is current, and all that happened since: see `changes`
"""

from knn_ue.folder.changes import Head, Transaction, head_of
from knn_ue.folder.database import DATABASE
from knn_ue.folder.disk import created_folder, library_version, storage_errors, write_file, write_files
from knn_ue.folder.folder import (
    check_replaceable,
    copy_folder,
    kind_of,
    open_as,
    open_folder,
    replace_fitted,
    write_folder,
)
from knn_ue.folder.live import Live, stored_part
from knn_ue.folder.part import Added, Growing, Part
from knn_ue.folder.schema import ArrayRule, as_written, check_arrays, checked_plain, from_plain, to_plain

__all__ = [
    "DATABASE",
    "Added",
    "ArrayRule",
    "Growing",
    "Head",
    "Live",
    "Part",
    "Transaction",
    "as_written",
    "check_arrays",
    "check_replaceable",
    "checked_plain",
    "copy_folder",
    "created_folder",
    "from_plain",
    "head_of",
    "kind_of",
    "library_version",
    "open_as",
    "open_folder",
    "replace_fitted",
    "storage_errors",
    "stored_part",
    "to_plain",
    "write_file",
    "write_files",
    "write_folder",
]
