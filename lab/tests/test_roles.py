"""New sets of a folder are what their rows say: scored, used for OOD detection, or left out and named."""

import pytest

from knn_ue_lab.reproduce.reproduction import Reproduction, Request
from knn_ue_lab.reproduce.roles import notes_of, resolve_roles
from knn_ue_lab.reproduce.scales import SMALL
from knn_ue_lab.reproduce.setups import folder_setups
from knn_ue_lab.reproduce.task_data import TaskData
from tiny_data import write_data, write_rows


def settled_folder(folder):
    (setup,) = folder_setups(folder)
    return resolve_roles(setup, SMALL)


def test_a_set_of_other_labels_leaves_the_papers_place_to_one_that_can_be_scored(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    write_rows(tmp_path / "sentiment" / "aliens" / "test.jsonl", [{"text": "fine", "label": "green"}])

    setup = settled_folder(tmp_path)

    assert [(one.name, one.role, one.stands_for) for one in setup.sets] == [
        ("home", "in", "IMDb"),
        ("aliens", "outside", None),
        ("away", "out", "Yelp"),
    ]
    assert setup.differs == "home for IMDb, away for Yelp"
    assert setup.remarks == (
        "aliens has no label of the training rows (it has green; they have neg, pos): "
        "it is used only for OOD detection",
    )


def test_the_only_other_set_stands_for_the_papers_where_it_can_be_told_apart(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    write_rows(tmp_path / "sentiment" / "away" / "test.jsonl", [{"text": "fine", "label": "green"}])

    setup = settled_folder(tmp_path)

    assert [(one.role, one.stands_for) for one in setup.sets] == [("in", "IMDb"), ("outside", "Yelp")]
    assert [one.name for one in setup.labeled] == ["home"]


@pytest.mark.parametrize("tags", [["O", "O"], ["B-SHIP", "I-SHIP"]])
def test_sentences_without_any_known_type_are_told_apart(tmp_path, tags):
    write_data(tmp_path, tasks=("ner",))
    write_rows(tmp_path / "ner" / "sea" / "test.jsonl", [{"tokens": ["HMS", "Ada"], "tags": tags}])

    assert [(one.name, one.role) for one in settled_folder(tmp_path).sets][-1] == ("sea", "outside")


def test_a_set_that_cannot_be_read_costs_no_other_one_its_numbers(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    write_rows(tmp_path / "sentiment" / "aaa" / "test.jsonl", [])

    setup = settled_folder(tmp_path)

    assert [(one.name, one.stands_for) for one in setup.sets] == [("home", "IMDb"), ("away", "Yelp")]
    (remark,) = setup.remarks
    assert remark == "aaa is left out: test.jsonl is empty: at least one row is needed"


def test_a_set_of_a_name_we_know_is_read_like_any_other(tmp_path):
    data = write_data(tmp_path, tasks=("nli",))
    (data / "nli" / "home").rename(data / "nli" / "mnli")
    write_rows(data / "nli" / "snli" / "test.jsonl", [])
    write_rows(data / "nli" / "chaosnli-mnli" / "test.jsonl", [{"premise": "a", "hypothesis": "b", "label": "e"}])

    setup = settled_folder(data)

    assert [(one.name, one.role, one.stands_for) for one in setup.sets] == [
        ("mnli", "in", "MNLI"),
        ("chaosnli-mnli", "outside", None),
        ("away", "out", "SNLI"),
    ]
    assert [remark.split()[0] for remark in setup.remarks] == ["snli", "chaosnli-mnli"]


def test_a_task_that_cannot_be_read_costs_no_other_one_its_list_and_results(tmp_path):
    data = write_data(tmp_path / "data", tasks=("sentiment", "nli"))
    write_rows(data / "nli" / "home" / "val.jsonl", [])
    said = []
    reproduction = Reproduction(Request(out=tmp_path, data=data, encoder=str(tmp_path), n_seeds=1), said.append)

    lines = {line[0]: line for line in reproduction.listing()}
    results = reproduction.results(
        ["sentiment", "nli"], reproduction.read(["sentiment", "nli"]), "knn-ue", n_bootstrap=20
    )

    assert (lines["sentiment"][3], lines["nli"][3]) == ("0", "?")
    assert any("val.jsonl is empty" in line for line in said)
    assert {name.split()[0] for name in results.failed} == {"nli"}


def notes_on(folder, name):
    setup = settled_folder(folder)
    return notes_of(TaskData(setup, SMALL).sets[name])


def test_labels_that_differ_in_case_are_said_to(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    write_rows(tmp_path / "sentiment" / "loud" / "test.jsonl", [{"text": "fine", "label": "POS"}])

    (remark,) = settled_folder(tmp_path).remarks

    assert remark.endswith("it is used only for OOD detection. Some differ in case only: spell them alike to score it")


def test_an_in_domain_set_of_other_labels_is_said_to_be_scored_nowhere(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    write_rows(tmp_path / "sentiment" / "home" / "test.jsonl", [{"text": "fine", "label": "green"}])

    setup = settled_folder(tmp_path)

    assert setup.sets[0].role == "in"
    assert setup.remarks[0].endswith("no method can be scored in domain, only OOD detection is measured")


def test_a_set_with_few_texts_leaves_the_papers_place_to_one_with_more(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    rows = [{"text": f"a great film {number}", "label": "pos"} for number in range(60)]
    write_rows(tmp_path / "sentiment" / "large" / "test.jsonl", rows)

    setup = settled_folder(tmp_path)

    assert [(one.name, one.stands_for) for one in setup.sets] == [("home", "IMDb"), ("away", None), ("large", "Yelp")]
    assert setup.differs == "home for IMDb, large for Yelp"
    assert setup.remarks == ("away has fewer than 50 texts: it stands for none of the paper's sets",)


def test_labels_that_are_not_known_are_named(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    rows = [{"text": f"film {number}", "label": ("pos", "neg", "Neg")[number % 3]} for number in range(60)]
    write_rows(tmp_path / "sentiment" / "odd" / "test.jsonl", rows)

    found = notes_on(tmp_path, "odd")

    assert "odd: 20 of 60 texts have labels the model does not know (Neg) and are left out." in found


def test_a_set_of_which_one_label_is_left_says_so(tmp_path):
    write_data(tmp_path, tasks=("sentiment",))
    rows = [{"text": f"film {number}", "label": "pos"} for number in range(60)]
    write_rows(tmp_path / "sentiment" / "good" / "test.jsonl", rows)

    assert notes_on(tmp_path, "good") == ["good: all its texts have the label pos, so they say little of a classifier."]


def test_entity_types_that_are_not_known_are_named(tmp_path):
    write_data(tmp_path, tasks=("ner",))
    rows = [{"tokens": ["Ada", "sailed", "HMS"], "tags": ["B-PER", "O", "B-SHIP"]}] * 60
    write_rows(tmp_path / "ner" / "sea" / "test.jsonl", rows)

    assert notes_on(tmp_path, "sea") == [
        "sea does not annotate LOC: such answers count as O.",
        "sea: entities of types the model does not know (SHIP) count as O.",
    ]
