"""Models, tokenizers and devices, found and loaded; what goes wrong is said in one sentence."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from knn_ue.encoding.inspection import (
    attach_head,
    is_decoder_only,
    last_linear,
    note_of,
    saved_names,
)
from knn_ue.encoding.model_files import read_record
from knn_ue.errors import InvalidInputError, KnnUeError, require
from knn_ue.hub_access import cache_only_if_unreachable
from knn_ue.tasks import TASKS, Task, task_name

# Their tokenizers see a word at the start of a text and inside it as two different things.
_NEEDS_PREFIX_SPACE = {"roberta", "deberta", "gpt2", "bloom", "longformer", "bart", "modernbert"}

_WEIGHTS = {".safetensors", ".bin"}
_MAX_LAYERS = 1000
_MAX_SIZE = 1 << 24
_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel")

# What config.json says of tables of so many rows, and of what stands in every layer.
_TABLES = ("vocab_size", "max_position_embeddings", "type_vocab_size")
_PER_LAYER = ("intermediate_size",)
# Layers may share weights and positions may need none, so the files may be much smaller than the sizes suggest.
_SHARED = 100
_SLACK = 1 << 26


def find_device(name: str) -> Any:
    """Return the torch device called `name`; "auto" is the first CUDA GPU, or the CPU where there is none."""
    require("torch", extra="hf", purpose="HuggingFaceEncoder")
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # the device "meta" makes tensors, but none that can be read
    except (RuntimeError, AssertionError, ImportError) as error:  # unknown name, a build without it, no such module
        reason = str(error).splitlines()[0]
        said = f"device {name!r} cannot be used here ({reason}): try "
        raise InvalidInputError(f'{said}device="cpu"', shell=f"{said}--device cpu") from None
    return device


def load_config(path: str | Path, *, trust_remote_code: bool = False) -> Any:
    """Load what a model says about itself, without its weights."""
    require("transformers", extra="hf", purpose="HuggingFaceEncoder")
    from transformers import AutoConfig

    with loading(path):
        config = AutoConfig.from_pretrained(str(path), trust_remote_code=trust_remote_code)
        _check_sizes(path, config)
        return config


def _check_sizes(path: str | Path, config: Any) -> None:
    """Raise where a config.json promises a model that its own files cannot hold, before anything is allocated."""
    sizes = {name: getattr(config, name, None) for name in (*_PER_LAYER, *_TABLES, "hidden_size", "num_hidden_layers")}
    for name, size in sizes.items():
        if size is not None and (type(size) is not int or not 0 <= size <= _MAX_SIZE):
            raise ValueError(f"{name} must be a whole number up to {_MAX_SIZE}, got {str(size)[:40]!r}")
    layers, width = sizes["num_hidden_layers"] or 0, sizes["hidden_size"] or 0
    if layers > _MAX_LAYERS:
        raise ValueError(f"num_hidden_layers must be at most {_MAX_LAYERS}, got {layers}")
    if not Path(path).is_dir():
        return
    n_bytes = sum(file.stat().st_size for file in Path(path).iterdir() if file.suffix in _WEIGHTS)
    most = _SLACK + _SHARED * n_bytes
    counts = {name: width * (sizes[name] or 0) for name in _TABLES}
    counts |= {name: layers * width * (sizes[name] or 0) for name in (*_PER_LAYER, "hidden_size")}
    name = max(counts, key=lambda name: counts[name])
    if n_bytes and counts[name] > most:
        raise ValueError(f"its files of {n_bytes} bytes cannot hold {name}={sizes[name]} with hidden_size={width}")


def find_task(
    path: str | Path,
    given: str | None = None,
    *,
    config: Any = None,
    architecture: str | None = None,
    trust_remote_code: bool = False,
) -> Task:
    """Return what the model is for: as it was recorded in training, else as its architecture tells.

    An architecture for texts does not tell texts from pairs: without a record it is for texts unless `given` says
    otherwise. Raises where `given` (either form) is not what the model is for, or nothing is known. `config` is what
    `load_config` returned, where it was called before; for a model in memory `path` is what messages call it.
    """
    config = config or load_config(path, trust_remote_code=trust_remote_code)
    recorded = note_of(config).get("task")
    if architecture is None:
        architecture = next(iter(config.architectures or ()), "")
        recorded = recorded or (read_record(path) or {}).get("task")  # of models trained by earlier versions
    if recorded is not None:
        known = task_name(str(recorded))
        if given is not None and task_name(given) != known:
            raise InvalidInputError(f"{path} was trained for {known}, got task={given!r}: use task={known!r}")
        return known
    possible = [record.name for record in TASKS.values() if architecture.endswith(record.architecture)]
    if given is None:
        if architecture.endswith(_LANGUAGE_MODELS):
            raise InvalidInputError(
                f"{path} is a language model without a classification head: prompt it with "
                "UncertaintyPipeline.from_prompt(model, prompt, labels), or fine-tune it first",
                shell=f"{path} is a language model without a classification head: prompt it with --prompt and "
                f"--label-word, or fine-tune it first with knn-ue train --encoder {path}",
            )
        if not possible:
            raise InvalidInputError(
                f"{path} does not record what it was trained for: pass task='text', 'pair' or 'ner'",
                shell=f"{path} does not record what it was trained for: choose --task text, pair or ner",
            )
        return possible[0]
    if possible and task_name(given) not in possible:
        right = " or ".join(f"task={name!r}" for name in possible)
        raise InvalidInputError(f"{path} holds a {architecture}, which cannot do {task_name(given)}: use {right}")
    return task_name(given)


def load_tokenizer(path: str | Path, task: Task, *, config: Any = None, trust_remote_code: bool = False) -> Any:
    """Load the tokenizer of a model, made ready for lists of words where the task needs them."""
    config = config or load_config(path, trust_remote_code=trust_remote_code)
    from transformers import AutoTokenizer

    words = TASKS[task].is_tagging and config.model_type in _NEEDS_PREFIX_SPACE
    extra = {"add_prefix_space": True} if words else {}
    with loading(path):
        tokenizer = AutoTokenizer.from_pretrained(str(path), trust_remote_code=trust_remote_code, **extra)
        return check_tokenizer(tokenizer, path)


def check_tokenizer(tokenizer: Any, path: str | Path) -> Any:
    """Return the tokenizer; raise unless it can tell which sub-words belong to which word."""
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers makes up an empty one where there is none
        raise InvalidInputError(f"{path} has no tokenizer: save it there with tokenizer.save_pretrained")
    if not tokenizer.is_fast:
        raise InvalidInputError(f"{path} has only a slow tokenizer, which cannot tell words apart: save a fast one")
    return tokenizer


def load_model(
    path: str | Path,
    task: Task,
    *,
    config: Any = None,
    class_names: Sequence[str] | None = None,
    trust_remote_code: bool = False,
) -> tuple[Any, list[str]]:
    """Load a classifier in float32, ready to predict, and the names of the weights its files do not have.

    With `class_names` the model gets a head for these classes, new where the saved one is for others.
    """
    config = config or load_config(path, trust_remote_code=trust_remote_code)
    from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

    auto = AutoModelForTokenClassification if TASKS[task].is_tagging else AutoModelForSequenceClassification
    saved = saved_names(config)
    if class_names is not None:
        config.id2label = dict(enumerate(class_names))
        config.label2id = {name: number for number, name in enumerate(class_names)}
        config.problem_type = "single_label_classification"
    with loading(path):
        model, info = auto.from_pretrained(
            str(path),
            config=config,
            trust_remote_code=trust_remote_code,
            ignore_mismatched_sizes=class_names is not None,
            output_loading_info=True,
        )
    missing = set(info["missing_keys"])
    if class_names is None and note_of(config).get("head"):
        attach_head(model, _load_head(path))  # and the last layer that is missing is not needed
    if class_names is not None and tuple(class_names) != saved:
        _restart(last_linear(model), config)  # a head of the right size may still be for other classes
    return model.float().eval(), [name for name, _ in model.named_parameters() if name in missing]


def load_language_model(path: str | Path, *, trust_remote_code: bool = False) -> Any:
    """Load a decoder-only language model in float32, ready to be prompted."""
    config = load_config(path, trust_remote_code=trust_remote_code)
    from transformers import AutoModelForCausalLM

    architecture = next(iter(config.architectures or ()), config.model_type)
    if not is_decoder_only(config) or architecture.endswith("Classification"):
        raise InvalidInputError(
            f"{path} holds a {architecture}, which cannot be prompted: give a decoder-only language model such as "
            "GPT-2 or Llama, or leave out the prompt"
        )
    with loading(path):
        model, info = AutoModelForCausalLM.from_pretrained(
            str(path), config=config, trust_remote_code=trust_remote_code, output_loading_info=True
        )
        missing = {*info["missing_keys"]} & {name for name, _ in model.named_parameters()}
        if missing:
            raise ValueError(f"{min(missing)} is missing")
        return model.float().eval()


def share_padding(model: Any, tokenizer: Any) -> None:
    """Give a model about to be trained a padding token where it has none: that of its tokenizer, or the end of text."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def _load_head(path: str | Path) -> Any:
    from transformers.utils import cached_file

    from knn_ue.encoding.heads import HEAD_FILE, load_head

    with loading(path):
        file = cached_file(str(path), HEAD_FILE, _raise_exceptions_for_missing_entries=False)
    if file is None:
        raise InvalidInputError(f"{path} lacks {HEAD_FILE}, which makes its logits: copy it there, or retrain")
    return load_head(Path(file))


