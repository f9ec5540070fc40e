"""The lab's rows of the registry of methods, found by the entry point group `knn_ue.methods`."""

from knn_ue.calibrators import MahalanobisScaling
from knn_ue.methods import Method, softmax_of, stored, validation_only
from knn_ue_lab.calibrators import (
    DensitySoftmax,
    IsotonicCalibration,
    MatrixScaling,
    NonparametricUncertainty,
    ProximityCalibration,
    SdmActivation,
    VectorScaling,
)
from knn_ue_lab.training.evidential import Evidential
from knn_ue_lab.training.label_smoothing import LabelSmoothing
from knn_ue_lab.training.posterior import Posterior
from knn_ue_lab.training.sngp import Sngp
from knn_ue_lab.training.spectral import SpectralTraining

LAB: dict[str, Method] = {
    "vector-scaling": validation_only(VectorScaling, "a scale and a bias for each class, shrunk towards temperature"),
    "matrix-scaling": validation_only(MatrixScaling, "an affine map of the logits, shrunk towards temperature"),
    "isotonic": validation_only(IsotonicCalibration, "a rising step function of the confidence"),
    "procal": validation_only(ProximityCalibration, "confidence and nearness to validation rows, by Bayes' rule"),
    "label-smoothing": softmax_of(LabelSmoothing, "the softmax of a model trained on softened labels"),
    "sngp": softmax_of(Sngp, "a Gaussian process as the last layer"),
    "posterior": softmax_of(Posterior, "a Dirichlet from the density of each class"),
    "e-ner": softmax_of(Evidential, "a Dirichlet from evidence, for tagging"),
    "mdsn": Method(
        calibrator=MahalanobisScaling,
        make=lambda train, _search: MahalanobisScaling.from_training(train),
        summary="a temperature from the distance to the nearest class mean, in a network that keeps distances",
        training=SpectralTraining,
        encoding={"pooling": "pooled"},
    ),
    "density-softmax": Method(
        calibrator=DensitySoftmax,
        make=lambda train, _search: DensitySoftmax.from_training(train),
        summary="a weight from the likelihood of the features under a flow",
    ),
    "nuq": Method(
        calibrator=NonparametricUncertainty,
        make=lambda train, search: NonparametricUncertainty(stored(train, search), n_neighbors=search.n_neighbors),
        summary="a temperature that grows with the uncertainty of a kernel estimate of the labels",
    ),
    "sdm": Method(
        calibrator=SdmActivation,
        make=lambda train, search: SdmActivation(
            stored(train, search), train.predicted == train.require_labels("SDM"), n_neighbors=search.n_neighbors
        ),
        summary="a weight from the distance to the nearest example and how many neighbors in a row agree",
    ),
}
