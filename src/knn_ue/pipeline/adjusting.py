"""What can be changed in a fitted pipeline, its model aside: the index, and the domains it answers for."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self, Unpack

from knn_ue.adapting import Adaptation
from knn_ue.adapting.sampling import Strategy
from knn_ue.answers import AnyAnswer
from knn_ue.arrays import FloatArray
from knn_ue.calibrators import Calibrator
from knn_ue.data.columns import ColumnNames, Columns
from knn_ue.decisions import ALARM, Watched
from knn_ue.encoding import Encoder
from knn_ue.errors import InvalidInputError
from knn_ue.familiarity import Familiarity
from knn_ue.pipeline.answers import scored_answers
from knn_ue.pipeline.domains import DEFAULT, adapt_fitted, forget_domain
from knn_ue.pipeline.fitted import Fitted, WithFitted
from knn_ue.pipeline.fitting import refit
from knn_ue.pipeline.rows import Rows, labeled_examples, with_documents
from knn_ue.pipeline.sampling import SampledRow, sample_rows, weights_of
from knn_ue.pipeline.watching import check_watched, watch_outputs
from knn_ue.stores import IndexOptions
from knn_ue.tasks import Task
from knn_ue.tuning import Tolerance, Tuning, reindexed, tune_calibrator
from knn_ue.types import Outputs, Progress
from knn_ue.verifying import Reader


class Adjustable(WithFitted, ABC):
    """The part of `UncertaintyPipeline` that takes another index, or adapts to other domains (see docs/adapting.md)."""

    encoder: Encoder

    @property
    @abstractmethod
    def task(self) -> Task: ...

    @abstractmethod
    def __call__(
        self, inputs: object, *, abstain_below: float | None = None, top: int = 5, domain: str | None = None
    ) -> list[AnyAnswer]: ...

    def adapt(
        self,
        rows: Rows | Outputs,
        *,
        domain: str = DEFAULT,
        sample_weight: FloatArray | None = None,
        random_sample: bool = True,
        add: bool = False,
        force: bool = False,
        verifier: "str | Reader | None" = None,
        **columns: Unpack[ColumnNames],
    ) -> Adaptation:
        """Recalibrate for a new domain with a few labeled rows of it (about 50); predictions do not change.

        `domain` names it for later calls; "default" answers inputs that name none. The rows must be a random sample of
        the domain: corrections are not. They may carry a `sample_weight` (see `sample`). What is returned says what
        changes, cross-validated, and what speaks against it; a scale is not applied where that is serious, unless
        `force` is given. With `add` the labels join those the domain has. `forget_domain` undoes it. Name other
        `columns` as in `fit`. With a `verifier` ("instant", or a reader), which is the default where `fit` had one, 50
        and more labels also teach a small reader, which takes the place of a scale where that is better.
        """
        outputs, weights = self._labeled_rows(rows, sample_weight, Columns(**columns))
        self.fitted_, adaptation = adapt_fitted(
            self._ready(),
            outputs,
            domain=domain,
            sample_weight=weights,
            random_sample=random_sample,
            add=add,
            force=force,
            verifier=verifier,
        )
        return adaptation

    def forget_domain(self, domain: str = DEFAULT) -> Self:
        """Undo `adapt`: forget a domain and its labels."""
        self.fitted_ = forget_domain(self._ready(), domain)
        return self

    def sample(
        self,
        rows: Rows,
        n: int = 50,
        *,
        strategy: Strategy = "random",
        domain: str | None = None,
        seed: int = 0,
        **columns: Unpack[ColumnNames],
    ) -> list[SampledRow]:
        """Return the rows of a pool to label for `adapt`: at random, or "stratified" by score with weights."""
        return sample_rows(self, rows, n, strategy=strategy, domain=domain, seed=seed, columns=Columns(**columns))

    def watch(self, rows: Rows | Outputs, *, alarm: float = ALARM, **columns: Unpack[ColumnNames]) -> list[Watched]:
        """Return whether each promise still holds, by labeled rows that arrived since, in the order in which they came.

        They must be a random sample of what was answered, abstentions among them. Call it as often as you like on all
        labels so far: a promise that holds is called broken with a probability of at most `alarm`.
        """
        outputs, _ = self._labeled_rows(rows, None, Columns(**columns))
        watched = watch_outputs(self._ready(), outputs, alarm=alarm)
        check_watched(watched)
        return watched

    @property
    def familiarity_(self) -> Familiarity | None:
        """How much inputs are like the training data; None where the encoder has no views."""
        return self._ready().familiarity

    @property
    def domains_(self) -> Mapping[str, Adaptation]:
        """What `adapt` led to, for each domain beside the general one."""
        return {name: found.adaptation for name, found in self._ready().domains.items()}

    def tune_index(
        self, *, tolerance: Tolerance | None = None, thorough: bool = False, progress: Progress | None = None
    ) -> Tuning:
        """Choose the cheapest index that keeps the calibration (see `knn_ue.tuning`), use it, and refit with it.

        The validation rows decide, those kept for the threshold excepted; a threshold is chosen again. `thorough` tries
        every candidate, for the whole picture.
        """
        calibrator, tuning = tune_fitted(
            self._ready(), tolerance=tolerance or Tolerance(), thorough=thorough, progress=progress
        )
        self._refit(calibrator)
        return tuning

    def use_index(self, index: str | IndexOptions) -> Self:
        """Search the stored examples by another index, and refit with it; a threshold is chosen again."""
        self._refit(with_index(self._ready(), index))
        return self

    def _refit(self, calibrator: Calibrator) -> None:
        self.fitted_ = refit(self._ready(), calibrator)

    def _labeled_rows(
        self, rows: Rows | Outputs, sample_weight: FloatArray | None, columns: Columns
    ) -> tuple[Outputs, FloatArray | None]:
        if isinstance(rows, Outputs):
            return rows, sample_weight
        examples = labeled_examples(rows, self.task, self.encoder.class_names, name="labeled", columns=columns)
        outputs = with_documents(self.encoder.encode(examples), examples, required=False)
        return outputs, weights_of(examples) if sample_weight is None else sample_weight


def tune_fitted(
    fitted: Fitted, *, tolerance: Tolerance, thorough: bool, progress: Progress | None
) -> tuple[Calibrator, Tuning]:
    """Choose an index for the stored examples; return a calibrator that is searched by it, not fitted yet."""
    _check_searches(fitted)
    validation = fitted.validation.take(~fitted.held_out)
    return tune_calibrator(
        fitted.calibrator, validation, tolerance=tolerance, thorough=thorough, scored=scored_answers, progress=progress
    )


def with_index(fitted: Fitted, index: str | IndexOptions) -> Calibrator:
    """Return a calibrator over the same stored examples that is searched by another index, not fitted yet."""
    _check_searches(fitted)
    return reindexed(fitted.calibrator, index)


def _check_searches(fitted: Fitted) -> None:
    if not fitted.calibrator.stores:
        raise InvalidInputError(f"{fitted.method} uses no neighbors, so there is no index to tune")
