"""The definition is part of the product, and says what the catalog and the manifest hold."""

import re
from pathlib import Path

import pytest

import whatif_jax
from whatif_jax import ManifestError, builtin_systems, load_system
from whatif_jax.suites import SCHEMA, available_suites, definition

ROOT = Path(__file__).parents[2]
PACKAGE = Path(whatif_jax.__file__).parent
SCORES = PACKAGE / "evaluation" / "scores.md"


@pytest.fixture(scope="module")
def text() -> str:
    return definition("whatif-v1")


def table(text: str, head: str) -> list[list[str]]:
    """Cells of the table whose first line begins with `head`."""
    lines = text[text.index(f"| {head}") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def test_every_suite_has_a_definition():
    for name in available_suites():
        assert definition(name).startswith(f"# The definition of {name}")
    with pytest.raises(ManifestError, match="^suite: 'whatif-v9'; expected one of whatif-v1"):
        definition("whatif-v9")


def test_sizes_of_the_systems(text):
    rows = {row[0]: row for row in table(text, "system | cached steps")}
    for name in builtin_systems():
        system = load_system(name)
        _, steps, seconds, targets, constant = rows[name]
        assert int(steps.replace(",", "")) == system.steps
        assert float(seconds.split()[0]) == system.step_seconds
        assert int(targets) == len(system.targets)
        assert constant == "".join(each.name for each in system.targets if each.constant)


def test_covariates_with_their_order_and_bases(text):
    for name in builtin_systems():
        section = text[text.index(f"### {name}") :].split("\n### ")[0]
        order = section[section.index("Covariates in order") :].replace("\n", " ")
        covariates = load_system(name).covariates
        places = []
        for covariate in covariates:
            known = covariate.name
            known = re.sub(r"^junction_\d+", "junction_<j>", known)
            known = re.sub(r"^pipe_\d+_(diameter|roughness)", "pipe_<p>_\\1", known)
            if known.endswith("_host-1"):  # "the same three of host-1"
                continue
            places.append(order.index(known))
            if name == "sumo":
                assert re.search(rf"\b{known} {covariate.base:g}\b", order), known
        assert places == sorted(places)
        bells = order[order.index("Bells") :].split(".")[0]
        for covariate in covariates:
            if name != "opendc":  # "both core speeds"
                assert (covariate.name in bells) == (covariate.shape == "bell"), covariate.name


def test_bases_and_thermal_covariates_of_gridlabd(text):
    section = text[text.index("### gridlabd") :].split("\n### ")[0].replace("\n", " ")
    bases = section[section.index("Bases [R]") : section.index("Bells")]
    for covariate in load_system("gridlabd").covariates:
        said = re.search(rf"\b{covariate.name}\b[a-z_ ]* ([\d.]+)", bases)
        assert (float(said[1]) if said else 1) == covariate.base, covariate.name
    thermal = text[text.index("Thermal covariates of gridlabd") :].split("\n\n")[0]
    for covariate in load_system("gridlabd").covariates:
        named = re.search(rf"\b{covariate.name}\b", thermal) is not None
        assert named == ("thermal" in covariate.groups), covariate.name


def test_weights_of_sumo_are_the_catalogs(text):
    system = load_system("sumo")
    added = system.target("meanTimeLoss_e2_e_0").secondaries
    multiplied = system.target("flow_loop_e_0_near").secondaries
    signs = {"direct": "+1", "inverse": "-1"}
    rows = {row[0]: row[1:] for row in table(text, "covariate | w_add")}
    assert list(rows) == [covariate.name for covariate in system.covariates]
    for column, others in ((0, added), (2, multiplied)):
        for other in others:
            weight, sign = rows[other.covariate][column : column + 2]
            assert float(weight) == pytest.approx(other.weight)
            assert sign == signs[other.direction]


def test_columns_of_the_manifest(text):
    names = [name for row in table(text, "column | type") for name in row[0].split(", ")]
    assert names == SCHEMA.names


def test_every_row_of_a_response_says_where_it_comes_from(text):
    for head in ("system: targets", "class | secondary"):
        for row in table(text, head):
            marked = re.search(r"\[[PR]", " ".join(row))
            assert marked or not row[0], row


def test_rules_outside_tables_say_where_they_come_from(text):
    for name in builtin_systems():
        section = text[text.index(f"### {name}") :].split("\n### ")[0].split("\n## ")[0]
        for head in ("Setting", "Targets", "Covariates in order", "Bells"):
            assert f"{head} [P]" in section, (name, head)
    whole = " ".join(text.split())
    for rule in ("never changes is out", "replaced by the last seen one", 'is "mean"'):
        assert f"{rule} [R]" in whole, rule


def test_an_added_effect_is_of_a_form_as_the_definition_says(text):
    rule = "o_c(f) = u (r_c(f) / r_c(1) - 1)"
    assert rule in text
    effect = load_system("opendc").target("cpu_utilization_host-0").secondaries[0]
    assert effect.response.ratio_formula == "f^exponent" and effect.offset_scale == "mean"
    assert effect.response.constants["exponent"] == -1  # u = M: M (1 / f - 1), as the table says
    assert "| M (1 / f - 1) |" in text


SOURCES = ("whatif_jax", "eval", "simulators", "training", "tests", "notebooks", ".ci")
TEXTS = (".py", ".md", ".toml", ".glm", ".js", ".ipynb", ".j2", "")


def test_references_point_into_the_repository(text):
    """Every `<file>.md §N` is a section that is there; and nothing outside is referred to."""
    files = [ROOT / "README.md", ROOT / "pyproject.toml", *PACKAGE.glob("catalog/*.parquet")]
    for folder in SOURCES:
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS]
    sections = re.findall(r"^## (\d)\.", text, re.M)
    assert sections == list("12345678")
    found = 0
    for path in files:
        if not path.is_file() or path == Path(__file__) or "__pycache__" in path.parts:
            continue
        content = path.read_bytes().decode("utf-8", "replace")
        assert not re.search(r"\bSPEC\b", content), path
        for numbers in re.findall(r"whatif-v1\.md §(\d)", content):
            assert numbers in sections, path
            found += 1
        if "scores.md" in content:
            assert SCORES.is_file()
    assert found > 50
