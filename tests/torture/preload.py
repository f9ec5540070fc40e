"""Imported once by the process that all others are forked from: what commands and servers load, nothing that runs."""

import gc
import os

gc.disable()  # nothing that is imported is garbage
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from importlib import import_module  # noqa: E402

import torch  # noqa: E402
import transformers  # noqa: E402

_MODULES = (
    "accelerate",
    "datasets",
    "faiss",
    "scipy.optimize",
    "torch._dynamo",
    "transformers.models.bert.modeling_bert",
    "transformers.trainer",
    "knn_ue.cli.predict",
    "knn_ue.cli.train",
    "knn_ue.encoding.huggingface",
    "knn_ue.serving.http.server",
    "knn_ue.training.finetune",
    "tiny_models",
    "torture.ue_folder",
    "torture.victims",
)
for _name in _MODULES:
    import_module(_name)
for _name in ("AutoModelForSequenceClassification", "AutoModelForTokenClassification", "AutoTokenizer", "Trainer"):
    getattr(transformers, _name)
torch.set_num_threads(1)
gc.freeze()  # nor do the forks look for any in it
gc.enable()
