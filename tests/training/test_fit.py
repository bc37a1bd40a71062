"""What a run leaves in its folder, and how it ends where it cannot go on."""

import csv
import math
import re
import shlex
import subprocess
import sys

import jax
import numpy as np
import pytest

from tests.training.training_helpers import ROOT, finished, rows_of, start_fit, tiny
from training.checkpoint import CheckpointError, Checkpoints
from training.data import described, open_stream
from training.fit import begin
from training.forecaster import export, load_forecaster
from whatif_jax import LEVELS


def held():
    """What the stream of the tests' run holds, as its checkpoints keep it."""
    return described(open_stream(tiny()))


def test_a_run_keeps_logs_pictures_and_checkpoints(whole_run):
    rows = list(csv.DictReader((whole_run / "steps.csv").open()))
    assert [int(row["step"]) for row in rows] == list(range(1, 13))
    assert all(0 <= float(row["waited"]) <= float(row["seconds"]) for row in rows)
    rates = [float(row["learning_rate"]) for row in rows]
    assert max(rates) <= 0.01 and rates[-1] < rates[3]  # the schedule's end is low
    # what `rows` takes steps of a budget of minutes again with
    assert [np.float32(row["share"]) for row in rows] == [np.float32(n / 12) for n in range(12)]
    assert [int(row[0]) for row in rows_of(whole_run / "evaluations.csv")] == [4, 8, 12]
    assert (whole_run / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert list((whole_run / "tensorboard").glob("events*"))


def test_training_lowers_the_validation_loss(whole_run):
    losses = [float(row[1]) for row in rows_of(whole_run / "evaluations.csv")]
    assert losses[-1] < losses[0]


def test_latest_and_best_are_kept_apart_and_best_is_of_the_smallest_validation_loss(whole_run):
    config = tiny()
    state, _, _ = begin(config)
    with Checkpoints(whole_run, config, held(), writing=False) as checkpoints:
        latest, best = (checkpoints.restore(which, state) for which in ("latest", "best"))
    losses = {int(row[0]): float(row[1]) for row in rows_of(whole_run / "evaluations.csv")}
    assert latest.record.steps == 12 and latest.record.tasks == 96
    assert best.record.steps == min(losses, key=losses.__getitem__)
    assert best.record.validation == min(losses.values())
    assert int(latest.state.steps) == 12
    assert str(jax.random.key_impl(latest.key)) == "threefry2x32"
    assert latest.record.parameters == 9 * 24 + 9


@pytest.mark.parametrize(
    ("changes", "stream", "said"),
    [
        ({"model": "tests.training.other:make_model"}, "catalog", "model: the checkpoint has"),
        ({"split": "randomised", "systems": None}, "catalog", "split: the checkpoint has"),
        ({"seed": 1}, "catalog", "seed: the checkpoint has 0, this run 1"),
        ({"steps": 13}, "catalog", "steps: the checkpoint has 12, this run 13"),
        ({}, "2", "prior of the stream: the checkpoint was trained on catalog, this version"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_by_name(whole_run, changes, stream, said):
    state, _, _ = begin(tiny())
    with (
        Checkpoints(
            whole_run, tiny(**changes), {**held(), "prior": stream}, writing=False
        ) as checkpoints,
        pytest.raises(CheckpointError, match=re.escape(said)),
    ):
        checkpoints.restore("latest", state)


def test_a_run_refuses_options_of_another(whole_run):
    said = finished(start_fit(whole_run, "--seed", "3"), 2)
    assert said.strip().splitlines()[-1] == (
        "training: seed: the checkpoint has 0, this run 3; expected the same, or another folder"
    )


def test_a_loss_that_is_not_finite_ends_the_run_and_is_not_saved(tmp_path):
    """What it says to type shows the rows again, their losses not finite."""
    run = tmp_path / "run"
    options = ("--learning-rate", "1e38", "--set", "weight_decay=0")
    options += ("--set", "save_every=1", "--set", "evaluate_every=1")
    said = finished(start_fit(run, *options), 3).strip().splitlines()[-1]
    step, rows = re.search(
        r"not finite at step (\d+), rows \[([\d, ]+)\] of the batch", said
    ).groups()
    assert len(rows_of(run / "steps.csv")) == int(step)
    config = tiny(learning_rate=1e38, weight_decay=0)
    state, _, _ = begin(config)
    with Checkpoints(run, config, described(open_stream(config)), writing=False) as checkpoints:
        for which in ("latest", "best"):
            found = checkpoints.restore(which, state)
            if which == "best" and found is None:  # no validation loss was finite
                continue
            assert found.record.steps <= int(step)
            leaves = jax.tree.leaves(found.state)
            assert all(np.all(np.isfinite(np.asarray(leaf))) for leaf in leaves)
    typed = shlex.split(said.partition("see it: ")[2])
    assert typed[:2] == ["python", "-m"]
    shown = subprocess.run(
        [sys.executable, *typed[1:]], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(shown) == len(rows.split(","))
    losses = [float(re.search(r"loss (\S+),", line).group(1)) for line in shown]
    assert not any(map(math.isfinite, losses))


def test_an_exported_model_forecasts_from_three_lines(whole_run, tmp_path):
    record = export(whole_run, tmp_path / "tiny")
    assert sorted(path.name for path in (tmp_path / "tiny").iterdir()) == [
        "record.json",
        "weights.npz",
    ]
    forecast = load_forecaster(tmp_path / "tiny")
    assert forecast.trained_on == "in-distribution"
    assert forecast.training["systems"] == ["epanet"]
    assert forecast.settings["weights"] == record.weights[:12]
    history = np.sin(np.arange(64.0, dtype=np.float32))[None]
    quantiles = forecast(history, np.ones((1, 80, 2), np.float32), 16, LEVELS)
    assert quantiles.shape == (1, 16, 9) and np.all(np.diff(quantiles, axis=-1) >= 0)
    # the moving average of the best checkpoint, called as the model it is
    state, _, _ = begin(tiny())
    with Checkpoints(whole_run, tiny(), held(), writing=False) as checkpoints:
        best = checkpoints.restore("best", state).state.average
    np.testing.assert_array_equal(np.load(tmp_path / "tiny/weights.npz")["bias"], best.bias)


def test_damaged_exports_are_refused_in_one_line(whole_run, tmp_path):
    folder = tmp_path / "tiny"
    export(whole_run, folder, which="latest")
    weights = (folder / "weights.npz").read_bytes()
    (folder / "weights.npz").write_bytes(weights[:-1])
    with pytest.raises(ValueError, match=r"checkpoint: .*weights.npz: SHA-256 "):
        load_forecaster(folder)
    (folder / "weights.npz").unlink()
    with pytest.raises(ValueError, match=r"checkpoint: .*weights.npz: "):
        load_forecaster(folder)
    (folder / "record.json").write_text("{}", "utf-8")
    with pytest.raises(ValueError, match=r"checkpoint: .*record.json: format: Field required"):
        load_forecaster(folder)
    with pytest.raises(ValueError, match=r"checkpoint: .*none.record.json: .*expected a folder of"):
        load_forecaster(tmp_path / "none")
