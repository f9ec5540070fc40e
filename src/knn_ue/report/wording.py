"""The sentences and phrases that the HTML and the Markdown of a report share."""

from collections.abc import Iterable, Iterator

from knn_ue.answers import Explanation, NeighborExample
from knn_ue.evaluation import Comparison, EvaluationOptions
from knn_ue.reasons import sentences
from knn_ue.report.headline import listed
from knn_ue.report.mistakes import Side

COMPARISONS = (
    "Below each number of another method: this report's method minus that one, on the same rows, with its interval. "
    "The verdict is “better” or “worse” only where the interval excludes 0; with many comparisons, some will "
    "be significant by chance."
)
_N_CHARACTERS = 400


def about_intervals(options: EvaluationOptions) -> str:
    """Say what the intervals are and what they are not."""
    if not options.n_bootstrap:
        return "No intervals were drawn, so verdicts only compare the numbers as printed."
    return (
        f"Intervals are {100 * options.level:g} % percentile intervals of {options.n_bootstrap} bootstrap draws of the "
        "rows, of whole sentences where rows are words. They cover the choice of test rows, not the variation "
        "between training runs. Resampling adds noise, which a calibration error counts as error, so the interval of a "
        "small error may begin at the error itself."
    )


def about_weights(weighted: Iterable[str]) -> Iterator[str]:
    """Say what weights do, where rows of some sets are `weighted`."""
    if names := list(weighted):
        yield (
            f"The rows of {listed(names)} are weighted: in every number, interval and picture each counts by its "
            "sample weight, of which only ratios matter. Where a number depends on how many rows there are (AURC, "
            "E-AURC, AUPR, debiased ECE), that is the number of rows with a weight above 0. Sizes of sets are rows."
        )


def about_neighbors(explanation: Explanation) -> str:
    """Say what stands above the neighbors: how many agree or, of a given answer, what spoke for and against it."""
    if explanation.base_score is None:
        counted = f"{explanation.n_agreeing} of {explanation.n_neighbors}"
        return f"{counted} neighbors agree with “{explanation.label}”; the nearest ones:"
    said = sentences(explanation)
    reasons = [said[part] for part in ("for", "against") if part in said]
    return " ".join([*reasons, "The nearest labeled rows:"])


def labeled(near: NeighborExample) -> str:
    """Return the label of a neighbor and, where answers were given, what was answered there if it is another one."""
    return near.label if near.given in (None, near.label) else f"{near.label} (the model said {near.given})"


def mistakes_heading(side: Side, method: str) -> str:
    """Say which mistakes these are."""
    return f"Most confident mistakes of {'the raw model' if side == 'before' else method}"


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
