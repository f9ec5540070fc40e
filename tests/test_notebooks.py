"""Every notebook of the docs runs from its first cell to its last, and is stored with the outputs of a run."""

import runpy
import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path):
    nbformat = pytest.importorskip("nbformat")
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the client and its sockets; cells show their own
@every_notebook
def test_a_notebook_runs(path, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    copy = shutil.copy(path, tmp_path)

    made = runpy.run_path(str(FOLDER / "make.py"))["run"](Path(copy))

    assert [cell.execution_count for cell in made.cells if cell.cell_type == "code"] == [
        number + 1 for number in range(len(code_cells(path)))
    ]


@every_notebook
def test_a_notebook_is_stored_with_outputs_and_without_errors(path):
    outputs = [output for cell in code_cells(path) for output in cell.outputs]

    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
