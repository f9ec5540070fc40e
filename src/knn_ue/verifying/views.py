"""What a reader sees of texts, and how the m labeled rows set its scale: centers, idf, and inner products with them.

A raw view is a dense matrix (n, d) or the sparse counts of hashed n-grams; nothing in it depends on other rows. All
that does (center, scale, idf) is fitted on the m labeled rows and kept in a `FittedView`, which prepares later rows
alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import FloatArray, IntArray, float_matrix
from knn_ue.errors import InvalidInputError

Arrays = dict[str, npt.NDArray[Any]]
_TINY = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseRows:
    """Counts (n, n_columns), almost all zero: row i holds `columns` and `values` from starts[i] to starts[i + 1].

    `starts` (n + 1,) and `columns` are int64, `values` float32. Columns rise within a row.
    """

    starts: IntArray
    columns: IntArray
    values: FloatArray
    n_columns: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: IntArray) -> "SparseRows":
        """Return the rows with these numbers."""
        return _from_scipy(self.to_scipy()[rows])

    def to_scipy(self) -> Any:
        """Return a `scipy.sparse.csr_array` of the same values."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.columns, self.starts), shape=(len(self), self.n_columns))


RawView = FloatArray | SparseRows
RawViews = Mapping[str, RawView]  # by name, the same names at fit and at predict
Inner = Mapping[str, tuple[FloatArray, FloatArray]]  # of each view: inner products and cosines, (n, m)


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedView:
    """A view as the m labeled rows set it: their prepared rows, and how other rows are prepared.

    Dense: `rows` (m, d) are centered by `center` (d,) and divided by `scale`. Sparse: `rows` are tf-idf rows of unit
    length over the `seen` columns only, `idf` (seen,); n-grams that no labeled row has count with the largest idf
    toward a row's length, so that a new row is as long as a labeled one and not closer to everything.
    """

    scale: float
    center: FloatArray | None = None
    rows: FloatArray | SparseRows
    seen: IntArray | None = None
    idf: FloatArray | None = None
    unseen_idf: float = 0.0
    n_columns: int = 0

    def prepared(self, raw: RawView) -> Any:
        """Return other rows as the labeled rows are: (n, d), or sparse over the columns that were seen."""
        if isinstance(raw, SparseRows):
            if self.seen is None or raw.n_columns != self.n_columns:
                raise InvalidInputError(f"a sparse view must have {self.n_columns} columns, got {raw.n_columns}")
            return _tf_idf(raw, self.seen, _required(self.idf), self.unseen_idf)
        values = float_matrix(raw, "a view", dtype=np.float64)
        if self.center is None or values.shape[1] != len(self.center):
            expected = "sparse" if self.center is None else f"(n, {len(self.center)})"
            raise InvalidInputError(f"a view must be {expected}, got {values.shape}: use the reader it was fitted with")
        return (values - self.center) / self.scale

    def inner(self, raw: RawView) -> tuple[FloatArray, FloatArray]:
        """Return the inner products (n, m) with the labeled rows, and the same as cosines."""
        return inner_products(self.prepared(raw), self._kept())

    def gram(self) -> tuple[FloatArray, FloatArray]:
        """Return the inner products (m, m) of the labeled rows, and the same as cosines."""
        kept = self._kept()
        return inner_products(kept, kept)

    def primal(self, weights: FloatArray) -> FloatArray:
        """Return what predicts from prepared rows (columns, k), of weights (m, k) that do from inner products."""
        return np.asarray(self._kept().T @ weights, dtype=np.float32)

    def without_rows(self) -> "FittedView":
        """Return the same preparation of other rows, the labeled ones forgotten."""
        return replace(self, rows=take_rows(self.rows, np.arange(0)))

    def _kept(self) -> Any:
        return self.rows.to_scipy() if isinstance(self.rows, SparseRows) else self.rows.astype(np.float64, copy=False)

    def arrays(self) -> Arrays:
        """Return all that `from_arrays` needs, as arrays."""
        if isinstance(self.rows, SparseRows):
            kept = self.rows
            sizes = np.array([self.n_columns, kept.n_columns], dtype=np.int64)
            return {
                "starts": kept.starts,
                "columns": kept.columns,
                "values": kept.values,
                "seen": _required(self.seen),
                "idf": _required(self.idf),
                "unseen_idf": np.array([self.unseen_idf]),
                "sizes": sizes,
            }
        return {"rows": self.rows, "center": _required(self.center), "scale": np.array([self.scale])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "FittedView":
        """Restore what `arrays` returned."""
        if "center" in arrays:
            return cls(scale=float(arrays["scale"][0]), center=arrays["center"], rows=arrays["rows"])
        all_columns, seen_columns = (int(size) for size in arrays["sizes"])
        parts = {name: arrays[name] for name in ("starts", "columns", "values")}
        return cls(
            scale=1.0,
            rows=SparseRows(**parts, n_columns=seen_columns),
            seen=arrays["seen"],
            idf=arrays["idf"],
            unseen_idf=float(arrays["unseen_idf"][0]),
            n_columns=all_columns,
        )


def fit_view(raw: RawView) -> FittedView:
    """Set center and scale of a dense view, or the idf of a sparse one, by the m labeled rows."""
    if isinstance(raw, SparseRows):
        return _fit_sparse(raw)
    values = float_matrix(raw, "a view", dtype=np.float64)
    center = values.mean(axis=0)
    centered = values - center
    scale = float(np.sqrt((centered**2).sum(axis=1).mean())) or 1.0
    return FittedView(scale=scale, center=center, rows=(centered / scale).astype(np.float32))


def inner_views(fitted: Mapping[str, FittedView], views: RawViews) -> Inner:
    """Return inner products and cosines (n, m) of rows with the labeled rows, of each view."""
    if views.keys() != fitted.keys():
        raise InvalidInputError(
            f"the verifier was fitted on the views {', '.join(fitted)}, got {', '.join(views) or 'none'}: "
            "use the reader it was fitted with"
        )
    return {name: view.inner(views[name]) for name, view in fitted.items()}


def take_rows(raw: RawView, rows: IntArray) -> RawView:
    """Return the rows of a raw view with these numbers."""
    return raw.take(rows) if isinstance(raw, SparseRows) else raw[rows]


def inner_products(some: Any, others: Any) -> tuple[FloatArray, FloatArray]:
    """Return inner products (n, m) and cosines (n, m) of prepared rows, dense or sparse."""
    product = some @ others.T
    values: FloatArray = np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.float64)
    lengths, other_lengths = _lengths(some), _lengths(others)
    return values, values / np.maximum(lengths[:, None] * other_lengths, _TINY)


