"""Each metric as data: its title, the direction that is better, its unit in print, and what it means."""

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

UNDEFINED = "–"


@dataclass(frozen=True, kw_only=True)
class Style:
    """A metric as printed: value times `factor` with `digits` decimals, in `unit`."""

    title: str
    higher_is_better: bool = False
    factor: float = 100.0
    digits: int = 2
    unit: str = "%"

    @property
    def heading(self) -> str:
        """The title with its unit and an arrow to the better side."""
        return " ".join(filter(None, (self.title, self.unit, "↑" if self.higher_is_better else "↓")))

    def show(self, value: float) -> str:
        """Return `value`, a fraction, as printed; a number that is not defined is a dash.

        >>> STYLES["ece"].show(0.0321), STYLES["e_aurc"].show(0.0321), STYLES["auroc"].show(math.nan)
        ('3.21', '32.10', '–')
        """
        return UNDEFINED if math.isnan(value) else f"{value * self.factor:.{self.digits}f}"


_PLAIN: dict[str, Any] = {"factor": 1.0, "digits": 4, "unit": ""}
_AREA: dict[str, Any] = {"factor": 1000.0, "unit": "×1000"}
STYLES = MappingProxyType(
    {
        "accuracy": Style(title="accuracy", higher_is_better=True),
        "f1": Style(title="F1", higher_is_better=True),
        "nll": Style(title="NLL", **_PLAIN),
        "brier_multiclass": Style(title="Brier", **_PLAIN),
        "class_wise_ece": Style(title="class-wise ECE"),
        "ece": Style(title="ECE"),
        "mce": Style(title="MCE"),
        "adaptive_ece": Style(title="adaptive ECE"),
        "debiased_ece": Style(title="debiased ECE"),
        "smooth_ece": Style(title="smooth ECE"),
        "piece": Style(title="PIECE"),
        "brier_top_label": Style(title="Brier of the answer", **_PLAIN),
        "brier_calibration": Style(title="Brier of the answer: calibration", **_PLAIN),
        "brier_refinement": Style(title="Brier of the answer: refinement", **_PLAIN),
        "nll_top_label": Style(title="NLL of the answer", **_PLAIN),
        "nll_calibration": Style(title="NLL of the answer: calibration", **_PLAIN),
        "nll_refinement": Style(title="NLL of the answer: refinement", **_PLAIN),
        "fpr95": Style(title="FPR@95"),
        "auroc": Style(title="AUROC", higher_is_better=True),
        "aurc": Style(title="AURC", **_AREA),
        "e_aurc": Style(title="E-AURC", **_AREA),
        "augrc": Style(title="AUGRC", **_AREA),
        "risk_at_80": Style(title="risk at 80 % coverage"),
        "coverage_at_5": Style(title="coverage at 5 % risk", higher_is_better=True),
        "aupr_in": Style(title="AUPR-in", higher_is_better=True),
        "aupr_out": Style(title="AUPR-out", higher_is_better=True),
    }
)
# What the numbers mean, each in a sentence.
DEFINITIONS = MappingProxyType(
    {
        "confidence": "the probability of the answer, the model's own prediction. Raw: the model's own softmax.",
        "accuracy": "the share of right answers.",
        "ECE": "answers are put into bins of equal width by confidence; the gap between mean confidence and accuracy "
        "of each bin, averaged over the answers. 0 % means that 80 % of the answers with a confidence of 80 % are "
        "right. MCE is the largest gap of a bin.",
        "AURC and E-AURC": "answer the most confident rows first and average the share of wrong ones over all numbers "
        "of rows answered; E-AURC is that minus the best possible at this accuracy. Times 1000. 0 means that every "
        "right answer has a higher confidence than every wrong one.",
        "AUGRC": "like AURC, with the share of all rows that are answered and wrong instead of the error rate. "
        "Times 1000. Risk at 80 % coverage is the error rate of the 80 % most confident rows, coverage at 5 % risk the "
        "largest share of rows that can be answered with at most 5 % errors.",
        "Brier and NLL of the answer": "the squared error of the confidence, and the mean -log probability of what was "
        "the case: the answer right or wrong. Calibration is the part that the best increasing map of the confidence "
        "would remove, refinement the rest; they sum to the score of the answer, not to that of all classes.",
        "smooth ECE": "like ECE, with a kernel instead of bins; the error itself sets its width.",
        "PIECE": "like ECE, over cells of confidence and proximity, with about as many rows in each bin of proximity: "
        "errors of rows near to validation rows and of rows far from them cannot cancel. Proximity is the mean of "
        "exp(-d²/k) over the 10 nearest of at most 2,000 validation rows, at distance d in k standardized features; of "
        "an entity, the mean over its words.",
        "AUROC": "the probability that a right answer has a higher confidence than a wrong one; in OOD detection, that "
        "a test row has a higher one than an out-of-domain row. 50 % is chance.",
        "entities": "calibration errors, Brier score and NLL are of the predicted entities; in AUROC, AURC, E-AURC, "
        "AUGRC, risk and coverage each missed entity counts as an error at confidence 0.",
        "familiarity": "how much a row is like the training data, whatever the model answers. In OOD detection it "
        "stands beside the methods, which detect by low confidence.",
        "FPR@95": "the share of out-of-domain rows that pass as in-domain if 95 % of the test rows must pass.",
        "NLL and Brier": "the mean -log probability of the true class, and the squared error of the probabilities of "
        "all classes.",
        "distance": "Euclidean, between the features of a row and of its nearest stored examples.",
    }
)
