"""Who may import whom: the table of CONTRIBUTING.md, held against the source."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "knn_ue"

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
LIGHT = {"numpy", "safetensors", "annotated_types"}
LAYERS = ("ground", "maths", "parts", "joins", "edges")


def named(cell: str) -> list[str]:
    return [name.removesuffix("/") for name in re.findall(r"`([a-z_0-9]+/?)`", cell)]


def rows_of_the_map() -> Iterator[tuple[str, str, str, str]]:
    """Yield layer, stage, what it may import and what it loads, as the table of CONTRIBUTING.md has them."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0] in LAYERS:
            (stage,) = named(cells[1])
            yield cells[0], stage, cells[3], cells[4]


MAP = list(rows_of_the_map())
IN_LAYER = {layer: {stage for other, stage, _, _ in MAP if other == layer} for layer in LAYERS}


def stages_in(cell: str) -> set[str]:
    layers = [IN_LAYER[word] for word in LAYERS if re.search(rf"(?<!`)\b{word}\b", cell)]
    return set(named(cell)).union(*layers)


ALLOWED = {stage: stages_in(imports) for _, stage, imports, _ in MAP}
OUTSIDE_AT_IMPORT = {stage: LIGHT | set(re.findall(r"\w+", loads)) for _, stage, _, loads in MAP}
# What the package offers at its top must not load a model library.
ALLOWED["__init__"] = set().union(*IN_LAYER.values()) - IN_LAYER["edges"] - {"encoding", "training"}
OUTSIDE_AT_IMPORT["__init__"] = LIGHT
FILES = sorted(SOURCE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


def stage_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_modules(path: Path, *, only_at_import: bool = False) -> set[str]:
    nodes = ast.iter_child_nodes(tree_of(path)) if only_at_import else nodes_of(path)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            ours = node.module == "knn_ue"  # from knn_ue import metrics names a stage, not a function
            found |= {f"knn_ue.{alias.name}" for alias in node.names} if ours else {node.module}
    return found


# One test a rule, not one a file: two thousand tests that take no time are slow to count and to hand out.
def offenders(broken: Callable[[Path], Collection[str]]) -> dict[str, list[str]]:
    """Return the files that break a rule, each with what breaks it."""
    return {str(path.relative_to(SOURCE)): sorted(found) for path in FILES if (found := broken(path))}


def test_each_file_imports_only_what_its_layer_allows():
    def too_far(path: Path) -> set[str]:
        stage = stage_of(path)
        imported = {name.split(".")[1] for name in imported_modules(path) if name.startswith("knn_ue.")}
        return imported - {stage} - ALLOWED[stage]

    assert offenders(too_far) == {}


def test_each_file_loads_only_light_libraries_when_imported():
    def heavy(path: Path) -> set[str]:
        roots = {name.split(".")[0] for name in imported_modules(path, only_at_import=True)}
        return roots - {"knn_ue"} - set(sys.stdlib_module_names) - OUTSIDE_AT_IMPORT[stage_of(path)]

    assert offenders(heavy) == {}


def test_the_library_never_imports_the_lab():
    def lab(path: Path) -> list[str]:
        return [name for name in imported_modules(path) if name.split(".")[0] == "knn_ue_lab"]

    assert offenders(lab) == {}


def test_the_map_has_a_row_for_each_stage_and_no_other():
    stages = [stage for _, stage, _, _ in MAP]

    assert sorted(stages) == sorted({stage_of(path) for path in FILES} - {"__init__"})


def test_layers_are_imported_downwards_only():
    rank = {stage: LAYERS.index(layer) for layer, stage, _, _ in MAP}

    assert not [
        (one, other) for one, allowed in ALLOWED.items() if one in rank for other in allowed if rank[other] > rank[one]
    ]


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md))`", PAGE.read_text(encoding="utf-8"))))
)
def test_each_file_that_the_page_names_exists(name):
    root = PAGE.parent

    assert (SOURCE / name).is_file() or (root / name).is_file()


FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
NAMED = re.findall(r"`([a-z_/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("file", "names"), NAMED)
def test_each_function_that_the_page_names_is_in_its_file(file, names):
    defined = {node.name for node in nodes_of(SOURCE / file) if isinstance(node, FUNCTION)}

    assert set(re.findall(r"\w+", names)) <= defined


def test_stages_do_not_import_each_other_in_a_circle():
    graph: dict[str, set[str]] = {}
    for path in FILES:
        names = {name.split(".")[1] for name in imported_modules(path) if name.startswith("knn_ue.")}
        graph.setdefault(stage_of(path), set()).update(names - {stage_of(path)})

    remaining = dict(graph)
    while free := [stage for stage, needs in remaining.items() if not needs & remaining.keys()]:
        for stage in free:
            del remaining[stage]

    assert not remaining


def test_importing_the_library_loads_nothing_heavy():
    heavy = ("torch", "transformers", "faiss", "matplotlib", "scipy", "sklearn", "typer", "rich")
    code = f"import sys, knn_ue, knn_ue.calibrators; print([name for name in {heavy} if name in sys.modules])"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert shown.strip() == "[]"


@cache
def classes_in(package: str) -> list[ast.ClassDef]:
    trees = [tree_of(path) for path in sorted((SOURCE / package).glob("*.py"))]
    return [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]


def bases_of(node: ast.ClassDef) -> set[str]:
    return {base.id for base in node.bases if isinstance(base, ast.Name)}


def heirs_of(package: str, root: str) -> set[str]:
    """Return the classes of a package that inherit from `root`, near or far."""
    found = {root}
    for _ in classes_in(package):
        found |= {node.name for node in classes_in(package) if bases_of(node) & found}
    return found - {root}


def classes_with(package: str, *methods: str) -> set[str]:
    """Return the classes of a package that have these methods and are no contract."""
    return {
        node.name
        for node in classes_in(package)
        if "Protocol" not in bases_of(node)
        and set(methods) <= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    }


CONCRETE = {
    "calibrators": heirs_of("calibrators", "Calibrator"),
    "stores": classes_with("stores", "search", "texts_of"),
    "encoding": classes_with("encoding", "to_part", "from_part"),
}


def classes_asked_for(path: Path) -> set[str]:
    """Return the names that a file tests objects against: isinstance, issubclass, `type(x) is`, and match."""
    found: set[str] = set()
    for node in nodes_of(path):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            asked = list(node.args[1:]) if node.func.id in ("isinstance", "issubclass") else []
        elif isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            asked = list(node.comparators)
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        for part in (part for one in asked for part in ast.walk(one)):
            found |= {part.id} if isinstance(part, ast.Name) else set()
            found |= {part.attr} if isinstance(part, ast.Attribute) else set()
    return found


def test_the_rule_of_contracts_knows_the_classes_it_is_about():
    assert {"KnnUE", "KnnUEEntity", "DensityAwareCalibration", "LogitScaling"} <= CONCRETE["calibrators"]
    assert "Datastore" in CONCRETE["stores"] and "HuggingFaceEncoder" in CONCRETE["encoding"]


def test_behavior_is_asked_of_a_contract_never_of_a_class():
    def concrete(path: Path) -> set[str]:
        elsewhere = [names for package, names in CONCRETE.items() if package != stage_of(path)]
        return classes_asked_for(path) & set().union(*elsewhere)

    assert offenders(concrete) == {}


def strings_compared(path: Path) -> set[str]:
    nodes = [node for node in nodes_of(path) if isinstance(node, ast.Compare)]
    parts = [part for node in nodes for side in (node.left, *node.comparators) for part in ast.walk(side)]
    return {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def test_nothing_is_decided_by_the_name_of_a_method_or_task():
    from knn_ue.methods import METHODS
    from knn_ue.tasks import TASKS

    assert offenders(lambda path: strings_compared(path) & {*METHODS, *TASKS}) == {}


@cache
def attributes_of(package: str) -> set[str]:
    """Return the names that the classes of a package set on themselves."""
    nodes = [part for node in classes_in(package) for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    return {part.attr for part in nodes if isinstance(part.ctx, ast.Store) and getattr(part.value, "id", "") == "self"}


def attributes_guessed(path: Path) -> set[str]:
    """Return the constant names that getattr and hasattr look for in anything but `self`."""
    nodes = [node for node in nodes_of(path) if isinstance(node, ast.Call)]
    guesses = [
        node.args for node in nodes if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")
    ]
    return {
        asked.value
        for thing, asked, *_ in guesses
        if isinstance(asked, ast.Constant) and getattr(thing, "id", "") != "self"
    }


def test_options_of_one_class_are_not_guessed_from_outside():
    def guessed(path: Path) -> set[str]:
        elsewhere = [attributes_of(package) for package in ("calibrators", "stores") if package != stage_of(path)]
        return attributes_guessed(path) & set().union(*elsewhere)

    assert offenders(guessed) == {}


def test_no_source_file_is_longer_than_450_lines():
    assert offenders(lambda path: path.read_text(encoding="utf-8").splitlines()[450:]) == {}
