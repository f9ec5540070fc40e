"""What an enemy does to a folder: change anything, then make sizes and checksums agree again."""

import hashlib
import json

import numpy as np
from safetensors.numpy import load_file, save_file

from knn_ue.errors import StorageError
from knn_ue.stores import Datastore


def read_meta(folder):
    return json.loads((folder / "meta.json").read_text())


def write_meta(folder, meta):
    """Write meta.json with a checksum that is right."""
    meta = {key: value for key, value in meta.items() if key != "checksum"}
    checksum = hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()
    (folder / "meta.json").write_text(json.dumps(meta | {"checksum": checksum}))


def part(folder, name="arrays"):
    """The path of one of the files that meta.json names."""
    return folder / read_meta(folder)["files"][name]["name"]


def seal(folder):
    """Make the sizes and checksums in meta.json right for the files as they are."""
    meta = read_meta(folder)
    for entry in meta["files"].values():
        content = (folder / entry["name"]).read_bytes()
        entry |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_meta(folder, meta)


def replace_arrays(folder, **arrays):
    """Replace stored arrays; None removes one."""
    stored = load_file(part(folder)) | arrays
    save_file({name: np.ascontiguousarray(array) for name, array in stored.items() if array is not None}, part(folder))
    seal(folder)


def replace_options(folder, **options):
    meta = read_meta(folder)
    meta["options"] |= options
    write_meta(folder, meta)


def is_refused(folder):
    """Open and use the folder; True if it is refused with a StorageError, False if it works; else the test fails."""
    try:
        store = Datastore.load(folder)
        store.search(np.ones((2, store.n_columns)), 3)
        store.texts_of(store.ids)
    except StorageError as error:
        assert len(str(error)) < 1000
        return True
    return False
