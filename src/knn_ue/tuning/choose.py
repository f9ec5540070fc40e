"""The choice of an index by what matters, the calibration, not by its recall.

kNN-UE is refitted on the neighbors that each index really returns. An index is good enough if the mean log-loss of
the validation rows rises by no more than a tolerance over the exact search's, by a paired one-sided interval, and so
does the ECE. Of those that are, the fastest is taken.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_positive, float_matrix, label_vector
from knn_ue.calibrators import Calibrator, Found
from knn_ue.errors import InvalidInputError
from knn_ue.stores import IndexOptions, is_small, tunable
from knn_ue.stores.exact import ExactIndex
from knn_ue.stores.faiss_index import FaissIndex
from knn_ue.stores.segment import build_index
from knn_ue.tuning.index_trials import Exact, IndexTrials, Scored, Tolerance, Trial, Tuning
from knn_ue.types import Outputs, Progress

# The exact search of the validation rows must end in some twenty seconds: rows x columns x queries.
_EXACT_VALUES = 6e11
_MOST_QUERIES = 20_000
_POINTS_PER_LIST = 39  # faiss's own advice for training; fewer lists where rows are few
_PROBES = (1, 2, 4, 8, 16, 32, 64)
_PCA = (64, 32, 128)
# (width of the PCA, codes of four bits)
_CODES = ((64, 64), (64, 32), (128, 64))
# (recompute, refine_factor): the index's own distances, or those of the vectors for so many candidates a neighbor
_MODES = ((False, 1), (True, 1), (True, 4), (True, 8))


def tune_index(
    vectors: FloatArray,
    labels: IntArray,
    validation: Outputs,
    *,
    n_neighbors: int = 32,
    use_labels: bool = True,
    tolerance: Tolerance | None = None,
    scored: Scored | None = None,
    thorough: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tuning:
    """Choose an index over `vectors` (n, d) float32 with `labels` (n,), by labeled `validation` outputs.

    A store of up to 2**24 values (2**22 where the rows are words of sentences) is searched exactly and nothing is
    tried, unless there is a memory limit. Else each family of indexes is tried from its fastest setting on, until one
    is good enough or slower than the best so far; `thorough` tries all, for the whole picture. `scored` says what an
    answer is, by default a row. Where no index within the memory limit is good enough, an error says which came
    nearest.
    """
    tolerance = tolerance or Tolerance()
    vectors = float_matrix(vectors, "vectors", dtype=np.float32)
    labels = label_vector(labels, "labels", length=len(vectors))
    check_positive(n_neighbors, "n_neighbors")
    _check_columns(vectors, validation)
    if not thorough and tolerance.max_bytes is None and is_small(vectors.size, of_words=validation.groups is not None):
        return Tuning(chosen=IndexOptions(), trials=(), n_queries=0)
    bench = IndexTrials(
        vectors=vectors,
        labels=labels,
        validation=_sample(validation, vectors.size, seed),
        n_neighbors=n_neighbors,
        use_labels=use_labels,
        tolerance=tolerance,
        scored=scored or _scored_rows,
    )
    report = progress or (lambda *_: None)
    exact = bench.measure_exact(ExactIndex(vectors))
    trials = [exact.trial]
    families = index_families(*vectors.shape)
    for done, family in enumerate(families):
        report("tuning the index", done, len(families))
        fastest = min((trial.milliseconds for trial in trials if trial.good_enough), default=math.inf)
        trials += _try_family(bench, family, exact, fastest, thorough=thorough)
    report("tuning the index", len(families), len(families))
    return Tuning(chosen=_best(trials, tolerance), trials=tuple(trials), n_queries=len(bench.validation))


def tune_calibrator(
    calibrator: Calibrator,
    validation: Outputs,
    *,
    tolerance: Tolerance,
    scored: Scored | None = None,
    thorough: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
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
        scored=scored,
        thorough=thorough,
        seed=seed,
        progress=progress,
    )
    return reindexed(calibrator, tuning.chosen), tuning


def reindexed(calibrator: Calibrator, index: str | IndexOptions) -> Calibrator:
    """Return a calibrator over the same stored examples that is searched by another index, not fitted yet."""
    return calibrator.with_stores({name: tunable(x).reindexed(index) for name, x in calibrator.stores.items()})


@dataclass(frozen=True)
class Family:
    """One faiss index, built once, and the settings to try on it: for each mode, from the fastest on."""

    factory: str
    n_lists: int | None

    def modes(self) -> Iterator[list[IndexOptions]]:
        """Yield for each way to measure distances its settings, fastest first."""
        probes = [None] if self.n_lists is None else [probe for probe in _PROBES if probe <= self.n_lists]
        for recompute, refine_factor in _MODES:
            yield [
                IndexOptions(factory=self.factory, n_probe=probe, recompute=recompute, refine_factor=refine_factor)
                for probe in probes
            ]


def index_families(n_rows: int, n_columns: int) -> list[Family]:
    """Return the families for a store of this size, those that promise most first.

    8-bit scalar codes, which lose next to nothing, and four-bit product codes, which are scanned in registers; behind
    a PCA where there are columns to spare and behind inverted lists where there are rows to skip. A PCA is followed by
    a rotation (PCAR): else the first codes would have to hold nearly all of the variance. Graphs are left out: they
    find more, but codes take a fraction of their time (benchmarks/peers.py shows both).

    >>> for family in index_families(69_465, 384): print(family.factory)
    PCAR64,IVF256,SQ8
    PCAR32,IVF256,SQ8
    PCAR128,IVF256,SQ8
    PCAR64,IVF256,PQ64x4fs
    PCAR64,IVF256,PQ32x4fs
    PCAR128,IVF256,PQ64x4fs
    IVF256,SQ8
    PCAR64,PQ32x4fs
    """
    n_lists = max(1, min(2 ** round(math.log2(math.sqrt(max(1, n_rows)))), n_rows // _POINTS_PER_LIST))
    lists = f"IVF{n_lists}"
    widths = [width for width in _PCA if 1.5 * width <= n_columns]
    factories = [f"PCAR{width},{lists},SQ8" for width in widths]
    factories += [f"PCAR{width},{lists},PQ{n_codes}x4fs" for width, n_codes in _CODES if width in widths]
    if not widths and n_columns % 2 == 0:
        factories.append(f"{lists},PQ{n_columns // 2}x4fs")
    factories.append(f"{lists},SQ8")
    families = [Family(factory, n_lists) for factory in factories]
    width = 64 if 64 in widths else max(widths, default=n_columns)
    if width % 2 == 0:
        families.append(Family(f"{f'PCAR{width},' if widths else ''}PQ{width // 2}x4fs", None))
    return families


def _check_columns(vectors: FloatArray, validation: Outputs) -> None:
    n_columns = validation.require_features("tune_index").shape[1]
    if n_columns != vectors.shape[1]:
        raise InvalidInputError(
            f"validation features must have the {vectors.shape[1]} columns of vectors, got {n_columns}: "
            "use the same encoder"
        )


def _try_family(bench: IndexTrials, family: Family, exact: Exact, fastest: float, *, thorough: bool) -> Iterator[Trial]:
    """Yield a trial for each setting that may be good enough and faster than the `fastest` so far; or for all."""
    import faiss

    try:
        built = build_index(bench.vectors, IndexOptions(factory=family.factory))
    except InvalidInputError:  # too few rows to train it
        return
    assert isinstance(built, FaissIndex)
    n_bytes = int(faiss.serialize_index(built.inner).nbytes)
    for settings in family.modes():
        for options in settings:
            trial = bench.measure(FaissIndex(built.inner, bench.vectors, options), options, n_bytes, exact)
            yield trial
            if thorough:
                continue
            if trial.good_enough or (options is settings[0] and trial.milliseconds > fastest):
                return  # all that follows reads more
            if trial.milliseconds > fastest or not bench.fits(trial.n_bytes):
                break  # more probes only take longer, and hold as much


def _best(trials: list[Trial], tolerance: Tolerance) -> IndexOptions:
    good = [trial for trial in trials if trial.good_enough]
    if not good:
        within = [trial for trial in trials if trial.n_bytes <= (tolerance.max_bytes or math.inf)]
        smallest = min(trials, key=lambda trial: trial.n_bytes)
        nearest = min(within, key=lambda trial: trial.nll_increase, default=smallest)
        raise InvalidInputError(
            f"no index keeps the calibration in max_bytes={tolerance.max_bytes}: nearest is "
            f"{nearest.options.factory} with {nearest.n_bytes} bytes and a log-loss of {nearest.nll:.4f} against "
            f"{trials[0].nll:.4f}; raise the limit or the tolerance"
        )
    return min(good, key=lambda trial: trial.milliseconds).options


def _sample(validation: Outputs, n_values: int, seed: int) -> Outputs:
    """Return as many rows as can be searched exactly in reasonable time, at random; whole sentences in tagging."""
    most = int(min(_MOST_QUERIES, max(500, _EXACT_VALUES // n_values)))
    if len(validation) <= most:
        return validation
    random = np.random.default_rng(seed)
    if validation.groups is None:
        return validation.take(np.sort(random.choice(len(validation), size=most, replace=False)))
    numbers, sizes = np.unique(validation.groups, return_counts=True)
    order = random.permutation(len(numbers))
    kept = order[: max(1, int(np.searchsorted(np.cumsum(sizes[order]), most)))]
    return validation.take(np.isin(validation.groups, numbers[kept]))


def _scored_rows(outputs: Outputs, calibrator: Calibrator, found: Found) -> tuple[FloatArray, BoolArray]:
    prediction = calibrator.predict(outputs, found=found)
    return prediction.confidence, prediction.predicted == outputs.require_labels("tune_index")
