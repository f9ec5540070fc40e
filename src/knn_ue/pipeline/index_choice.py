"""The index of a pipeline, chosen by its validation rows: index="auto" when it is fitted, `tune` afterwards."""

from dataclasses import replace

from knn_ue.calibrators import Calibrator
from knn_ue.errors import InvalidInputError
from knn_ue.methods import METHODS
from knn_ue.pipeline.answers import scored_answers
from knn_ue.pipeline.fitted import Fitted
from knn_ue.stores import IndexOptions, index_options, tunable
from knn_ue.stores.faiss_index import check_index
from knn_ue.tuning import Tolerance, Tuning, tune_index
from knn_ue.types import Outputs, Progress


def searches(method: str) -> bool:
    """Say whether the method looks for neighbors."""
    return METHODS[method].calibrator.searches


def check_index_of(method: str, index: str | IndexOptions, empty: Outputs) -> None:
    """Raise where `index` could not be built or saved over features like those of `empty` outputs, without rows."""
    if searches(method):
        for n_columns in {queries.shape[1] for queries in METHODS[method].calibrator.queries(empty).values()}:
            check_index(index_options(index, 1, n_columns), n_columns)


def tune_calibrator(
    calibrator: Calibrator,
    validation: Outputs,
    *,
    tolerance: Tolerance,
    thorough: bool,
    seed: int,
    progress: Progress | None,
) -> tuple[Calibrator, Tuning]:
    """Choose an index for the stored examples; return a calibrator that is searched by it, not fitted yet.

    Where there are several stores, all take what suits the last one.
    """
    name, store = list(calibrator.stores.items())[-1]
    vectors, labels = tunable(store).arrays()
    tuning = tune_index(
        vectors,
        labels,
        replace(validation, features=calibrator.queries(validation)[name], layers=None),
        n_neighbors=calibrator.n_neighbors,
        use_labels=calibrator.use_labels,
        tolerance=tolerance,
        scored=scored_answers,
        thorough=thorough,
        seed=seed,
        progress=progress,
    )
    return _reindexed(calibrator, tuning.chosen), tuning


def tune_fitted(
    fitted: Fitted, *, tolerance: Tolerance, thorough: bool, progress: Progress | None
) -> tuple[Calibrator, Tuning]:
    """Choose an index for the stored examples; return a calibrator that is searched by it, not fitted yet."""
    _check_searches(fitted)
    validation = fitted.validation.take(~fitted.held_out)
    return tune_calibrator(
        fitted.calibrator, validation, tolerance=tolerance, thorough=thorough, seed=0, progress=progress
    )


def with_index(fitted: Fitted, index: str | IndexOptions) -> Calibrator:
    """Return a calibrator over the same stored examples that is searched by another index, not fitted yet."""
    _check_searches(fitted)
    return _reindexed(fitted.calibrator, index)


def _reindexed(calibrator: Calibrator, index: str | IndexOptions) -> Calibrator:
    return calibrator.with_stores({name: tunable(x).reindexed(index) for name, x in calibrator.stores.items()})


def _check_searches(fitted: Fitted) -> None:
    if not fitted.calibrator.stores:
        raise InvalidInputError(f"{fitted.method} looks at no neighbors, so there is no index to tune")
