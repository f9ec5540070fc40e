"""Normalizing flows: densities learned from features. Importing this loads torch."""

from knn_ue_lab.flows.feature_density import FeatureDensity, fit_real_nvp
from knn_ue_lab.flows.radial import RadialFlows
from knn_ue_lab.flows.real_nvp import RealNVP

__all__ = ["FeatureDensity", "RadialFlows", "RealNVP", "fit_real_nvp"]
