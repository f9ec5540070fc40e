"""The tiny models of the tests: the same in every process, so that a seed decides what they learn."""

import subprocess
import sys
from pathlib import Path

import pytest

from marks import slow_but
from tiny_models import FAMILIES

pytest.importorskip("tokenizers")

SAVE = "import sys, pathlib, tiny_models; tiny_models.save_tokenizer(pathlib.Path(sys.argv[1]), sys.argv[2])"


@pytest.mark.parametrize("family", slow_but("roberta", FAMILIES))
def test_the_tokenizer_is_the_same_in_every_process(tmp_path, family):
    folders = [tmp_path / "one", tmp_path / "two"]

    for folder in folders:
        subprocess.run([sys.executable, "-c", SAVE, folder, family], cwd=Path(__file__).parent, check=True)

    one, two = ((folder / "tokenizer.json").read_bytes() for folder in folders)
    assert one == two
