"""Install each given wheel or sdist in a fresh environment, without our sources at hand, and try it.

python tests/smoke_dist.py dist/*
"""

import subprocess
import sys
import tempfile
from pathlib import Path

TRIED = """
from knn_ue import Datastore, KnnUE, evaluate
from knn_ue.toy import two_blobs
train, validation, test = two_blobs(overconfident_by=3.0, seed=0)
ue = KnnUE(Datastore.build(train.features, train.labels)).fit(validation)
ue.save("ue")
assert (KnnUE.load("ue").predict_proba(test) == ue.predict_proba(test)).all()
table = evaluate(ue, test).tables["test"]
assert table["calibrated"]["ece"] < table["raw"]["ece"]
"""


def main() -> None:
    """Try every file; the first that fails ends it."""
    constraints = Path(__file__).parents[1] / "constraints.txt"
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
            python = home / "venv/bin/python"
            pip = [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--constraint",
                constraints,
            ]
            subprocess.run([*pip, Path(name).resolve()], check=True)
            subprocess.run([python, "-c", TRIED], check=True, cwd=home)
            for arguments in (["--version"], ["--help"], ["demo", "--toy", "--help"]):
                subprocess.run([home / "venv/bin/knn-ue", *arguments], check=True, cwd=home, stdout=subprocess.DEVNULL)
        print(f"{name}: installed and tried")


if __name__ == "__main__":
    main()
