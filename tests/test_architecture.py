"""Who may import whom: the table of the design, read from the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "knn_ue"

GROUND = {"answers", "types", "tasks", "iob2", "errors", "arrays", "storage", "hub_access"}
MATHS = {"weighting", "metrics", "stores", "toy", "data"}
ENTITIES = {"entities"}
FAMILIARITY = {"familiarity"}
ADAPTING = {"adapting"}
FLOWS = {"flows"}
HEADS = {"heads"}
METHODS = {"calibrators"}
MODELS = {"encoding", "training"}
EVALUATION = {"evaluation"}  # numbers; words and pictures come after it
PLOTS = {"plots"}
REPORT = {"report"}
JOINS = {"methods", "demo", "pipeline", "tuning", "decisions"}
SERVING = {"serving"}
CLI = {"cli"}
SKLEARN = {"sklearn"}

BELOW_EDGES = (
    GROUND
    | MATHS
    | ENTITIES
    | FAMILIARITY
    | ADAPTING
    | FLOWS
    | HEADS
    | METHODS
    | MODELS
    | EVALUATION
    | PLOTS
    | REPORT
    | JOINS
)
LIGHT = {"numpy", "safetensors"}

# stages: (what they may import of ours, what they may load of others when imported)
RULES = [
    (GROUND, GROUND, LIGHT),
    (MATHS, GROUND, LIGHT),
    (ENTITIES, GROUND | {"metrics", "weighting"}, LIGHT),
    (FAMILIARITY, GROUND | ENTITIES, LIGHT),
    (ADAPTING, GROUND | {"metrics"}, LIGHT),
    (FLOWS, GROUND, LIGHT | {"torch"}),
    (HEADS, GROUND | FLOWS, LIGHT | {"torch"}),
    (METHODS, GROUND | {"weighting", "stores"} | ENTITIES | ADAPTING | FLOWS, LIGHT),
    (MODELS, GROUND | {"encoding"} | HEADS, LIGHT | {"torch", "transformers"}),
    (EVALUATION, GROUND | {"metrics"} | ENTITIES | METHODS, LIGHT),
    (PLOTS, GROUND | {"metrics", "tuning"}, LIGHT),
    (REPORT, GROUND | {"metrics", "weighting"} | METHODS | EVALUATION | PLOTS, LIGHT),
    (JOINS, BELOW_EDGES, LIGHT),
    (
        SERVING,
        BELOW_EDGES,
        LIGHT | {"fastapi", "starlette", "pydantic", "pydantic_core", "uvicorn", "prometheus_client"},
    ),
    (SKLEARN, BELOW_EDGES, LIGHT | {"scipy", "sklearn"}),
    (CLI, BELOW_EDGES | SERVING, LIGHT | {"typer", "rich"}),
    ({"__init__"}, BELOW_EDGES - MODELS - FLOWS - HEADS, LIGHT),
]
ALLOWED = {stage: ours for stages, ours, _ in RULES for stage in stages}
OUTSIDE_AT_IMPORT = {stage: others for stages, _, others in RULES for stage in stages}
FILES = sorted(SOURCE.rglob("*.py"))


def stage_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_modules(path: Path, *, only_at_import: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.iter_child_nodes(tree) if only_at_import else ast.walk(tree)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            ours = node.module == "knn_ue"  # from knn_ue import metrics names a stage, not a function
            found |= {f"knn_ue.{alias.name}" for alias in node.names} if ours else {node.module}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_each_file_imports_only_what_its_layer_allows(path):
    stage = stage_of(path)

    imported = {name.split(".")[1] for name in imported_modules(path) if name.startswith("knn_ue.")}

    assert imported - {stage} <= ALLOWED[stage]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_each_file_loads_only_light_libraries_when_imported(path):
    roots = {name.split(".")[0] for name in imported_modules(path, only_at_import=True)}

    assert roots - {"knn_ue"} - set(sys.stdlib_module_names) <= OUTSIDE_AT_IMPORT[stage_of(path)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_library_never_imports_the_reproduction_of_the_paper(path):
    assert not [name for name in imported_modules(path) if name.split(".")[0] == "knn_ue_reproduce"]


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


def classes_in(package: str) -> list[ast.ClassDef]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((SOURCE / package).glob("*.py"))]
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
    "encoding": classes_with("encoding", "encode"),
}


def classes_asked_for(path: Path) -> set[str]:
    """Return the names that a file tests objects against: isinstance, issubclass, `type(x) is`, and match."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_behavior_is_asked_of_a_contract_never_of_a_class(path):
    elsewhere = [names for package, names in CONCRETE.items() if package != stage_of(path)]

    assert not classes_asked_for(path) & set().union(*elsewhere)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_source_file_is_longer_than_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
