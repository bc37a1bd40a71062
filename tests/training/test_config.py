"""A run's fields refuse what cannot be; streams are the split's."""

import re
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.training.training_helpers import tiny
from training.cli import parse_buckets
from training.config import model_factory, read_config
from training.data import VALIDATION, described, open_stream, stream_key, trained_on
from training.fit import made_model
from whatif_jax import root_key
from whatif_jax.cli import parse_settings
from whatif_jax.tasks.keys import PRNG


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": None}, "steps, minutes: expected one of the two"),
        ({"minutes": 3.0}, "steps, minutes: expected one of the two"),
        ({"steps": 0}, "steps: '0'; expected greater than or equal to 1"),
        ({"clip": float("inf")}, "clip: 'inf'; expected a finite number"),
        (
            {"batchsize": 3},
            "batchsize: no field of a run; expected one of 'averaging', 'batch_size'",
        ),
        ({"split": "all"}, "split: 'all'; expected 'randomised', 'leave-one-system-out' or"),
        ({"left_out": "sumo"}, "left_out: sumo; expected a system's name with the split"),
        ({"split": "randomised"}, "systems: epanet; expected none but with the split"),
    ],
)
def test_a_wrong_field_is_refused_by_name(changes, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        tiny(**changes)


def test_options_are_refused_by_name(tmp_path):
    assert parse_buckets(["512+64", "9+1"]) == [[512, 64], [9, 1]]
    assert parse_settings(["clip=0.5", "model=a:b"]) == {"clip": 0.5, "model": "a:b"}
    for wrong in ("512", "512+", "a+b"):
        with pytest.raises(ValueError, match="expected CONTEXT"):
            parse_buckets([wrong])
    with pytest.raises(ValueError, match="each key once"):
        parse_settings(["clip=1", "clip=2"])
    with pytest.raises(ValueError, match="expected a folder of `fit`"):
        read_config(tmp_path)
    with pytest.raises(ValueError, match="expected MODULE:FACTORY"):
        model_factory("training.nothing:make")
    with pytest.raises(ValueError, match="model: 'mine'; expected MODULE:FACTORY, such as mine"):
        model_factory("mine")


@pytest.mark.parametrize(
    ("split", "name"),
    [
        ("randomised", "systems"),
        ("randomised", "nowel"),
        ("in-distribution", "systems"),
        ("in-distribution", "key"),
        ("in-distribution", "batch_size"),
        ("in-distribution", "pool"),
    ],
)
def test_what_a_stream_does_not_take_is_refused_by_name(split, name):
    """Fields of the run among them: another batch size would leave the record's tasks wrong."""
    with pytest.raises(ValueError, match=f"^stream: '{name}'; expected "):
        open_stream(tiny(split=split, systems=None, stream={name: 4}))


def test_training_and_validation_never_share_a_key():
    keys = [stream_key(tiny(seed=seed), part) for seed in (0, 1) for part in (0, VALIDATION)]
    words = [tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys]
    assert words[1] == words[3] and len(set(words)) == 3  # one validation for all runs
    assert {str(jax.random.key_impl(key)) for key in keys} == {PRNG}


def test_the_left_out_system_is_not_in_the_stream():
    config = tiny(split="leave-one-system-out", left_out="sumo", systems=None)
    stream = open_stream(config)
    assert {system for system, _ in stream.systems.targets} == {"epanet", "gridlabd", "opendc"}
    declared = trained_on(config, described(stream))
    assert declared["trained_on"] == "left-out-system" and declared["left_out"] == ["sumo"]
    assert "sumo" not in declared["systems"]
    with pytest.raises(ValueError, match="left_out: 'suma'; expected one of"):
        open_stream(tiny(split="leave-one-system-out", left_out="suma", systems=None))


def test_a_prior_of_ones_own_is_declared_without_its_file(tmp_path):
    """An exported model is loaded where the prior's file is not, or is another one by now."""
    path = tmp_path / "prior.toml"
    own = (resources.files("whatif_jax.tasks.randomised") / "prior.toml").read_text("utf-8")
    path.write_text(own.replace("novel = 0.5", "novel = 0.6"), "utf-8")
    config = tiny(split="randomised", systems=None, stream={"prior": str(path), "pool": None})
    stream = described(open_stream(config))
    path.unlink()
    assert trained_on(config, stream) == {"trained_on": "unknown"}
    usual = tiny(split="randomised", systems=None, stream={"pool": None})
    assert trained_on(usual, described(open_stream(usual))) == {"trained_on": "randomised"}


def of_the_median_alone(size, *, key):
    return lambda inputs: jnp.zeros((inputs.horizon, 1))


def without_a_key(size):
    return None


@pytest.mark.parametrize(
    "name, words",
    [
        ("of_the_median_alone", r"returns \(32, 1\); expected quantiles \(32, 9\)"),
        ("without_a_key", r"'key'; expected to be called as FACTORY\(size, key=...\)"),
    ],
)
def test_a_model_that_is_none_is_refused_before_the_first_step(name, words):
    config = tiny(model=f"{__name__}:{name}")
    with pytest.raises(ValueError, match=words):
        made_model(config, root_key(0))
