"""What the numbers of a report mean, each in a sentence, and the other sentences that HTML and Markdown share."""

from types import MappingProxyType

from knn_ue.report.comparison import Comparison
from knn_ue.report.mistakes import Side
from knn_ue.report.record import EvaluationOptions

DEFINITIONS = MappingProxyType(
    {
        "confidence": "the probability of the answer given, the most probable class. Raw: the model's own softmax.",
        "accuracy": "the share of right answers.",
        "ECE": "answers are put into bins of equal width by confidence; the gap between mean confidence and accuracy "
        "of each bin, averaged over the answers. 0 % means that of the answers given 80 %, 80 % are right. MCE is the "
        "largest gap of a bin.",
        "AURC and E-AURC": "answer the most confident rows first and average the share of wrong ones over all numbers "
        "of rows answered; E-AURC is that less the best possible at this accuracy. Times 1000. 0 means that every "
        "right answer is surer than every wrong one.",
        "AUROC": "the chance that a right answer has more confidence than a wrong one; of a detection: that a test row "
        "has more than an out-of-domain row. 50 % is a coin.",
        "FPR@95": "the share of out-of-domain rows that pass as in-domain if 95 % of the test rows must pass.",
        "NLL and Brier": "the mean -log probability of the true class, and the squared error of the probabilities.",
        "distance": "Euclidean, between the features of a row and of its nearest stored examples.",
    }
)
COMPARISONS = (
    "Under each number of another method: ours less theirs on the same rows, with its interval. The verdict is "
    "“better” or “worse” only where the interval leaves out 0; of many comparisons a few are clear by luck."
)
_N_CHARACTERS = 400


def about_intervals(options: EvaluationOptions) -> str:
    """Say what the intervals are and what they are not."""
    if not options.n_bootstrap:
        return "No intervals were drawn, so verdicts only compare the numbers as printed."
    return (
        f"Intervals are {100 * options.level:g} % percentile intervals of {options.n_bootstrap} bootstrap draws of the "
        "rows, of whole sentences where rows are words. They cover the luck of this test set, not that of training "
        "again. Drawing adds noise, which a calibration error counts as error: the interval of a small one can lie "
        "above it."
    )


def mistakes_heading(side: Side, method: str) -> str:
    """Say which mistakes these are."""
    return "Where the raw model was surest" if side == "before" else f"Where {method} is still sure"


def difference(comparison: Comparison) -> str:
    """Return ours - theirs as printed, with its interval."""
    style = comparison.style
    shown = _signed(style.show(comparison.ours - comparison.theirs))
    if comparison.low != comparison.low:
        return shown
    return f"{shown} ({_signed(style.show(comparison.low))} to {_signed(style.show(comparison.high))})"


def shortened(text: str) -> str:
    """Return `text` on one line, cut after 400 characters, and say how much is missing.

    >>> shortened("a " * 500)[-26:]
    ' a … (600 more characters)'
    """
    if len(text) <= _N_CHARACTERS:
        return " ".join(text.split())
    kept = text[:_N_CHARACTERS]
    return f"{' '.join(kept.split())} … ({len(text) - len(kept):,} more characters)"


def _signed(shown: str) -> str:
    """Put a plus before a positive number, a true minus before a negative one, and nothing before zero.

    >>> _signed("1.20"), _signed("-1.20"), _signed("-0.00")
    ('+1.20', '−1.20', '0.00')
    """
    digits = shown.lstrip("-")
    if not digits.strip("0."):
        return digits
    return f"−{digits}" if shown.startswith("-") else f"+{digits}" if digits[0].isdigit() else digits
