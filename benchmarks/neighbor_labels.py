"""Do neighbors that the model was trained on agree with it too often, and does their agreement rank answers?

    python benchmarks/neighbor_labels.py knn-ue-demo/ue

Reads the UE folder of `knn-ue demo`. The same number of stored texts, once of the training set, once unseen (one half
of validation); the other half fits. No claim: the table is for docs/remedies.md.
"""

import argparse

import numpy as np

from knn_ue import Datastore, KnnUE, Outputs, UncertaintyPipeline, metrics
from knn_ue.arrays import softmax
from knn_ue.data import read_rows, split_rows

SETS = {"movies": "vader:movies:test", "amazon": "vader:amazon", "nyt": "vader:nyt", "tweets": "vader:tweets"}
N_NEIGHBORS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ue", help="the UE folder of the demo")
    pipe = UncertaintyPipeline.load(parser.parse_args().ue)

    halves = split_rows(range(len(pipe.validation_)), [0.5, 0.5], seed=0)
    unseen, fitted_on = (pipe.validation_.take(np.array(half)) for half in halves)
    rows = list(read_rows(SETS["movies"].replace("test", "train"), pipe.task))
    known = pipe.outputs(rows[:: len(rows) // len(unseen)][: len(unseen)])
    tests = {name: pipe.outputs(source) for name, source in SETS.items()}
    print(
        f"accuracy on {len(known)} training texts {accuracy(known):.3f}, on validation {accuracy(pipe.validation_):.3f}"
    )
    for name, stored in {"training": known, "unseen": unseen}.items():
        store = Datastore.build(stored.features, stored.labels)
        methods = [KnnUE(store, n_neighbors=N_NEIGHBORS, use_labels=x).fit(fitted_on) for x in (False, True)]
        for set_name, outputs in tests.items():
            print(f"{name:>8} {set_name:>6}: {describe(outputs, store, methods)}")


def describe(outputs: Outputs, store: Datastore, methods: list[KnnUE]) -> str:
    """Return one line: how often neighbors agree, how well each signal ranks, and E-AURC x 1000 of each method."""
    correct = outputs.predicted == outputs.labels
    neighbors = store.search(outputs.features, N_NEIGHBORS)
    agreement = (neighbors.labels == outputs.predicted[:, None]).mean(axis=1)
    raw = softmax(outputs.logits).max(axis=1)
    signals = {"softmax": raw, "agreement": agreement, "distance": -neighbors.distances.mean(axis=1)}
    ranks = ", ".join(f"{x} {metrics.auroc(confidence=s, correct=correct):.3f}" for x, s in signals.items())
    confidences = [raw, *(method.predict_proba(outputs).max(axis=1) for method in methods)]
    areas = " / ".join(f"{1000 * metrics.e_aurc(confidence=c, correct=correct):.1f}" for c in confidences)
    return (
        f"accuracy {accuracy(outputs):.3f}, agreement {agreement.mean():.3f} (all 32: {np.mean(agreement == 1):.3f}), "
        f"correlation with softmax {np.corrcoef(raw, agreement)[0, 1]:.2f}; AUROC {ranks}; "
        f"E-AURC softmax / no label / label {areas}"
    )


def accuracy(outputs: Outputs) -> float:
    """Return the share of right answers."""
    return float(np.mean(outputs.predicted == outputs.labels))


if __name__ == "__main__":
    main()
