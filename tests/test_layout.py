"""The house holds: rooms need only those before them, no circles, no reach into private names."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import whatif_jax

PACKAGE = Path(whatif_jax.__file__).parent
ROOT = PACKAGE.parent
ROOMS = ("catalog", "tasks", "tscm", "suites", "evaluation", "comparison", "export")
SHARED = ("_float32", "_types", "_xla", "files")
PROGRAMS = ("simulators", "training", "eval")


def modules(package: Path) -> dict[str, Path]:
    """Dotted names of a package's modules, and their files."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """(module, name in it or "") of every import of a module, those inside functions included."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            source = ".".join([*base, node.module or ""]).strip(".") if node.level else node.module
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield (inner, "") if inner in known else (source, alias.name)


def packages() -> dict[str, Path]:
    """The library, and the programs that lie beside it in a checkout."""
    found = {"whatif_jax": PACKAGE}
    for program in PROGRAMS:
        if (ROOT / program / "__init__.py").is_file():
            found[program] = ROOT / program
    return found


def test_a_room_needs_only_those_before_it():
    known = modules(PACKAGE)
    rooms = {name.split(".")[1] for name in known if name.count(".") > 1}
    assert rooms == set(ROOMS), "the rooms of the library"
    for name, path in known.items():
        room = name.split(".")[1] if "." in name else ""
        if room not in (*ROOMS, *SHARED):
            continue
        allowed = (*SHARED, *ROOMS[: ROOMS.index(room) + 1]) if room in ROOMS else SHARED
        for source, inner in imports(name, path, known):
            if source == "whatif_jax":
                assert inner == "__version__", f"{name} imports {inner} of the whole library"
            elif source.startswith("whatif_jax."):
                assert source.split(".")[1] in allowed, f"{name} imports {source}"


def test_the_library_imports_no_program():
    known = modules(PACKAGE)
    assert len(known) > 40
    for name, path in known.items():
        for source, _ in imports(name, path, known):
            assert source.split(".")[0] not in PROGRAMS, f"{name} imports {source}"


@pytest.mark.parametrize("package", packages())
def test_no_module_needs_itself(package):
    """No circle of imports, not even inside functions or for type checkers alone."""
    known = modules(packages()[package])
    graph = {
        name: {
            source
            for source, _ in imports(name, path, known)
            # a package's own front imports its modules; they never import the front
            if source in known and source != name
        }
        for name, path in known.items()
    }
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, which names it


@pytest.mark.parametrize("package", packages())
def test_no_reach_into_private_names_of_another_module(package):
    of_tuples = {"_replace", "_asdict", "_fields", "_make"}
    for name, path in modules(packages()[package]).items():
        tree = ast.parse(path.read_text("utf-8"))
        own = {
            node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
        }
        for node in ast.walk(tree):
            reached = []
            if isinstance(node, ast.ImportFrom):
                reached = [alias.name for alias in node.names]
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
                reached = [node.attr]
            for private in reached:
                if private.startswith("_") and not private.startswith("__"):
                    allowed = own | of_tuples | set(SHARED)
                    assert private in allowed, f"{name}:{node.lineno} reaches {private}"


def test_one_import_style():
    """Inside a package imports are relative; between packages they are absolute."""
    for package, folder in packages().items():
        for name, path in modules(folder).items():
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and not node.level:
                    top = node.module.partition(".")[0]
                    assert top != package, f"{name}:{node.lineno} imports {node.module}"


def test_modules_are_short():
    for folder in packages().values():
        for name, path in modules(folder).items():
            assert len(path.read_text("utf-8").splitlines()) <= 400, name
