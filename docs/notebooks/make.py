"""Run the notebooks of this folder and store them with their outputs: python docs/notebooks/make.py [NAME ...]"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(path: Path) -> nbformat.NotebookNode:
    """Return the notebook, run in a new kernel in its own folder; a cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(path.parent))
    for cell in notebook.cells:
        # What libraries say on stderr is of the machine, not of the notebook.
        kept = [output for output in cell.get("outputs", ()) if output.get("name") != "stderr"]
        if cell.cell_type == "code":
            cell.outputs = kept
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return notebook


def main() -> None:
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.ipynb"))
    for name in names:
        path = HERE / f"{name}.ipynb"
        nbformat.write(run(path), path)


if __name__ == "__main__":
    main()
