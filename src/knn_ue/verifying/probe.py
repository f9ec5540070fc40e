"""What a reader by itself would tag each word: multinomial logistic regression on its word vectors."""

from dataclasses import dataclass

import numpy as np

from knn_ue.arrays import FloatArray, IntArray, softmax

N_FOLDS = 5
# C of the regression, on vectors of norm 1. Mean E-AURC x1000 of spans with 50 / 100 / 200 labeled sentences (spaCy on
# five sets, MiniLM): 81 / 64 / 54 with C = 1, 74 / 60 / 50 with 2, 70 / 57 / 49 with 4.
STRENGTH = 4.0
_STEPS = 200
_CLOSE = 1e-3  # the largest slope that is left, of a loss that is a sum over words


@dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """`weights` (d, tags) and `intercepts` (tags,) on word vectors divided by `scale`; a tag without words has -inf."""

    weights: FloatArray
    intercepts: FloatArray
    scale: float

    def predict(self, vectors: FloatArray) -> FloatArray:
        """Return the probability of each tag (n, tags) for word vectors (n, d)."""
        return _softmax(vectors @ (self.weights / self.scale) + self.intercepts)


def fit_probe(vectors: FloatArray, tags: IntArray, *, n_tags: int, strength: float = STRENGTH) -> Probe:
    """Fit the regression (C = `strength`, free intercepts) of tag numbers (n,) on word vectors (n, d).

    Vectors are divided by their root mean square norm, so that C means the same for every reader.
    """
    from scipy.optimize import minimize

    scale = root_mean_square(vectors)
    seen = np.unique(tags)
    columns = vectors / scale
    target = (tags[:, None] == seen).astype(columns.dtype)
    shape = (vectors.shape[1] + 1, len(seen))

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(shape)
        logits = (columns @ weights[1:].astype(columns.dtype)).astype(np.float64) + weights[0]
        logits -= logits.max(axis=1, keepdims=True)
        total = np.exp(logits).sum(axis=1)
        loss = strength * (np.log(total).sum() - logits[target > 0].sum()) + 0.5 * (weights[1:] ** 2).sum()
        wrong = strength * (np.exp(logits) / total[:, None] - target)
        slope = np.vstack([wrong.sum(axis=0), columns.T @ wrong.astype(columns.dtype) + weights[1:]])
        return float(loss), slope.ravel().astype(np.float64)

    start = np.zeros(shape)
    start[0] = np.log(target.mean(axis=0, dtype=np.float64))
    options = {"maxiter": _STEPS, "gtol": _CLOSE, "ftol": 1e-9}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(shape)
    weights = np.zeros((vectors.shape[1], n_tags), dtype=np.float32)
    intercepts = np.full(n_tags, -np.inf)
    weights[:, seen], intercepts[seen] = found[1:], found[0]
    return Probe(weights=weights, intercepts=intercepts, scale=scale)


def cross_fit_probe(vectors: FloatArray, tags: IntArray, folds: IntArray, *, n_tags: int) -> FloatArray:
    """Return the probability of each tag (n, tags) by probes that are fitted on the words of other `folds` (n,)."""
    probs = np.zeros((len(tags), n_tags))
    for fold in np.unique(folds).tolist():
        inside = folds == fold
        probs[inside] = fit_probe(vectors[~inside], tags[~inside], n_tags=n_tags).predict(vectors[inside])
    return probs


def sentence_folds(n_sentences: int, seed: int = 0) -> IntArray:
    """Return a fold number for each sentence; all folds hold as many, or one more."""
    folds: IntArray = np.random.default_rng(seed).permutation(n_sentences) % N_FOLDS
    return folds


def root_mean_square(vectors: FloatArray) -> float:
    """Return the root mean square norm of the rows, 1 where all of them are zero."""
    mean = float(np.einsum("ij,ij->", vectors, vectors, dtype=np.float64)) / max(len(vectors), 1)
    return float(np.sqrt(mean)) or 1.0


def _softmax(logits: FloatArray) -> FloatArray:
    return softmax(np.maximum(logits.astype(np.float64), -1e6))
