"""Scores for out-of-domain detection: `DETECTORS` is the registry, a name -> how the detector is made."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from knn_ue.detection.contract import Detector
from knn_ue.detection.familiar import FamiliarityDetector
from knn_ue.detection.logit_scores import Energy, MaxLogit
from knn_ue.detection.mahalanobis_plus import MahalanobisPlus
from knn_ue.detection.nearest import NearestNeighbor
from knn_ue.detection.virtual_logit import VirtualLogit

DETECTORS: Mapping[str, Callable[[], Detector]] = MappingProxyType(
    {
        "energy": Energy,
        "max-logit": MaxLogit,
        "nearest-neighbor": NearestNeighbor,
        "mahalanobis++": MahalanobisPlus,
        "vim": VirtualLogit,
        "familiarity": FamiliarityDetector,
    }
)

__all__ = [
    "DETECTORS",
    "Detector",
    "Energy",
    "FamiliarityDetector",
    "MahalanobisPlus",
    "MaxLogit",
    "NearestNeighbor",
    "VirtualLogit",
]
