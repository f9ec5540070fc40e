"""A faiss file made by an enemy, right checksum and all, is refused or harmless: faiss neither crashes nor hangs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("index_fuzz.py")
FACTORIES = [
    "IVF8,Flat",
    "IVF8,SQ8",
    "IVF8,PQ4x4",
    "IVF8,PQ4x4fsr",
    "PCA8,IVF8,PQ4x4fs",
    "IVF8_HNSW8,Flat",
    "HNSW8",
    "HNSW8_SQ8",
    "HNSW8_PQ4x4",
    "PQ4x4",
    "PQ4x4fs",
    "SQ8",
    "RR8,SQfp16",
    "L2norm,PCAR8,Flat",
]


def fuzz(n_times, factories):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(n_times), *factories],
        env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode} at {done.stderr[-1500:]}"
    return done.stdout.splitlines()


def test_mutated_index_files_are_refused_or_harmless():
    assert len(fuzz(60, FACTORIES)) == len(FACTORIES)


@pytest.mark.slow
def test_thousands_of_mutated_index_files_are_refused_or_harmless():
    assert len(fuzz(1000, FACTORIES)) == len(FACTORIES)
