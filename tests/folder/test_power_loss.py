"""Every writer asks the disk to keep things in the right order, as strace sees it: nothing named before it is there."""

import shutil

import pytest

from folder.durable import at_risk, trace
from marks import slow_but

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

STORE = """
import sys
from pathlib import Path
import numpy as np
from knn_ue.stores import Datastore
folder = Path(sys.argv[1])
features = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
built = Datastore.build(features, np.zeros(200, int), texts=["a"] * 200, index=INDEX)
"""
CHANGES = """
path = folder / "new" / "store"
for n_times in range(2):
    built.save(path)
    print("acknowledged", flush=True)
store = Datastore.load(path)
for change in (lambda: store.add(features, np.ones(200, int)), lambda: store.remove([3]), store.compact):
    change()
    print("acknowledged", flush=True)
"""
CALIBRATOR = """
from knn_ue import KnnUE
from knn_ue.weighting import WeightParams
KnnUE(built, n_neighbors=3, params=WeightParams(alpha=1.0, tau=1.0)).save(folder / "ue")
"""
CHUNKS = "Datastore.build_from_chunks(folder / 'chunks', [(features, [0] * 200)], index=INDEX)"
WRITERS = {
    "exact": f"INDEX = 'exact'{STORE}{CHANGES}{CALIBRATOR}",
    "indexed": f"INDEX = 'IVF4,SQ8'{STORE}{CHANGES}",
    "chunks": f"INDEX = 'IVF4,SQ8'{STORE}{CHUNKS}",
    "model": """
import sys
from pathlib import Path
from knn_ue.encoding.model_files import ModelSource, copy_model
from knn_ue.folder import Part, write_folder
folder = Path(sys.argv[1])
source = folder.parent / "source"
source.mkdir()
(source / "config.json").write_text("{}")
(source / "model.safetensors").write_bytes(bytes(5 << 20))  # above 4 MiB: linked, not copied
model = ModelSource.of(source)
write_folder(folder / "ue", Part(kind="k", fill=lambda path: copy_model(model, path)))
""",
    "memory_model": """
import sys
from pathlib import Path
from knn_ue.encoding.model_files import write_model
from knn_ue.folder import Part, write_folder
folder = Path(sys.argv[1])
def write(files):
    (files / "config.json").write_text("{}")
    (files / "model.safetensors").write_bytes(bytes(5 << 20))
for n_times in range(2):
    write_folder(folder / "ue", Part(kind="k", fill=lambda path: write_model(write, path)))
""",
    "trained_model": """
import sys
from pathlib import Path
from knn_ue.training.folder import new_model_folder, write_record
for n_times in range(2):
    with new_model_folder(Path(sys.argv[1]) / "new" / "model", overwrite=True) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "weights").write_bytes(b"weights")
        write_record(folder, {"method": "plain"})
""",
    "answers": """
import sys
from pathlib import Path
from knn_ue.cli.answer_file import AnswerFile
from knn_ue.data import TextRow
answers = AnswerFile(Path(sys.argv[1]) / "answers.jsonl")
answers.check(resume=False, overwrite=False)
with answers.open(resume=False) as file:
    answers.write(file, TextRow("a"), {"label": "pos"})
""",
    "files": """
import sys
from pathlib import Path
from knn_ue.folder import created_folder, write_files
folder = Path(sys.argv[1]) / "report"
with created_folder(folder):
    write_files({folder / "index.html": b"page", folder / "report.json": b"numbers"})
""",
}


@pytest.mark.parametrize("writer", slow_but(next(iter(WRITERS)), WRITERS))
def test_nothing_is_named_or_acknowledged_before_it_is_on_disk(writer, tmp_path):
    root = tmp_path / "root"
    root.mkdir()

    lines = trace(f"{WRITERS[writer]}\nprint('acknowledged', flush=True)", root)

    assert at_risk(lines, root) == []


def test_a_file_that_is_never_synced_is_found(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    code = """
import sys
from pathlib import Path
(Path(sys.argv[1]) / "draft").write_text("a")
(Path(sys.argv[1]) / "draft").replace(Path(sys.argv[1]) / "file")
print("acknowledged", flush=True)
"""

    found = at_risk(trace(code, root), root)

    assert found == [
        f"the content of {root}/draft, when it became {root}/file",
        f"the name {root}/file, when the writer acknowledged",
    ]
