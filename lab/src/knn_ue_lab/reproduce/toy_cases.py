"""The paper's toy table: six answers, three of them wrong, and one right answer that is a little less sure."""

import numpy as np

from knn_ue import metrics

_CASES = {"A": (0.5, 0.5, 0.5, 0.5, 0.96, 0.98), "B": (0.5, 0.5, 0.5, 0.45, 0.96, 0.98)}


def toy_numbers() -> dict[str, dict[str, float]]:
    """Return ECE in percent and E-AURC times 1000 of both cases, by the published definition and by ours.

    >>> {case: round(numbers["e_aurc_published"], 2) for case, numbers in toy_numbers().items()}
    {'A': 18.8, 'B': 121.57}
    """
    correct = np.array([False, False, False, True, True, True])
    cases = {case: np.array(confidence) for case, confidence in _CASES.items()}
    return {
        case: {
            "ece": 100 * metrics.expected_calibration_error(confidence=confidence, correct=correct),
            "e_aurc_published": 1000 * metrics.e_aurc(confidence=confidence, correct=correct, convention="paper"),
            "e_aurc": 1000 * metrics.e_aurc(confidence=confidence, correct=correct),
        }
        for case, confidence in cases.items()
    }