def _restart(linear: Any, config: Any) -> None:
    from torch.nn import init

    init.normal_(linear.weight, std=getattr(config, "initializer_range", 0.02))
    if linear.bias is not None:
        init.zeros_(linear.bias)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from writing bars and reports; a download from the hub still shows its bar."""
    from huggingface_hub.utils import are_progress_bars_disabled, enable_progress_bars
    from transformers.utils import logging

    verbosity, bars, no_hub_bars = (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
        are_progress_bars_disabled(),
    )
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if not no_hub_bars:
        enable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def loading(path: str | Path) -> Iterator[None]:
    """Turn whatever goes wrong with a model that others made into one sentence."""
    # A folder never asks the hub, so neither do we.
    hub = nullcontext() if Path(path).is_dir() else cache_only_if_unreachable()
    try:
        with quiet(), hub:
            yield
    except KnnUeError:
        raise
    except Exception as error:  # transformers lets a strange config.json raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        if "couldn't connect to" in reason and not Path(path).exists():  # most often a misspelled folder
            reason = "there is no such folder, and the Hugging Face Hub cannot be reached"
        raise InvalidInputError(
            f"the model {path} cannot be loaded ({reason[:300]}): "
            "give a folder that save_pretrained wrote, or the name of a model on a hub you can reach"
        ) from error
