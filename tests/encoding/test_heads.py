"""Where a head of ours stands in a model, and which layer before it is bounded, for other families of classifiers."""

import pytest

from knn_ue.errors import InvalidInputError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from knn_ue.encoding.inspection import attach_head, head_of, pooler_layers  # noqa: E402
from knn_ue_lab.heads.evidential import EvidentialHead  # noqa: E402
from knn_ue_lab.heads.gaussian_process import GaussianProcessHead  # noqa: E402
from knn_ue_lab.training.sngp import Sngp  # noqa: E402
from knn_ue_lab.training.spectral import bounded_layers  # noqa: E402

# Raised by the import of DeBERTa inside transformers; nothing of ours uses torch.jit.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

WIDTH, N_CLASSES = 24, 3
SMALL = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "vocab_size": 30,
    "num_labels": N_CLASSES,
}
DISTILBERT = {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 40, "vocab_size": 30, "num_labels": N_CLASSES}
POOLERS = {
    "bert": "bert.pooler.dense",
    "roberta": "classifier.dense",
    "deberta-v2": "pooler.dense",
    "distilbert": "pre_classifier",
    "electra": "classifier.dense",
    "albert": "albert.pooler",
    "modernbert": "head.dense",
}


def make_model(family, kind="SequenceClassification"):
    extra = {"modernbert": {"pad_token_id": 0}, "deberta-v2": {"pooler_hidden_size": WIDTH}}.get(family, {})
    config = transformers.AutoConfig.for_model(family, **(DISTILBERT if family == "distilbert" else SMALL), **extra)
    torch.manual_seed(0)
    return getattr(transformers, f"AutoModelFor{kind}").from_config(config).eval()


@pytest.mark.parametrize("family", POOLERS)
def test_the_pooler_of_a_text_classifier_is_found_whatever_it_is_called(family):
    model = make_model(family)

    names = [name for name, module in model.named_modules() if any(module is layer for layer in pooler_layers(model))]

    assert names == [POOLERS[family]]


@pytest.mark.parametrize("family", sorted(POOLERS.keys() - {"modernbert"}))
def test_a_tagger_has_none(family):
    assert pooler_layers(make_model(family, "TokenClassification")) == []


@pytest.mark.parametrize("kind", ["SequenceClassification", "TokenClassification"])
@pytest.mark.parametrize("family", POOLERS)
def test_sngp_bounds_one_layer_of_any_family_and_reads_what_the_last_layer_read(family, kind):
    model = make_model(family, kind)

    Sngp(n_features=16).prepare(model, class_counts=torch.ones(N_CLASSES).numpy())

    (layer,) = bounded_layers(model)
    assert torch.linalg.svdvals(layer.weight.detach())[0] <= 1.05 * 0.95
    assert model(input_ids=torch.tensor([[1, 5, 6, 2]])).logits.shape[-1] == WIDTH
    assert isinstance(head_of(model), GaussianProcessHead)


@pytest.mark.parametrize(("width", "n_classes"), [(WIDTH, 5), (8, N_CLASSES)])
def test_a_head_of_another_model_is_refused(width, n_classes):
    with pytest.raises(InvalidInputError, match=f"the head reads {width} numbers and has {n_classes} classes"):
        attach_head(make_model("bert"), EvidentialHead(in_features=width, n_classes=n_classes))
