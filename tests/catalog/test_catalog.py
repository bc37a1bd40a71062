"""The built-in catalog: sizes, provenance and what `describe` prints.

Its constants are compared with the oracle's in tests/tasks/test_every_response.py.
"""

import math
import pickle
import re
import subprocess
import sys
import tomllib

import pytest

from whatif_jax.catalog import builtin_systems, describe, load_system
from whatif_jax.catalog.forms import FORMS

COUNTS = {"opendc": (22, 6), "gridlabd": (11, 21), "epanet": (37, 36), "sumo": (30, 16)}
STEPS = {"opendc": (8640, 300), "gridlabd": (9000, 60), "epanet": (9000, 600), "sumo": (8640, 300)}
LAST_CONTEXT = {
    "opendc": (7328, 864),
    "gridlabd": (8192, 512),
    "epanet": (8192, 512),
    "sumo": (7776, 864),
}
SYSTEMS = list(COUNTS)


def test_order_of_systems():
    assert builtin_systems() == ("opendc", "gridlabd", "epanet", "sumo")


@pytest.mark.parametrize("name", SYSTEMS)
def test_counts_sizes_and_axes(name):
    found = load_system(name)
    assert (len(found.targets), len(found.covariates)) == COUNTS[name]
    assert (found.steps, found.step_seconds) == STEPS[name]
    assert found.requires_flow is (name == "epanet")
    assert found.baseline.name == f"{name}.parquet"
    assert found.baseline.parent == found.source.parent
    axes = found.axes
    assert axes.k == (1, 2, 3, 4, 5)
    assert axes.event_lengths == (32, 64, 128, 256, 512)
    assert (axes.gap, axes.prefix, axes.end_buffer) == (32, 0.40, 0.02)
    sizes = [(pair.name, pair.context, pair.horizon) for pair in axes.contexts]
    assert sizes == [
        ("C1", 1024, 128),
        ("C2", 2048, 256),
        ("C3", 4096, 384),
        ("C4", *LAST_CONTEXT[name]),
    ]
    assert [pair.fewest_events for pair in axes.contexts] == [1, 1, 1, 2]
    assert [pair.most_events_longest for pair in axes.contexts] == [2, 2, 4, 8]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_covariate_acts_on_every_target(name):
    found = load_system(name)
    order = [covariate.name for covariate in found.covariates]
    for target in found.targets:
        others = [other for other in order if other != target.primary.covariate]
        assert [other.covariate for other in target.secondaries] == others
        for k in (1, 3, 5):
            assert target.covariates[:k] == (target.primary.covariate, *others[: k - 1])


def test_marked_targets():
    found = [target for name in SYSTEMS for target in load_system(name).targets]
    assert [t.name for t in found if t.constant] == ["is_COOL_on", "flow_loop_e_1_far"]
    partial = {"demand_9", "flowrate_10", "flowrate_9", "velocity_10"}
    assert {target.name for target in found if target.partial} == partial
    assert len(found) == len({target.name for target in found}) == 100


# Provenance and form of the files


def effects(found):
    for target in found.targets:
        yield target.name, target.primary, {"covariate", "direction"}
        for other in target.secondaries:
            own = {"weight", "direction"}
            own |= {"offset_scale"} if target.class_.combine == "add" else set()
            own |= {"acts"} if other.acts != "always" else set()
            yield f"{target.name}/{other.covariate}", other, own


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_constant_has_its_provenance(name):
    found = load_system(name)
    assert set(found.legend) == {"P", "R"}
    letters = [setting.provenance["text"] for setting in found.settings]
    letters += [*found.provenance.values(), *found.pools.provenance.values()]
    for covariate in found.covariates:
        assert {"base", "shape"} <= set(covariate.provenance)
        letters += covariate.provenance.values()
    for class_ in found.classes:
        assert {"combine", "damping", "floor"} <= set(class_.provenance)
        assert class_.clip is None or "clip" in class_.provenance
        assert (class_.damping, class_.floor) == (0.5, 0.05)
        letters += class_.provenance.values()
    for label, effect, own in effects(found):
        constants = effect.response.constants
        assert set(effect.provenance) == {*own, "form", *constants}, label
        assert set(constants) == set(FORMS[effect.response.form].model_fields)
        assert all(math.isfinite(value) for value in constants.values())
        letters += effect.provenance.values()
    axes = found.axes
    assert set(axes.provenance) == {"k", "event_lengths", "gap", "prefix", "end_buffer"}
    letters += axes.provenance.values()
    for pair in axes.contexts:
        assert len(pair.provenance) == 4
        letters += pair.provenance.values()
    for target in found.targets:
        assert set(target.provenance) == {"pool", "up_only"}
        letters += target.provenance.values()
    assert set(letters) == {"P", "R"}


