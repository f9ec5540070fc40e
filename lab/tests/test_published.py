"""The published numbers are those of the paper's tables, digit by digit."""

import re
from pathlib import Path

import pytest

from knn_ue_lab.reproduce.published import PUBLISHED, Published, parse_number

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "knn-ue-paper.tex.txt"

# Lines of the paper's LaTeX, copied whole.
LINES = {
    (
        "sentiment",
        "knn-ue",
    ): r"$k$NN-UE  & \textbf{0.95$\pm$0.12}\textsuperscript{†} & \textbf{9.02$\pm$1.39}\textsuperscript{†} & 98.64$\pm$0.12 & \textbf{7.97$\pm$0.61}\textsuperscript{†} & \textbf{1.45$\pm$0.15}\textsuperscript{†} & \textbf{4.17$\pm$1.52} & 98.23$\pm$0.39 & \textbf{9.92$\pm$0.61} \\ \hline",  # noqa: E501
    (
        "nli",
        "temperature",
    ): r"TS & 2.73$\pm$1.86 & 15.81$\pm$11.05& 97.06$\pm$0.02 & 31.24$\pm$1.86 & 3.92$\pm$1.79 & 18.13$\pm$10.69 & 96.08$\pm$0.13 & 38.40$\pm$2.06 \\",  # noqa: E501
    (
        "ner",
        "e-ner",
    ): r"E-NER & 7.98$\pm$0.42 & 61.87$\pm$27.06	& 19.44$\pm$1.81 & 17.42$\pm$0.88 & 40.46$\pm$5.33 & 74.32$\pm$4.47 & 25.42$\pm$2.09 & 59.16$\pm$10.33 & 72.00$\pm$6.57 \\ ",  # noqa: E501
    ("detection", "dac"): r"DAC & 84.98$\pm$4.19 & 64.65$\pm$6.18 & 70.69$\pm$3.59 & 54.81$\pm$7.29 \\ \hline",
    ("brier", "posterior"): r"PN & 10.31$\pm$0.28 & 11.16$\pm$0.22 & 20.76$\pm$0.32 & 21.11$\pm$0.42 \\",
    ("time", "mc-dropout"): r"MC Dropout & 157.52$\pm$0.51 & 39.81$\pm$0.39 \\",
    ("time-k", "knn-ue-k128"): r"$k$NN-UE ($K$=128) & 128.39$\pm$0.20 \\ \hline",
    ("toy", "B"): r"B & 16.83 & 121.57 \\ \hline",
}


def numbers_of(line: str) -> list[Published]:
    fields = line.split("\\\\")[0].split("&")[1:]
    plain = [re.sub(r"\\textbf|\\textsuperscript|[{}\s]", "", field).replace(r"$\pm$", "±") for field in fields]
    return [parse_number(field) for field in plain if field != "-"]


@pytest.mark.parametrize(("table", "row"), LINES)
def test_a_row_holds_the_numbers_of_its_line_in_the_paper(table, row):
    assert list(PUBLISHED[table].rows[row].values()) == numbers_of(LINES[table, row])


def test_the_name_of_all_three_indexes_combined_is_written_out():
    row = PUBLISHED["combined"].rows["knn-ue-PCA128+IVF100+PQ32x5-p32-approx"]

    assert row["nw", "mce"] == Published(24.03, 5.46)


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper is not at hand")
@pytest.mark.parametrize("name", PUBLISHED)
def test_every_number_of_a_table_stands_in_the_paper_under_its_label(name):
    table = PUBLISHED[name]
    text = PAPER.read_text(encoding="utf-8")
    end = text.index(f"\\label{{{table.label}}}")
    body = text[text.rindex("\\begin{tabular", 0, end) : text.rindex("\\end{tabular", 0, end)].replace(r"$\pm$", "±")
    body = body.replace("OntoNotes 5.0", "OntoNotes")
    printed = re.findall(r"(?<![\d.])\d+\.\d+(?:±\d+\.\d+)?", body)

    ours = [
        number.removesuffix("†").replace(" ± ", "±") for row in table.rows.values() for number in map(str, row.values())
    ]

    assert sorted(ours) == sorted(printed)
