"""Labels that arrived later -> whether each promise of a fitted pipeline still holds."""

from collections.abc import Sequence

from knn_ue.decisions import ALARM, Watchable, Watched, watch
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline.answers import score_answers
from knn_ue.pipeline.fitted import Fitted
from knn_ue.types import Outputs


def watch_outputs(fitted: Fitted, outputs: Outputs, *, alarm: float = ALARM) -> list[Watched]:
    """Return what labeled `outputs`, in the order in which they came, say of each promise that was made."""
    decisions = [decision for decision in fitted.decisions if isinstance(decision, Watchable)]
    if not decisions:
        return []
    scored = score_answers(outputs, fitted.calibrator)
    losses = [decision.losses(scored) for decision in decisions]
    return [
        watch(found, str(decision), alarm=alarm)
        for decision, found in zip(decisions, losses, strict=True)
        if found is not None
    ]


def check_watched(watched: Sequence[Watched]) -> None:
    """Raise where nothing was promised."""
    if not watched:
        raise InvalidInputError(
            "nothing was promised that could be watched: fit with target_precision or coverage, and with enough rows",
            shell="nothing was promised that could be watched: fit with --target-precision or --coverage, and with "
            "enough rows",
        )
