"""kNN-UE for scikit-learn: `KnnUEClassifier`, used as `CalibratedClassifierCV` is. Needs the extra [sklearn]."""

try:
    import sklearn.frozen  # noqa: F401  (there since 1.6)
except ImportError:
    from knn_ue.errors import MissingExtraError

    raise MissingExtraError(
        'knn_ue.sklearn needs scikit-learn 1.6 or later. Install it with: pip install "knn-ue[sklearn]"'
    ) from None

from knn_ue.sklearn.classifier import KnnUEClassifier

__all__ = ["KnnUEClassifier"]
