"""KnnUEClassifier: an estimator whose probabilities also come from the nearest training rows."""

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, column_or_1d

from knn_ue.arrays import FloatArray, IntArray, check_positive
from knn_ue.calibrators import Found, KnnUE
from knn_ue.errors import InvalidInputError
from knn_ue.sklearn.checks import (
    check_estimator_is_classifier,
    check_every_class,
    check_fit_params,
    check_folds,
    check_labels,
    warn_of_stored_rows,
)
from knn_ue.sklearn.parts import HeldOut, Part, Rows, joined, seeded
from knn_ue.sklearn.reading import Features, check_comparable, dense, read_rows, takes_missing, texts_of
from knn_ue.sklearn.verifier import fit_verifier
from knn_ue.stores import Datastore, IndexOptions
from knn_ue.types import Outputs
from knn_ue.verifying import Reader
from knn_ue.weighting import Explanation, knn_weight


class KnnUEClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier whose probabilities come from `estimator` and from the nearest training rows.

    `predict` is the estimator's own. `predict_proba` is softmax(W * logits), W from kNN-UE; the logits are the
    estimator's `decision_function`, or the logarithm of its `predict_proba` if it has none.

    * `fit(X, y)` cross-validates. The rows of each fold are calibrated with an estimator fitted on the other folds and
      neighbors among their rows, so no row finds itself. Then the estimator is refitted on all rows and all are stored.
    * `fit(X, y)` with a `FrozenEstimator` fits no estimator: pass rows that it was not trained on.
    * `fit(X, y, X_val=..., y_val=...)` does not cross-validate: X is fitted on and stored, X_val calibrates.

    Options:

    * `estimator`: a classifier, default `LogisticRegression()`.
    * `features`, what neighbors are compared by: "auto" (what the last step of a pipeline sees; without a pipeline the
      input), the name of a pipeline step (its output), "transform" (of the estimator), "input", or a function of
      (fitted estimator, X).
    * `cv`: as in scikit-learn. The default is 5 stratified folds, fewer if the rarest class has fewer rows.
    * `n_neighbors`: lowered to the rows of the smallest datastore that is searched (`n_neighbors_`).
    * `use_labels`, `index`, `normalize`: as in `KnnUE` and `Datastore.build`.
    * `n_components`: sparse features with more columns are reduced to this number by a truncated SVD of the stored
      rows. None: they are made dense as they are.
    * `max_stored`: maximum number of stored rows, drawn at random. None: all.
    * `verifier`: a reader, or the name of one (`knn_ue.verifying.READERS`), where X holds texts: what it would answer
      joins the score of the predicted class. `verifier_.gain` says what that does to the ranking. None: no verifier.
    * `n_jobs`: number of folds fitted at the same time.
    * `random_state`: seed of that draw, of the SVD, and of the random parts of the estimator that have none.

    After `fit`: `classes_`, `estimator_`, `calibrator_` (a `KnnUE`), `datastore_`, `n_neighbors_`, and `stored_rows_`,
    the row of X of each id of the datastore.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KnnUEClassifier(LogisticRegression(max_iter=1000), n_neighbors=8).fit(X, y)
    >>> model.predict_proba(X[:2]).round(1)
    array([[1., 0., 0.],
           [1., 0., 0.]])
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        features: Features = "auto",
        cv: Any = None,
        n_neighbors: int = 32,
        use_labels: bool = True,
        index: str | IndexOptions = "exact",
        normalize: str = "none",
        n_components: int | None = 128,
        max_stored: int | None = None,
        verifier: "str | Reader | None" = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.features = features
        self.cv = cv
        self.n_neighbors = n_neighbors
        self.use_labels = use_labels
        self.index = index
        self.normalize = normalize
        self.n_components = n_components
        self.max_stored = max_stored
        self.verifier = verifier
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, X_val: Any = None, y_val: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator, the datastore and the weight on rows `X` with labels `y`.

        `fit_params` go to the estimator's `fit`; those with a value per row, `sample_weight` among them, follow the
        folds. The datastore and the weight count every row once, whatever its `sample_weight`.
        """
        check_positive(self.n_neighbors, "n_neighbors")
        if (X_val is None) != (y_val is None):
            raise InvalidInputError(
                "X_val and y_val must be passed together, one of them is None: pass both or neither"
            )
        for name in ("calibrator_", "verifier_"):  # a fit that fails must not leave half of the last one
            self.__dict__.pop(name, None)
        check_estimator_is_classifier(self._estimator())
        check_folds(self.cv)
        X, y = _checked_rows(X, y, "y")
        check_comparable(self._estimator(), self.features, X)
        check_fit_params(fit_params, len(y))
        params = self._routed(fit_params)
        self.classes_ = self._classes_of(y)
        rows = Rows(X, y, _encoded(y, self.classes_, "y"), params.estimator.fit)
        seed = int(check_random_state(self.random_state).randint(2**31))
        splits: list[tuple[IntArray, IntArray]] = []
        if X_val is None:
            splits = self._splits(rows, params.splitter.split)
            self.n_neighbors_ = min(self.n_neighbors, *(self._n_stored(len(train)) for train, _ in splits))
            parts = Parallel(n_jobs=self.n_jobs)(
                delayed(self._held_out)(rows, train, test, seed) for train, test in splits
            )
            full = self._fit_part(rows, np.arange(len(y)), seed)
        else:
            X_val, y_val = _checked_rows(X_val, y_val, "y_val")
            self.n_neighbors_ = min(self.n_neighbors, self._n_stored(len(y)))
            full = self._fit_part(rows, np.arange(len(y)), seed)
            parts = [full.held_out(X_val, _encoded(y_val, self.classes_, "y_val"), self.n_neighbors_)]
            warn_of_stored_rows(parts[0].neighbors.distances[:, 0])
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(full.estimator, name):
                setattr(self, name, getattr(full.estimator, name))
        self.estimator_, self.components_, self.stored_rows_ = full.estimator, full.components, full.stored_rows
        self.calibrator_ = self._fit_weight(parts, full.store)
        if self.verifier is not None:
            held_out, found = _joined(parts)
            probs = self.calibrator_.predict_proba(held_out, found=found)
            self.verifier_ = fit_verifier(self.verifier, texts_of(X), rows.labels, splits, held_out, probs, seed=seed)
        return self

    @property
    def datastore_(self) -> Datastore:
        """The stored rows, as `calibrator_` searches them."""
        check_is_fitted(self)
        store: Datastore = self.calibrator_.store  # type: ignore[assignment]
        return store

    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated probabilities (n, classes), in the order of `classes_`."""
        check_is_fitted(self)
        outputs = self._part().outputs(X)
        probs = self.calibrator_.predict_proba(outputs)
        return self.verifier_.predict_proba(probs, outputs) if hasattr(self, "verifier_") else probs

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label of each row: the class with the largest logit, which calibration never changes."""
        check_is_fitted(self)
        labels: npt.NDArray[Any] = self.classes_[self._part().outputs(X).predicted]
        return labels

    def decision_function(self, X: Any) -> FloatArray:
        """Return the calibrated logits W * logits: (n, classes), with two classes the log odds (n,) of the second."""
        check_is_fitted(self)
        outputs = self._part().outputs(X)
        neighbors = self.datastore_.search(outputs.require_features("decision_function"), self.n_neighbors_)
        weight = knn_weight(neighbors, outputs.predicted, self.calibrator_.params_).total
        scores: FloatArray = weight[:, None] * outputs.logits
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def explain(self, X: Any, *, top: int = 5) -> list[Explanation]:
        """Return for each row its weight, both terms and its `top` nearest stored rows (id: see `stored_rows_`)."""
        check_is_fitted(self)
        return self.calibrator_.explain(self._part().outputs(X), top=top)

    def get_metadata_routing(self) -> Any:
        """Return where scikit-learn sends the metadata given to `fit`: to the estimator and to the splitter."""
        to_fit, to_split = (MethodMapping().add(caller="fit", callee=callee) for callee in ("fit", "split"))
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self._estimator(), method_mapping=to_fit).add(
            splitter=self.cv, method_mapping=to_split
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = deepcopy(get_tags(self._estimator()).input_tags)
        tags.input_tags.allow_nan = takes_missing(self._estimator(), self.features)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibrator_")

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the calibrator as the files of its folder, so that no index object is pickled."""
        state = dict(super().__getstate__())
        if "calibrator_" in state:
            with TemporaryDirectory() as folder:
                path = Path(folder, "ue")
                state.pop("calibrator_").save(path)
                files = [file for file in sorted(path.rglob("*")) if file.is_file()]
                state["_files"] = {file.relative_to(path).as_posix(): file.read_bytes() for file in files}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        files = state.pop("_files", None)
        super().__setstate__(state)
        if files is None:
            return
        with TemporaryDirectory() as folder:
            for name, content in files.items():
                path = Path(folder, "ue", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self.calibrator_ = KnnUE.load(Path(folder, "ue"))
            # Mapped arrays outlive their files; a store without a folder has nowhere to write changes to.
            self.calibrator_.store = self.datastore_.detached()

    def _estimator(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _part(self) -> Part:
        return Part(self.estimator_, self.classes_, self.features, self.components_, self.datastore_, self.stored_rows_)

    def _routed(self, fit_params: dict[str, Any]) -> Any:
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **fit_params)
        else:
            routed = Bunch(estimator=Bunch(fit=fit_params), splitter=Bunch(split={}))
        if routed.estimator.fit and isinstance(self._estimator(), FrozenEstimator):
            raise InvalidInputError(
                f"a FrozenEstimator is not fitted, so {', '.join(sorted(routed.estimator.fit))} would have no effect: "
                "leave it out"
            )
        return routed

    def _classes_of(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        estimator = self._estimator()
        classes = np.asarray(estimator.classes_) if isinstance(estimator, FrozenEstimator) else np.unique(y)
        if len(classes) < 2:
            raise InvalidInputError(f"y must hold at least 2 classes, got 1 class: {classes.tolist()}")
        return classes

    def _splits(self, rows: Rows, split_params: dict[str, Any]) -> list[tuple[IntArray, IntArray]]:
        rarest = int(np.unique(rows.labels, return_counts=True)[1].min())
        if self.cv is None and rarest < 2:
            raise InvalidInputError("each class needs at least 2 rows to be calibrated on, one has 1: add or drop it")
        n_folds = max(2, min(5, rarest)) if self.cv is None else self.cv
        if isinstance(n_folds, int) and rarest < n_folds:
            raise InvalidInputError(
                f"cv={n_folds} needs at least {n_folds} rows of each class, the rarest class has {rarest}: "
                "lower cv or add rows"
            )
        return list(check_cv(n_folds, rows.y, classifier=True).split(rows.X, rows.y, **split_params))

    def _n_stored(self, n_rows: int) -> int:
        if self.max_stored is None:
            return n_rows
        check_positive(self.max_stored, "max_stored")
        return min(n_rows, self.max_stored)

    def _held_out(self, rows: Rows, train: IntArray, test: IntArray, seed: int) -> HeldOut:
        part = self._fit_part(rows, train, seed)
        return part.held_out(_safe_indexing(rows.X, test), rows.labels[test], self.n_neighbors_)

    def _fit_part(self, rows: Rows, train: IntArray, seed: int) -> Part:
        """Fit a copy of the estimator on the rows `train` and store them, or a sample of them."""
        estimator = self._fitted(rows, train, seed)
        check_every_class(self.classes_, estimator.classes_)
        stored = train
        if (n_stored := self._n_stored(len(train))) < len(train):
            stored = np.sort(np.random.default_rng(seed).choice(train, n_stored, replace=False))
        X, _ = rows.take(stored)
        raw, _ = read_rows(estimator, self.features, X)
        components = None
        if issparse(raw) and self.n_components is not None and raw.shape[1] > self.n_components:
            check_positive(self.n_components, "n_components")
            n_components = min(self.n_components, raw.shape[0])
            components = randomized_svd(raw, n_components=n_components, random_state=seed)[2].T
        store = Datastore.build(
            dense(raw, components),
            rows.labels[stored],
            texts=texts_of(X),
            index=self.index,
            normalize=self.normalize,  # type: ignore[arg-type]
        )
        return Part(estimator, self.classes_, self.features, components, store, stored)

    def _fitted(self, rows: Rows, train: IntArray, seed: int) -> Any:
        params = rows.fit_params_of(train)
        if not isinstance(self._estimator(), FrozenEstimator):
            check_every_class(self.classes_, self.classes_[np.unique(rows.labels[train])])
        try:
            return seeded(clone(self._estimator()), seed).fit(*rows.take(train), **params)
        except ValueError as error:
            if params.get("sample_weight") is None:
                raise
            raise InvalidInputError(
                f"the estimator must be fitted with the sample_weight of each fold, and fails on one ({error}): give "
                "several rows of each class a positive weight"
            ) from error

    def _fit_weight(self, parts: list[HeldOut], store: Datastore) -> KnnUE:
        held_out, found = _joined(parts)
        return KnnUE(store, n_neighbors=self.n_neighbors_, use_labels=self.use_labels).fit(held_out, found=found)


def _joined(parts: list[HeldOut]) -> tuple[Outputs, Found]:
    """Return all rows to calibrate on, with their texts if they are texts, and the neighbors of each."""
    texts = [part.outputs.texts for part in parts]
    held_out = Outputs(
        logits=np.concatenate([part.outputs.logits for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        texts=None if any(one is None for one in texts) else [text for one in texts for text in one or ()],
    )
    return held_out, {"store": joined([part.neighbors for part in parts])}


def _checked_rows(X: Any, y: Any, name: str) -> tuple[Any, npt.NDArray[Any]]:
    if y is None:
        raise InvalidInputError("KnnUEClassifier requires y to be passed, but the target y is None")
    check_labels(y, name)
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    X, _ = indexable(X, y)
    return X, y


def _encoded(y: npt.NDArray[Any], classes: npt.NDArray[Any], name: str) -> IntArray:
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise InvalidInputError(
            f"{name} must hold classes the estimator knows, got {unknown.tolist()[0]!r}: it knows {classes.tolist()}"
        )
    order = np.argsort(classes)  # a frozen estimator may have them in any order
    labels: IntArray = order[np.searchsorted(classes, y, sorter=order)].astype(np.int64)
    return labels
