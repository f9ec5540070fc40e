"""The command `knn-ue`: parses, calls, prints. One file a command; `app` is the entry point."""

from knn_ue.cli.main import app

__all__ = ["app"]
