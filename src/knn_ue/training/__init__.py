"""Methods that train or alter the model. `finetune.finetune` is the one way to do it; it imports torch when called."""

from knn_ue.training.options import TrainingOptions

__all__ = ["TrainingOptions"]
