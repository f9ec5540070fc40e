"""Which sets a folder offers, and how people choose among them."""

import pytest

from knn_ue.errors import InvalidInputError
from knn_ue_lab.reproduce.setups import Choice, folder_setups, paper_setups, vader_setups
from tiny_data import write_rows

ROW = [{"text": "fine", "label": "pos"}]


def make(folder, *files):
    for file in files:
        write_rows(folder / file, ROW)
    return folder


def test_the_only_complete_set_is_in_domain_and_all_others_with_a_test_split_are_out(tmp_path):
    make(tmp_path, *(f"sentiment/home/{split}.jsonl" for split in ("train", "val", "test")))
    make(tmp_path, "sentiment/away/test.jsonl", "sentiment/far/test_r1.jsonl", "sentiment/far/dev.jsonl")

    (setup,) = folder_setups(tmp_path)

    assert setup.train.endswith("home/train.jsonl")
    assert [(one.name, one.role) for one in setup.sets] == [("home", "in"), ("away", "out"), ("far test_r1", "out")]


def test_two_complete_sets_ask_which_one_to_train_on(tmp_path):
    for name in ("a", "b"):
        make(tmp_path, *(f"nli/{name}/{split}.jsonl" for split in ("train", "validation", "test")))

    with pytest.raises(InvalidInputError, match=r"2 sets with train, val and test \(a, b\).*--in-domain nli=NAME"):
        folder_setups(tmp_path)

    (setup,) = folder_setups(tmp_path, Choice.parse(["nli=b"], []))
    assert setup.sets[0].name == "b"
    assert setup.validation.endswith("b/validation.jsonl")


def test_a_task_without_a_validation_split_is_told_and_costs_no_other_task(tmp_path):
    make(tmp_path, "nli/half/train.jsonl", "nli/half/test.jsonl")
    rule = r"no set with train, val .* and test \(half lacks val\): add the split that is missing"
    with pytest.raises(InvalidInputError, match=rule):
        folder_setups(tmp_path)

    make(tmp_path, *(f"sentiment/home/{split}.jsonl" for split in ("train", "val", "test")))
    said = []
    assert [setup.name for setup in folder_setups(tmp_path, say=said.append)] == ["sentiment"]
    assert len(said) == 1
    assert said[0].startswith(f"left out: {tmp_path / 'nli'} has no set with train")
    with pytest.raises(InvalidInputError, match="has no file val"):
        folder_setups(tmp_path, Choice.parse(["nli=half"], []))


def test_a_set_we_know_is_in_domain_only_if_it_can_be_trained_on(tmp_path):
    make(tmp_path, "sentiment/imdb/test.jsonl")
    make(tmp_path, *(f"sentiment/home/{split}.jsonl" for split in ("train", "val", "test")))

    (setup,) = folder_setups(tmp_path)

    assert [(one.name, one.stands_for) for one in setup.sets] == [("home", "IMDb"), ("imdb", "Yelp")]
    assert setup.differs == "home for IMDb, imdb for Yelp"


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        (["train/test.jsonl"], "'train' is what other rows are called: rename the folder"),
        (["far/test_x.jsonl", "far test_x/test.jsonl"], "'far test_x' is the name of two test sets"),
    ],
)
def test_names_that_would_be_mixed_up_are_refused(tmp_path, files, rule):
    make(tmp_path, *(f"ner/home/{split}.jsonl" for split in ("train", "val", "test")))
    make(tmp_path, *(f"ner/{file}" for file in files))

    with pytest.raises(InvalidInputError, match=rule):
        folder_setups(tmp_path)


def test_only_files_of_rows_are_splits_and_each_split_has_one(tmp_path):
    make(tmp_path, *(f"ner/home/{split}.jsonl" for split in ("train", "val", "test")))
    make(tmp_path, "ner/home/test.README.md", "ner/other/test.pdf", "ner/home/.DS_Store")

    (setup,) = folder_setups(tmp_path)
    assert [one.sources for one in setup.sets] == [(str(tmp_path / "ner/home/test.jsonl"),)]

    make(tmp_path, "ner/home/test.conll")
    with pytest.raises(InvalidInputError, match=r"more than one file of the split test, test.conll and test.jsonl"):
        folder_setups(tmp_path)


def test_parquet_files_are_splits_too(tmp_path):
    make(tmp_path, *(f"sentiment/home/{split}.parquet" for split in ("train", "validation", "test")))

    (setup,) = folder_setups(tmp_path)

    assert setup.validation == str(tmp_path / "sentiment/home/validation.parquet")


def test_chosen_sets_are_the_only_ones_out_of_domain(tmp_path):
    make(tmp_path, *(f"ner/home/{split}.jsonl" for split in ("train", "val", "test")))
    make(tmp_path, "ner/x/test.jsonl", "ner/y/test.jsonl")

    (setup,) = folder_setups(tmp_path, Choice.parse([], ["ner=y"]))

    assert [one.name for one in setup.sets] == ["home", "y"]


def test_new_sets_beside_those_we_know_are_out_of_domain_too(tmp_path):
    make(tmp_path, *(f"sentiment/imdb/{split}.jsonl" for split in ("train", "val", "test")))
    make(tmp_path, "sentiment/dynasent-yelp/test.jsonl", "sentiment/new/test.jsonl", "sentiment/raw/notes.jsonl")

    (setup,) = folder_setups(tmp_path)

    assert [(one.name, one.stands_for) for one in setup.sets] == [
        ("imdb", "IMDb"),
        ("dynasent-yelp", "Yelp"),
        ("new", None),
    ]
    assert setup.differs == "a sample of IMDb, dynasent-yelp for Yelp"