def test_provenance_where_one_response_mixes_both():
    draw = load_system("opendc").target("power_draw_host-0").primary.provenance
    assert (draw["pivot"], draw["slope"], draw["form"]) == ("P", "R", "R")
    pressure = load_system("epanet").target("pressure_10").primary.provenance
    assert {name: pressure[name] for name in ("form", "scale", "exponent", "slope")} == {
        "form": "R", "scale": "P", "exponent": "R", "slope": "P",
    }  # fmt: skip
    velocity = load_system("epanet").target("velocity_10").primary
    assert velocity.provenance["scale"] == "R"
    assert velocity.provenance["covariate"] == "R"
    jam = load_system("sumo").target("meanMaxJamLengthInMeters_e2_e_0").secondaries[0]
    assert jam.provenance["weight"] == "P"
    assert {jam.provenance[name] for name in ("form", *jam.response.constants)} == {"R"}
    active = load_system("opendc").target("cpu_time_active_host-0")
    weights = {other.covariate: other.provenance["weight"] for other in active.secondaries}
    assert weights["coreSpeed_host-0"] == "P"
    assert weights["memorySize_host-0"] == "R"
    state = load_system("gridlabd").target("is_HEAT_on")
    assert (state.class_.provenance["clip"], state.provenance["up_only"]) == ("P", "R")


def test_systems_pickle_and_targets_hash():
    for name in SYSTEMS:
        found = load_system(name)
        copy = pickle.loads(pickle.dumps(found))
        assert copy.targets == found.targets
        assert len(set(found.targets)) == len(found.targets)


def test_import_starts_no_jax():
    code = "import sys, whatif_jax.catalog as c; c.load_system('sumo'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "pydantic" in loaded
    assert not loaded & {"jax", "jaxlib", "equinox", "numpy", "pyarrow"}


# describe


def test_describe_overview_names_all_systems():
    text = describe()
    for name, (targets, covariates) in COUNTS.items():
        assert re.search(rf"{name} .* {targets} +{covariates} ", text)


@pytest.mark.parametrize("name", SYSTEMS)
def test_describe_system_names_everything(name):
    found = load_system(name)
    text = describe(name)
    for each in (*found.targets, *found.covariates, *found.classes):
        assert re.search(rf"^ +{re.escape(each.name)}\b", text, re.MULTILINE), each.name
    assert "[P] printed in the paper" in text
    assert "[R] not printed" in text
    raw = tomllib.loads(found.source.read_text())
    for setting in raw["settings"]:
        first = setting["text"].split(",")[0]
        assert first in text
    for pair in found.axes.contexts:
        assert f"context {pair.context} [P], horizon {pair.horizon} [P]" in text


def test_describe_target_shows_constants_with_provenance():
    text = describe("power_draw_host-0")
    assert "pivot 105.5 [P], slope 4 [R]" in text
    assert "pivot + (y-pivot)*f + slope*(f-1) [R]" in text
    assert "coreSpeed_host-0 [P]: base 3000 MHz [P], bell [P], direct [P]" in text
    assert "scale 60 [R], exponent 0.5 [R]" in text
    text = describe("cpu_demand_host-0")
    assert "only where f < 1 [P]" in text
    assert "printed as 10/f" in text
    text = describe("epanet/demand_9")
    assert "partial: only tasks of at most two events" in text
    assert "h = 1463" in text
    assert "up only [P]" in text
    assert "constant baseline" in describe("is_COOL_on")
    assert "clipped to [1, 2] [P]" in describe("is_COOL_on")


@pytest.mark.parametrize("name", ["epanet", "epanet/pressure_12"])
def test_describe_says_where_a_response_runs_against_intuition(name):
    text = " ".join(describe(name).split())
    assert "More demand raises these pressures: the paper's direct response" in text
    assert "More demand" not in describe("epanet/velocity_12")


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_target_describes(name):
    for target in load_system(name).targets:
        text = describe(target.name)
        assert text == describe(f"{name}/{target.name}")
        assert len(re.findall(r"\br\d+\b", text)) >= len(target.secondaries)