def _lengths(rows: Any) -> FloatArray:
    squares = rows.multiply(rows).sum(axis=1) if hasattr(rows, "multiply") else (rows**2).sum(axis=1)
    found: FloatArray = np.sqrt(np.asarray(squares, dtype=np.float64).ravel())
    return found


def _fit_sparse(raw: SparseRows) -> FittedView:
    seen, counts = np.unique(raw.columns, return_counts=True)
    # Smooth idf: as if one more row had every n-gram.
    idf = np.log((1.0 + len(raw)) / (1.0 + counts)) + 1.0
    unseen = float(np.log(1.0 + len(raw)) + 1.0)
    rows = _from_scipy(_tf_idf(raw, seen, idf, unseen))
    return FittedView(scale=1.0, rows=rows, seen=seen, idf=idf, unseen_idf=unseen, n_columns=raw.n_columns)


def _tf_idf(raw: SparseRows, seen: IntArray, idf: FloatArray, unseen_idf: float) -> Any:
    """Return (1 + log count) idf over the seen columns, each row divided by its length over all columns."""
    from scipy.sparse import csr_array

    places = np.full(raw.n_columns, -1, dtype=np.int64)
    places[seen] = np.arange(len(seen))
    place = places[raw.columns]
    known = place >= 0
    values = (1.0 + np.log(raw.values)) * np.append(idf, unseen_idf)[place]
    of_row = np.repeat(np.arange(len(raw)), np.diff(raw.starts))
    lengths = np.sqrt(np.bincount(of_row, weights=values**2, minlength=len(raw)))
    values /= np.maximum(lengths, _TINY)[of_row]
    starts = np.append(0, np.cumsum(known))[raw.starts]
    return csr_array((values[known], place[known], starts), shape=(len(raw), len(seen)))


def _from_scipy(rows: Any) -> SparseRows:
    return SparseRows(
        starts=rows.indptr.astype(np.int64),
        columns=rows.indices.astype(np.int64),
        values=rows.data.astype(np.float32),
        n_columns=int(rows.shape[1]),
    )


def _required(array: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    if array is None:  # pragma: no cover (a FittedView is dense or sparse)
        raise InvalidInputError("a sparse view has idf and seen columns, a dense one a center")
    return array
