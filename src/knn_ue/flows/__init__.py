"""Normalizing flows: densities learned from features. Importing this loads torch."""

from knn_ue.flows.feature_density import FeatureDensity, fit_real_nvp
from knn_ue.flows.radial import RadialFlows
from knn_ue.flows.real_nvp import RealNVP

__all__ = ["FeatureDensity", "RadialFlows", "RealNVP", "fit_real_nvp"]
