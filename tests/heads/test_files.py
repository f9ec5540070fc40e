"""A head survives its file bit by bit; a file that is not one is refused."""

import json

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from knn_ue.encoding.heads import HEAD_FILE, head_class, load_head, save_head  # noqa: E402
from knn_ue.errors import MissingExtraError, StorageError  # noqa: E402


def make_head(kind, **options):
    torch.manual_seed(0)
    return head_class(kind)(in_features=8, n_classes=3, **options).eval()


@pytest.mark.parametrize("pools", [False, True])
@pytest.mark.parametrize("kind", ["e-ner", "posterior", "sngp", "spectral"])
def test_a_loaded_head_answers_the_same_bit_by_bit(tmp_path, kind, pools):
    head = make_head(kind, pools=pools)
    rows = torch.randn(7, 8)

    save_head(tmp_path, head)
    torch.manual_seed(99)  # a loader that drew anything anew would show
    loaded = load_head(tmp_path / HEAD_FILE)

    assert torch.equal(loaded.logits(loaded.hidden(rows)), head.logits(head.hidden(rows)))
    assert loaded.options == head.options
    assert not loaded.training


@pytest.mark.parametrize(
    "damage",
    [
        lambda state, _meta: state.pop("output.weight"),
        lambda state, _meta: state.update(more=torch.zeros(1)),
        lambda state, _meta: state.update({"output.weight": torch.zeros(2, 2)}),
        lambda _state, meta: meta.update(options="not json"),
        lambda _state, meta: meta.update(options=json.dumps({"in_features": 8, "evil": 1})),
        lambda _state, meta: meta.update(options=json.dumps({"in_features": "8", "n_classes": 3, "pools": False})),
        lambda _state, meta: meta.clear(),
    ],
    ids=["less", "more", "other shape", "no json", "unknown option", "wrong type", "no metadata"],
)
def test_a_file_that_is_no_head_is_refused_in_one_sentence(tmp_path, damage):
    head = make_head("spectral")
    save_head(tmp_path, head)
    state, meta = load_file(tmp_path / HEAD_FILE), {"kind": head.kind, "options": json.dumps(head.options)}
    damage(state, meta)
    save_file(state, tmp_path / HEAD_FILE, metadata=meta)

    with pytest.raises(StorageError, match="is not a head written by knn-ue"):
        load_head(tmp_path / HEAD_FILE)


def test_a_cut_file_is_refused(tmp_path):
    save_head(tmp_path, make_head("sngp"))
    file = tmp_path / HEAD_FILE
    file.write_bytes(file.read_bytes()[:-100])

    with pytest.raises(StorageError, match="is not a head written by knn-ue"):
        load_head(file)


def test_a_head_of_a_package_that_is_not_installed_says_which_one_to_install(tmp_path):
    head = make_head("spectral")
    save_head(tmp_path, head)
    save_file(load_file(tmp_path / HEAD_FILE), tmp_path / HEAD_FILE, metadata={"kind": "unknown", "options": "{}"})

    with pytest.raises(MissingExtraError, match=r"a head of the kind 'unknown' .* install knn-ue-lab"):
        load_head(tmp_path / HEAD_FILE)
