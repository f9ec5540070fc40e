"""A UE folder behind an endpoint, and a page that shows why. Needs the extra [serve]."""

from knn_ue.serving.http.app import create_app
from knn_ue.serving.options import ServeOptions

__all__ = ["ServeOptions", "create_app"]
