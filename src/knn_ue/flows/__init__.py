"""Normalizing flows: densities learned from features. Importing this loads torch."""

from knn_ue.flows.radial import RadialFlows

__all__ = ["RadialFlows"]
