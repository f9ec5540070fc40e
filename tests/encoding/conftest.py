"""The tiny models, one thread a process."""

from tiny_models import one_thread, tiny_model

__all__ = ["one_thread", "tiny_model"]
