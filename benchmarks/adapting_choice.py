"""Which prior and which gate suit `adapt`? Chosen without any out-of-domain data.

    python benchmarks/adapting_choice.py --lab LAB

LAB holds the arrays that `benchmarks/lab.py` writes. The inputs are test inputs in domain; their labels are drawn by
chance from softmax(e^t * log p), so that the scores p are right for t = 0, too high for t < 0 and too low for t > 0.
50 of them are labeled, the others are measured. Prints the mean ECE over all t but 0, and what is lost at t = 0.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np

from adapting import _outputs
from knn_ue import Datastore, KnnUE, metrics
from knn_ue.adapting import LabeledScores, average_log_scale, fit_log_scale, log_likelihood_gain, rescale

TRUE_SCALES = (0.0, -0.35, -0.7, -1.2, -2.0, 0.4, 0.8)
KAPPAS, UNCHANGED, GATES = (0.5, 1.0, 2.0), (0.0, 0.25, 0.5, 0.75), (0.0, 1.0, 2.0)
N_LABELS = 50


def main() -> None:
    """Print a row for each choice, best first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=30)
    options = parser.parse_args()
    found: dict[tuple[str, float, float, float], dict[float, list[float]]] = {}
    for folder in sorted(options.lab.glob("*/seed0")):
        train, validation, test = (_outputs(folder, name) for name in ("train", "validation", "test"))
        if train is None or validation is None or test is None or train.groups is not None:
            continue
        fitted = KnnUE(Datastore.build(train.features, train.labels)).fit(validation)
        probs = fitted.predict_proba(test)
        for scale, draw in product(TRUE_SCALES, range(options.draws)):
            for choice, ece in _one_draw(probs, scale, draw).items():
                found.setdefault(choice, {}).setdefault(scale, []).append(ece)
    rows = []
    for choice, by_scale in found.items():
        moved = np.mean([np.mean(by_scale[scale]) for scale in TRUE_SCALES if scale])
        rows.append((moved, np.mean(by_scale[0.0]) - np.mean(found["unscaled", 0.0, 0.0, 0.0][0.0]), choice))
    print(f"{'':10}{'kappa':>7}{'unchanged':>11}{'gate':>6}{'ECE, t not 0':>14}{'lost at t = 0':>15}")
    for moved, lost, (name, kappa, unchanged, gate) in sorted(rows):
        print(f"{name:10}{kappa:7g}{unchanged:11g}{gate:6g}{moved:14.2f}{lost:+15.2f}")


def _one_draw(probs: np.ndarray, true_scale: float, draw: int) -> dict[tuple[str, float, float, float], float]:
    """Return the ECE in percent of every choice on the rows that were not labeled."""
    rng = np.random.default_rng([draw, int(1000 * (true_scale + 4))])
    limits = rescale(probs, true_scale).cumsum(axis=1)
    labels = (limits[:, :-1] < rng.random((len(probs), 1))).sum(axis=1)
    rows = rng.permutation(len(probs))
    labeled, rest = LabeledScores.of_probs(probs[rows[:N_LABELS]], labels[rows[:N_LABELS]]), rows[N_LABELS:]

    def ece(log_scale: float) -> float:
        return 100 * metrics.expected_calibration_error(probs=rescale(probs[rest], log_scale), labels=labels[rest])

    found = {("unscaled", 0.0, 0.0, 0.0): ece(0.0)}
    for kappa, gate in product(KAPPAS, GATES):
        best = fit_log_scale(labeled, kappa=kappa)
        passed = log_likelihood_gain(labeled, best) > gate or gate == 0.0
        found["best", kappa, 0.0, gate] = ece(best if passed else 0.0)
        for unchanged in UNCHANGED:
            mean = average_log_scale(labeled, kappa=kappa, unchanged=unchanged) if passed else 0.0
            found["averaged", kappa, unchanged, gate] = ece(mean)
    return found


if __name__ == "__main__":
    main()
