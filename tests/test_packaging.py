"""What is installed, what it needs, and what it must leave alone."""

import ast
import functools
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import whatif_jax

PACKAGE = Path(whatif_jax.__file__).parent
ROOT = Path(__file__).parents[1]
# Programs built on the library. It imports none of them.
PROGRAMS = ("simulators", "training", "eval")
SYSTEMS = ("epanet", "gridlabd", "opendc", "sumo")
# Imported inside functions or under a check for them, by who asks for the extra of that name
OPTIONAL = {"grain", "matplotlib", "optax", "torch"}


def distribution_name(requirement: str) -> str:
    """`jax` of `jax>=0.7; extra == "dev"`."""
    return re.match(r"[\w.-]+", requirement).group().lower().replace("_", "-")


def checkout() -> Path:
    """The checkout, where the tests run in one."""
    if not (ROOT / "pyproject.toml").is_file() or not (ROOT / "whatif_jax").is_dir():
        pytest.skip("not in a checkout")
    return ROOT


def requirements() -> dict[str, list[str]]:
    """Declared requirements: the base ones under "", the others by extra."""
    found: dict[str, list[str]] = {"": []}
    for requirement in importlib.metadata.requires("whatif-jax") or []:
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)", requirement)
        found.setdefault(extra.group(1) if extra else "", []).append(requirement)
    return found


def imports(path: Path) -> list[tuple[str, int]]:
    """(top-level package, line) of every absolute import of a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name.partition(".")[0], node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append((node.module.partition(".")[0], node.lineno))
    return found


def run(code: str, folder: Path, **environment: str) -> str:
    """Run code in a fresh interpreter whose working folder is not the checkout."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGE.parent), **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


# ---- what the library imports ----


IMPORT_ALL = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            raise ModuleNotFoundError(f"refused: {{name}}", name=name)

sys.meta_path.insert(0, Refuse())
import whatif_jax
names = [module.name for module in pkgutil.walk_packages(whatif_jax.__path__, "whatif_jax.")]
for name in names:
    importlib.import_module(name)
for name in whatif_jax.__all__:
    getattr(whatif_jax, name)
