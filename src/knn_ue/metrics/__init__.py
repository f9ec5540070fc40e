"""Probabilities and labels -> numbers. All are fractions, and none depends on row order unless it says so."""

from knn_ue.metrics.answering import augrc, coverage_at_risk, risk_at_coverage
from knn_ue.metrics.bootstrap import Interval, bootstrap_interval
from knn_ue.metrics.calibration import (
    accuracy,
    adaptive_calibration_error,
    brier_multiclass,
    brier_top_label,
    class_wise_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
    nll_top_label,
)
from knn_ue.metrics.decomposed import brier_calibration, brier_refinement, nll_calibration, nll_refinement
from knn_ue.metrics.detection import OodDetection, ood_detection
from knn_ue.metrics.entities import EntityScores, entity_f1, extract_entities, mark_entities, score_entities, sentences
from knn_ue.metrics.neighbors import neighbor_coverage
from knn_ue.metrics.proximity import proximity_informed_calibration_error
from knn_ue.metrics.reliability import ReliabilityBins, reliability_bins
from knn_ue.metrics.selective import RiskCoverageCurve, aurc, auroc, class_auroc, e_aurc, risk_coverage_curve
from knn_ue.metrics.smooth import smooth_calibration_error

__all__ = [
    "EntityScores",
    "Interval",
    "OodDetection",
    "ReliabilityBins",
    "RiskCoverageCurve",
    "accuracy",
    "adaptive_calibration_error",
    "augrc",
    "aurc",
    "auroc",
    "bootstrap_interval",
    "brier_calibration",
    "brier_multiclass",
    "brier_refinement",
    "brier_top_label",
    "class_auroc",
    "class_wise_calibration_error",
    "coverage_at_risk",
    "debiased_calibration_error",
    "e_aurc",
    "entity_f1",
    "expected_calibration_error",
    "extract_entities",
    "mark_entities",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "neighbor_coverage",
    "nll_calibration",
    "nll_refinement",
    "nll_top_label",
    "ood_detection",
    "proximity_informed_calibration_error",
    "reliability_bins",
    "risk_at_coverage",
    "risk_coverage_curve",
    "score_entities",
    "sentences",
    "smooth_calibration_error",
]
