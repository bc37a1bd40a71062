"""The prior: a readable file, refused by name where it is wrong, and no constant of the catalog."""

import jax
import numpy as np
import pytest

from whatif_jax import Prior, RandomisedStream, load_prior
from whatif_jax.tasks.randomised import prior as module
from whatif_jax.tasks.response_table import NEUTRAL

TEXT = (module.files(module.__package__) / "prior.toml").read_text("utf-8")


def test_the_librarys_prior_is_a_file_and_an_object():
    prior = load_prior()
    assert isinstance(prior, Prior) and prior.version == 1
    assert load_prior(prior) is prior is load_prior()
    assert prior.covariates.number == (1, 8)


def test_a_prior_of_ones_own_is_read_from_a_file(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(TEXT.replace("version = 1", "version = 7"))
    assert load_prior(path) == load_prior(str(path))
    assert load_prior(path).version == 7
    assert hash(load_prior(path)) != hash(load_prior())
    found, own = RandomisedStream(0, 2, prior=path).describe(), RandomisedStream(0, 2).describe()
    assert found["prior"] == 7 and found["prior_sha256"] != own["prior_sha256"]
    assert (own["trained_on"], found["trained_on"]) == ("randomised", "unknown")
    assert found["trains_on_the_suite"] is None and "into the prior" in str(found["holds"])


@pytest.mark.parametrize(
    "change, words",
    [
        (("weight = [0.07, 0.95]", "weight = [0.9, 0.1]"), "response.weight: .*low < high"),
        (("direct = 0.6", "direct = 1.6"), "covariates.direct: 1.6; expected a number up to 1"),
        (("number = [1, 8]", "number = [0, 8]"), "covariates.number.*expected"),
        (("step = 4.0", "stip = 4.0"), "events.shapes: .*for some of step, ramp"),
        (("direct = 0.6", "direkt = 0.6"), "did you mean 'direct'"),
        (("version = 1", ""), "version: missing; expected a whole number"),
        (("version = 1", "version = ["), "expected TOML"),
    ],
)
def test_faults_of_a_prior_are_named(tmp_path, change, words):
    path = tmp_path / "own.toml"
    path.write_text(TEXT.replace(*change))
    with pytest.raises(ValueError, match=f"^prior: .*{words}") as error:
        load_prior(path)
    assert "\n" not in str(error.value)


def constants(response, primary):
    """Numbers of some responses that say something, by field, all in one array each."""
    found = {name: np.asarray(value) for name, value in vars(response.terms).items()}
    del found["of_deviation"]
    for name in ("weight", "offset_slope", "offset_slope_of_mean", "offset_scale", "damping",
                 "offset_exponent", "floor"):  # fmt: skip
        found[name] = np.asarray(getattr(response, name))
    return found


@pytest.fixture(scope="module")
def drawn():
    """Responses of 4,000 tasks."""
    stream = RandomisedStream(11, 16, [(256, 32)])
    found = [constants(stream.batch_at(step).drawn.response, True) for step in range(250)]
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def test_no_drawn_constant_is_one_of_the_catalog(systems, drawn):
    """Exact comparison of float32; what is neutral says nothing and is left out."""
    table = constants(systems.responses, True)
    neutral = {**NEUTRAL, "offset_exponent": 1.0, "floor": 0.0}
    exponents = ("exponent_above", "exponent_below", "offset_exponent")
    compared = 0
    for name, values in drawn.items():
        of_catalog = (
            np.concatenate([table[each].ravel() for each in exponents])
            if (name in exponents)
            else table[name].ravel()
        )
        silent = np.float32(neutral.get(name, 0.0))
        of_catalog = of_catalog[np.isfinite(of_catalog) & (of_catalog != silent)]
        own = values[np.isfinite(values) & (values != silent) & (values != 0.0)]
        assert not np.isin(own, of_catalog).any(), name
        compared += len(own) * bool(len(of_catalog))
    assert compared > 100_000


def test_the_drawn_constants_are_spread(drawn):
    """Every form occurs, in both directions; hardly a number occurs twice."""
    for name in ("power_scale", "slope", "cubic_scale", "exponential_rate"):
        used = drawn[name][drawn[name] != 0.0]
        assert len(used) > 500, name
        assert len(np.unique(used)) > 0.98 * len(used), name
    for name in ("slope", "cubic_scale", "exponential_rate", "exponent_above"):
        signs = drawn[name][~np.isin(drawn[name], [0.0, 1.0])] > 0
        assert 0.2 < signs.mean() < 0.85, name
    assert 0.2 < (drawn["damping"] == 0.0).mean() < 0.4


def test_a_prior_is_not_moved_by_its_readers():
    with pytest.raises(Exception, match="frozen"):
        load_prior().version = 2
    assert jax.tree.leaves(load_prior()) == [load_prior()]
