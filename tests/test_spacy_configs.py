"""The component in spaCy's own commands: assemble, train and package, from config files."""

from pathlib import Path

import pytest

spacy = pytest.importorskip("spacy")

from spacy.cli import app  # noqa: E402
from spacy.tokens import DocBin  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from tiny_spacy import SAME, examples, trained_pipeline  # noqa: E402

pytestmark = pytest.mark.slow  # a recognizer is trained
TEXT = "Ada Turing met Zorbl in Oslo today."
ASSEMBLE = """
[nlp]
lang = "en"
pipeline = ["ner", "knn_ue_entities"]

[components]

[components.ner]
source = "plain"

[components.knn_ue_entities]
factory = "knn_ue_entities"
attributes = {"confidence": "trust", "likely_missed": "maybe"}

[initialize]

[initialize.components]

[initialize.components.knn_ue_entities]
train = "confidence.spacy"
"""
TRAINING = """
[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = "train.spacy"

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = "confidence.spacy"

[training]
seed = 0
max_steps = 60
eval_frequency = 60
frozen_components = {frozen}

[training.optimizer]
@optimizers = "Adam.v1"
learn_rate = 0.02
"""
FROZEN = ASSEMBLE + TRAINING.format(frozen='["ner"]')
CALLBACK = """
[training.before_to_disk]
@callbacks = "knn_ue.fit_entities.v1"
train = "confidence.spacy"
"""
LISTENING = """
[nlp]
lang = "en"
pipeline = ["tok2vec", "ner", "knn_ue_entities"]

[components]

[components.tok2vec]
factory = "tok2vec"

[components.tok2vec.model]
@architectures = "spacy.HashEmbedCNN.v2"
pretrained_vectors = null
width = 16
depth = 1
embed_size = 200
window_size = 1
maxout_pieces = 2
subword_features = true

[components.ner]
factory = "ner"

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
extra_state_tokens = false
hidden_width = 16
maxout_pieces = 2
use_upper = true

[components.ner.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = 16

[components.knn_ue_entities]
factory = "knn_ue_entities"
"""
TRAINED = LISTENING + TRAINING.format(frozen="[]") + CALLBACK


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a trained recognizer, texts to train one on, and texts that neither was trained on."""
    nlp = trained_pipeline()
    nlp.to_disk(tmp_path / "plain")
    save(examples(nlp, 120, seed=5, noise=0.0, types=SAME), tmp_path / "train.spacy")
    save(examples(nlp, 120, seed=6, types=SAME), tmp_path / "confidence.spacy")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(labeled, path):
    DocBin(docs=[example.reference for example in labeled]).to_disk(path)


def fitted(nlp):
    component = nlp.add_pipe("knn_ue_entities")
    component.fit(examples(nlp, 80, seed=1, types=SAME), examples(nlp, 80, seed=2, types=SAME))
    return nlp


def scores(doc):
    return [(ent.text, ent.label_, round(ent._.confidence, 6)) for ent in doc.ents]


def fill(config):
    Path("base.cfg").write_text(config)
    run("init", "fill-config", "base.cfg", "config.cfg")


def run(*arguments):
    result = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_assemble_fits_the_component_on_a_sourced_recognizer(place):
    (place / "config.cfg").write_text(ASSEMBLE)

    run("assemble", "config.cfg", "assembled")

    doc = spacy.load(place / "assembled")(TEXT)
    assert doc.ents and all(0 < ent._.trust < 1 for ent in doc.ents) and doc._.maybe == []


def test_train_fits_the_component_on_the_recognizer_that_it_has_trained(place):
    fill(TRAINED)

    with pytest.warns(UserWarning, match="was not fitted, because 'ner' gets no entity of the validation texts right"):
        run("train", "config.cfg", "--output", "trained")

    doc = spacy.load(place / "trained" / "model-best")(TEXT)
    assert doc.ents and all(0 < ent._.confidence < 1 for ent in doc.ents)


def test_train_fits_the_component_on_a_frozen_recognizer(place):
    fill(FROZEN)

    run("train", "config.cfg", "--output", "trained", "--training.max_steps", "1")

    trained = spacy.load(place / "trained" / "model-last")
    assert all(0 < ent._.trust < 1 for ent in trained(TEXT).ents)
    assert [ent.text for ent in trained(TEXT).ents] == [ent.text for ent in spacy.load(place / "plain")(TEXT).ents]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # spaCy's own
def test_a_package_of_the_pipeline_holds_the_component(place):
    nlp = fitted(trained_pipeline())
    nlp.to_disk(place / "fitted")
    (place / "packed").mkdir()

    run("package", "fitted", "packed", "--build", "none", "--name", "names", "--version", "1.0.0")

    (folder,) = (place / "packed").glob("en_names-1.0.0/en_names/en_names-1.0.0")
    assert scores(spacy.load(folder)(TEXT)) == scores(nlp(TEXT))
