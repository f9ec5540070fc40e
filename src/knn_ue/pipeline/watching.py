"""Labels that arrived later -> whether each promise of a fitted pipeline still holds."""

from knn_ue.decisions import Watchable, Watched, watch
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline.answers import score_answers
from knn_ue.pipeline.fitted import Fitted
from knn_ue.types import Outputs


def watch_outputs(fitted: Fitted, outputs: Outputs, *, alarm: float) -> list[Watched]:
    """Return what labeled `outputs`, in the order in which they came, say of each promise."""
    scored = score_answers(outputs, fitted.calibrator)
    watched = []
    for decision in fitted.decisions:
        losses = decision.losses(scored) if isinstance(decision, Watchable) else None
        if losses is not None:
            watched.append(watch(losses, str(decision), alarm=alarm))
    if not watched:
        raise InvalidInputError(
            "nothing was promised that could be watched: fit with target_precision or coverage, and with enough rows",
            shell="nothing was promised that could be watched: fit with --target-precision or --coverage, and with "
            "enough rows",
        )
    return watched