print(len(names))
"""


def test_every_module_imports_without_programs_and_starts_no_backend(tmp_path):
    """JAX refuses to start on a platform of this name, so an import that starts it fails."""
    refused = (*PROGRAMS, "fev", "gluonts", "mlcroissant", "datasets", "grain", "wntr", "pandas",
               "matplotlib", "torch")  # fmt: skip
    code = IMPORT_ALL.format(refused=refused)
    assert int(run(code, tmp_path, JAX_PLATFORMS="none_such")) > 20


def test_the_command_line_says_its_version(tmp_path):
    code = "from whatif_jax.cli import main; import sys; sys.argv = ['', '--version']; main()"
    assert run(code, tmp_path).strip() == whatif_jax.__version__


def test_import_loads_nothing_heavy(tmp_path):
    code = "import sys, whatif_jax; whatif_jax.__version__; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in run(code, tmp_path).split()}
    assert "whatif_jax" in loaded
    assert not loaded & {"jax", "jaxlib", "numpy", "pyarrow", "equinox", "typer"}


def test_catalog_and_help_start_no_backend(tmp_path):
    code = "from whatif_jax.cli import main; import sys; sys.argv = ['whatif-jax', {!r}]; main()"
    for argument in ("describe", "--help"):
        assert run(code.format(argument), tmp_path, JAX_PLATFORMS="none_such")


def test_base_requirements_cover_the_imports():
    base = {distribution_name(requirement) for requirement in requirements()[""]}
    used = {
        name.lower().replace("_", "-")
        for path in PACKAGE.rglob("*.py")
        for name, _ in imports(path)
        if name not in sys.stdlib_module_names and name != "whatif_jax"
    }
    assert used - OPTIONAL <= base
    assert base <= used, "declared and not imported"


# ---- what is declared ----


def test_metadata():
    about = importlib.metadata.metadata("whatif-jax")
    assert about["Version"] == whatif_jax.__version__
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.11"
    extras = set(about.get_all("Provides-Extra"))
    assert {"simulators", "export", "grain", "plot", "dev"} <= extras
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="whatif-jax")
    assert command.value == "whatif_jax.cli:main"


def test_no_extra_but_its_own_asks_for_torch():
    groups = [found for extra, found in requirements().items() if extra != "torch"]
    names = [distribution_name(found) for group in groups for found in group]
    assert not [name for name in names if "torch" in name]


def test_installed_metadata_is_current():
    """An editable install keeps the requirements of the day it was made."""
    project = tomllib.loads((checkout() / "pyproject.toml").read_text("utf-8"))["project"]
    installed = sorted(map(distribution_name, requirements()[""]))
    assert installed == sorted(map(distribution_name, project["dependencies"])), "install again"


def test_dependencies_of_wntr_are_complete():
    """WNTR imports six without declaring it."""
    names = {distribution_name(requirement) for requirement in requirements()["simulators"]}
    assert {"wntr", "six", "gridlabd", "eclipse-sumo", "traci", "libsumo"} <= names


def test_no_registry_host_is_named():
    root = checkout()
    hosts = [".".join(parts) for parts in (
        ("pypi", "org"), ("files", "pythonhosted", "org"), ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
    )]  # fmt: skip
    kept = ("*.md", "*.toml", "NOTICE", "LICENSE", ".ci/*", "notebooks/*.ipynb", "tests/**/*.py")
    kept += tuple(f"{folder}/**/*" for folder in ("whatif_jax", *PROGRAMS))
    paths = {path for pattern in kept for path in root.glob(pattern) if path.is_file()}
    assert {root / "README.md", root / ".ci" / "run"} <= paths
    for path in paths:
        content = path.read_bytes()
        assert not [host for host in hosts if host.encode() in content], path


# ---- what is installed ----


@functools.cache
def built_wheel(root: Path, folder: Path) -> tuple[str, ...]:
    """Names of the files in a wheel of the checkout."""
    pytest.importorskip("hatchling")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(folder), str(root)],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = folder.glob("whatif_jax-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return tuple(archive.namelist())


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[str, ...]:
    """The files of the distribution: of a wheel built here, or as installed."""
    if (ROOT / "pyproject.toml").is_file() and (ROOT / "whatif_jax").is_dir():
        return built_wheel(ROOT, tmp_path_factory.mktemp("wheel"))
    return tuple(str(path) for path in importlib.metadata.files("whatif-jax"))


def test_only_the_package_is_installed(files):
    tops = {name.partition("/")[0] for name in files if not name.startswith("..")}
    about = {top for top in tops if re.fullmatch(r"whatif_jax-[\w.]+\.dist-info", top)}
    assert len(about) == 1
    assert tops - about == {"whatif_jax"}
    assert not [name for name in files if "/tests/" in name or name.endswith(".ipynb")]


def test_data_is_installed(files):
    assert "whatif_jax/py.typed" in files
    for name in SYSTEMS:
        assert f"whatif_jax/catalog/{name}.toml" in files
        assert f"whatif_jax/catalog/{name}.parquet" in files
        assert f"whatif_jax/tasks/randomised/series/{name}.parquet" in files
    assert "whatif_jax/suites/whatif-v1.parquet" in files
    assert "whatif_jax/suites/whatif-v1.toml" in files


def test_every_source_is_installed(files):
    for path in PACKAGE.rglob("*.py"):
        assert f"whatif_jax/{path.relative_to(PACKAGE).as_posix()}" in files


def test_licence_and_notice_are_installed(files):
    for name in ("LICENSE", "NOTICE"):
        assert [found for found in files if found.endswith(f".dist-info/licenses/{name}")]


def test_notice_names_every_system():
    text = (checkout() / "NOTICE").read_text("utf-8")
    for name in SYSTEMS:
        assert f"({name}.parquet)" in text
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
