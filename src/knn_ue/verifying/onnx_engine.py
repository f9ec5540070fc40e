"""ONNX Runtime, and as the engine of a reader: the whole encoder for texts, one that is cut at its layers for words."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from knn_ue.arrays import FloatArray, IntArray
from knn_ue.errors import InvalidInputError, require
from knn_ue.verifying.onnx_graph import cut_at_layers

# The smaller ones first: they read texts as well, twice as fast.
ONNX_FILES = tuple(
    f"{folder}{name}.onnx"
    for folder in ("onnx/", "")
    for name in ("model_quantized", "model_int8", "model_qint8_avx512", "model")
)
_KNOWN_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def onnx_file_in(folder: Path) -> Path | None:
    """Return the ONNX model of a folder, None where there is none."""
    return next((folder / name for name in ONNX_FILES if (folder / name).is_file()), None)


class OnnxEngine:
    """Runs the model in one ONNX file."""

    def __init__(self, path: Path) -> None:
        require("onnxruntime", extra="verify", purpose="a reader in ONNX")
        self._path = path
        self._sessions: dict[tuple[int, ...] | None, tuple[Any, list[str]]] = {}
        self._rounds_by_batch = False  # int8 models choose one scale for a batch: each row then goes alone

    def states(self, ids: IntArray, mask: IntArray, layers: tuple[int, ...] | None) -> list[FloatArray]:
        """Return the states (batch, pieces, d) after each of these layers, counted from 1; None is the last one."""
        if layers not in self._sessions:
            self._sessions[layers] = self._open(layers)
        session, outputs = self._sessions[layers]
        if not self._rounds_by_batch or len(ids) == 1:
            return _run(session, outputs, ids, mask)
        alone = [_run(session, outputs, ids[row : row + 1, :n], mask[row : row + 1, :n]) for row, n in _lengths(mask)]
        return [np.concatenate([_padded(states[k], ids.shape[1]) for states in alone]) for k in range(len(outputs))]

    def _open(self, layers: tuple[int, ...] | None) -> tuple[Any, list[str]]:
        content = self._path.read_bytes()
        self._rounds_by_batch = b"DynamicQuantizeLinear" in content
        names: list[str] = []
        if layers is not None:
            content, names = cut_at_layers(content, layers)
        try:
            session = open_session(content)
        except Exception as error:  # the runtime's own errors have no common base
            raise InvalidInputError(
                f"ONNX Runtime cannot open {self._path} ({str(error)[:200]}): export it again"
            ) from error
        unknown = [put.name for put in session.get_inputs() if put.name not in _KNOWN_INPUTS]
        if unknown:
            raise InvalidInputError(
                f"{self._path} has the input {unknown[0]!r}: a reader is an encoder of {', '.join(_KNOWN_INPUTS)}"
            )
        return session, names or [_last_state(session, self._path)]


def open_session(model: bytes) -> Any:
    """Open a model on the CPU with as many threads as `OMP_NUM_THREADS` says, else one per core; none spins idly."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    options.intra_op_num_threads = int(threads) if threads.isdigit() else 0
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors only
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run(session: Any, outputs: list[str], ids: IntArray, mask: IntArray) -> list[FloatArray]:
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    states = session.run(outputs, {put.name: given[put.name] for put in session.get_inputs()})
    return [state.astype(np.float32, copy=False) for state in states]


def _lengths(mask: IntArray) -> list[tuple[int, int]]:
    return list(enumerate(np.maximum(mask.sum(axis=1), 1).tolist()))


def _padded(states: FloatArray, n_pieces: int) -> FloatArray:
    return np.pad(states, ((0, 0), (0, n_pieces - states.shape[1]), (0, 0)))


def _last_state(session: Any, path: Path) -> str:
    outputs = session.get_outputs()
    named = [out.name for out in outputs if out.name in ("last_hidden_state", "token_embeddings")]
    by_shape = [out.name for out in outputs if len(out.shape or ()) == 3]
    if not named + by_shape:
        raise InvalidInputError(f"{path} has no output with one vector per piece: export last_hidden_state")
    return str((named + by_shape)[0])
