"""Where does a robust fit help, and where does it hurt? kNN-UE fitted on validation rows, with perturbed copies or not.

    python benchmarks/robust.py --lab LAB --out benchmarks/robust.json [--rows 500]

LAB holds the models and arrays that `benchmarks/lab.py` writes; copies of the first ROWS validation rows go through the
model. Both fits see the same rows beside them.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue import Datastore, KnnUE, Outputs, metrics
from knn_ue.data import read_rows
from knn_ue.data.perturb import perturbed_rows
from knn_ue.encoding import Example, read_example
from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.types import join_outputs


def outputs_of(path: Path) -> Outputs | None:
    with np.load(path) as arrays:
        if (arrays["labels"] < 0).any() or "groups" in arrays:
            return None
        features = arrays["first"][:, -1].astype(np.float32)
        return Outputs(features=features, logits=arrays["logits"], labels=arrays["labels"])


def fitted_twice(folder: Path, n_rows: int) -> dict[str, KnnUE] | None:
    train, validation = (outputs_of(folder / f"{name}.npz") for name in ("train", "validation"))
    if train is None or validation is None:
        return None
    encoder = HuggingFaceEncoder.from_pretrained(folder / "model", None, device="cpu", pooling="cls")
    rows = [read_example(row, encoder.task) for row in read_rows(folder / "validation.jsonl", encoder.task)][:n_rows]
    copies = perturbed_rows([(row.parts, row.labels or ()) for row in rows], encoder.task)
    perturbed = encoder.encode([Example(parts, labels) for parts, labels in copies])
    seen = validation.take(slice(n_rows))
    store = Datastore.build(train.features, train.labels)
    plain = Outputs(features=perturbed.features, logits=perturbed.logits, labels=perturbed.labels)
    return {"usual": KnnUE(store).fit(seen), "robust": KnnUE(store).fit(join_outputs(seen, plain))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=500)
    options = parser.parse_args()
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for folder in sorted(options.lab.glob("*/seed*")):
        key = f"{folder.parent.name}/{folder.name}"
        needed = [folder / name for name in ("train.npz", "validation.npz", "validation.jsonl", "model")]
        if key in found or not all(path.exists() for path in needed):
            continue
        fits = fitted_twice(folder, options.rows)
        if fits is None:
            continue
        found[key] = {}
        for path in sorted(folder.glob("*.npz")):
            test = outputs_of(path)
            if path.stem in ("train", "validation") or test is None:
                continue
            row: dict[str, float] = {"accuracy": round(100 * float((test.predicted == test.labels).mean()), 2)}
            for name, ue in fits.items():
                probs = ue.predict_proba(test)
                row[name] = round(100 * metrics.expected_calibration_error(probs=probs, labels=test.labels), 2)
            found[key][path.stem] = row
            print(key, path.stem, row, flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