def test_other_test_splits_of_sets_we_know_are_out_of_domain_too(tmp_path):
    make(tmp_path, *(f"nli/mnli/{split}.jsonl" for split in ("train", "val", "test", "test_hard")))
    make(tmp_path, "nli/anli/test_r1.jsonl", "nli/snli/test.jsonl", "nli/snli/test_long.jsonl")

    (setup,) = folder_setups(tmp_path)

    assert [(one.name, one.role) for one in setup.sets] == [
        ("mnli", "in"),
        ("snli", "out"),
        ("anli test_r1", "out"),
        ("mnli test_hard", "out"),
        ("snli test_long", "out"),
    ]


def test_sets_we_know_are_scored_once_and_without_the_split_that_the_pages_leave_out(tmp_path):
    make(tmp_path, *(f"sentiment/imdb/{split}.jsonl" for split in ("train", "val", "test")))
    make(
        tmp_path,
        *(
            f"sentiment/{name}/{split}.jsonl"
            for name in ("dynasent-yelp", "dynasent-r2")
            for split in ("test", "test_neutral")
        ),
    )

    (setup,) = folder_setups(tmp_path)

    assert [one.name for one in setup.sets] == ["imdb", "dynasent-yelp", "dynasent-r2", "dynasent-yelp neutral"]


def test_the_set_to_train_on_when_it_is_named_is_not_scored_otherwise(tmp_path):
    for name in ("wikineural", "btc"):
        make(tmp_path, *(f"ner/{name}/{split}.jsonl" for split in ("train", "val", "test")))

    assert [one.name for one in folder_setups(tmp_path)[0].sets] == ["wikineural"]
    chosen = folder_setups(tmp_path, Choice.parse(["ner=btc"], []))[0]
    assert [one.name for one in chosen.sets] == ["btc", "wikineural"]


@pytest.mark.parametrize("names", ["a,,b", "a,a", "home,a"])
def test_sets_out_of_domain_are_different_ones(names):
    with pytest.raises(InvalidInputError, match="must name different sets"):
        Choice.parse(["ner=home"], [f"ner={names}"])


def test_the_set_to_train_on_cannot_be_out_of_domain_even_where_nobody_named_it(tmp_path):
    make(tmp_path, *(f"ner/home/{split}.jsonl" for split in ("train", "val", "test")))

    with pytest.raises(InvalidInputError, match="ner=home is in domain, and out of domain too"):
        folder_setups(tmp_path, Choice.parse([], ["ner=home"]))


def test_a_set_that_is_not_there_is_told_with_those_that_are(tmp_path):
    make(tmp_path, *(f"ner/home/{split}.jsonl" for split in ("train", "val", "test")))

    with pytest.raises(InvalidInputError, match="ner has no set 'moon': it has home"):
        folder_setups(tmp_path, Choice.parse([], ["ner=moon"]))


def test_sets_take_the_place_of_the_papers_in_order_and_say_so(tmp_path):
    make(tmp_path, *(f"sentiment/home/{split}.jsonl" for split in ("train", "val", "test")))
    make(tmp_path, "sentiment/away/test.jsonl", "sentiment/far/test.jsonl")

    (setup,) = folder_setups(tmp_path)

    assert [one.stands_for for one in setup.sets] == ["IMDb", "Yelp", None]
    assert setup.differs == "home for IMDb, away for Yelp"


def test_a_set_of_the_paper_in_the_place_of_another_one_is_no_sample_of_that(tmp_path):
    make(tmp_path, *(f"nli/snli/{split}.jsonl" for split in ("train", "val", "test")), "nli/mnli/test.jsonl")

    (setup,) = folder_setups(tmp_path, Choice.parse(["nli=snli"], []))

    assert setup.differs == "snli for MNLI, mnli for SNLI"


@pytest.mark.parametrize("given", ["imdb", "music=a", "ner="])
def test_a_choice_names_a_task_and_a_set(given):
    with pytest.raises(InvalidInputError, match="--in-domain takes TASK=NAME"):
        Choice.parse([given], [])


def test_a_task_without_a_folder_is_told(tmp_path):
    make(tmp_path, "sentiment/home/test.jsonl")

    with pytest.raises(InvalidInputError, match="has no task 'ner': it has sentiment"):
        folder_setups(tmp_path, Choice.parse(["ner=x"], []))


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "Sentiment").mkdir()

    with pytest.raises(InvalidInputError, match="holds none of sentiment, nli, ner, intent: it has Sentiment; lay it"):
        folder_setups(tmp_path)

    with pytest.raises(InvalidInputError, match="does not exist"):
        folder_setups(tmp_path / "nowhere")


def test_a_set_without_a_training_split_is_told(tmp_path):
    make(tmp_path, "intent/home/test.jsonl")

    with pytest.raises(InvalidInputError, match="has no file train"):
        folder_setups(tmp_path, Choice.parse(["intent=home"], []))

    make(tmp_path, "intent/other/train.jsonl", "intent/other/val.jsonl", "intent/other/test_hard.jsonl")
    with pytest.raises(InvalidInputError, match="has no file test"):
        folder_setups(tmp_path, Choice.parse(["intent=other"], []))


def test_without_a_folder_there_is_vader_and_at_the_papers_scale_the_papers_sets(tmp_path):
    assert [one.name for one in vader_setups()[0].sets] == ["movies", "amazon", "nyt", "tweets"]
    assert [setup.name for setup in paper_setups(None)] == ["sentiment", "nli"]

    ner = paper_setups(tmp_path)[2]
    assert [one.stands_for for one in ner.sets] == ["bn", "nw", "tc"]
    assert ner.train == f"paper:ontonotes-bn:train?path={tmp_path}/bn/train.conll"
