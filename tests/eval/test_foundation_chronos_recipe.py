"""Chronos-2 fine-tuned on the stream by its own classes: its batches, its folder, its record."""

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("chronos")

import torch
from chronos.chronos2.dataset import Chronos2Dataset

from eval.forecasters.foundation import ModelError
from eval.forecasters.training_record import RECORD, TrainingRecord
from tests.eval.tiny_models import build, make
from training.recipes import chronos2_tuning
from training.recipes.chronos2 import open_stream
from training.recipes.chronos2_tuning import (
    NonFiniteLossError,
    TuningConfig,
    chronos_batch,
    fine_tune,
)
from whatif_jax import TaskStream, evaluate
from whatif_jax.tasks.torch_source import StreamDataset

ROOT = Path(__file__).parents[2]
PATCH = 16  # of the tiny model
SMALL = dict(buckets=[(256, 32)], systems=["epanet"], event_lengths=[32])


@pytest.fixture(scope="module")
def stream():
    return TaskStream(3, 8, **SMALL)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return build("chronos-2", tmp_path_factory.mktemp("tiny") / "model", context=256)


# ---- batches ----


def test_a_batch_is_that_of_chronos_own_dataset(stream):
    """Its dataset in its validation mode: the last window of the joined series."""
    (tensors,) = StreamDataset(stream, 0, 1)
    ours = chronos_batch(tensors, PATCH)
    counts = tensors["covariate_mask"].sum(1).tolist()
    assert len(set(counts)) > 1  # several K in one batch
    row = 0
    for task, k in enumerate(counts):
        whole = torch.cat([tensors["history"][task], tensors["future"][task]]).numpy()
        moves = {f"{number}": tensors["covariates"][task, :, number].numpy() for number in range(k)}
        series = dict(target=whole, past_covariates=moves, future_covariates=dict.fromkeys(moves))
        (theirs,) = Chronos2Dataset(
            [series], context_length=256, prediction_length=32, batch_size=1,
            output_patch_size=PATCH, mode="validation",
        )  # fmt: skip
        for name in ("context", "future_target", "future_covariates"):
            np.testing.assert_array_equal(ours[name][row : row + 1 + k], theirs[name], err_msg=name)
        assert ours["num_output_patches"] == theirs["num_output_patches"]
        assert ours["group_ids"][row : row + 1 + k].tolist() == [task] * (1 + k)
        row += 1 + k
    assert len(ours["context"]) == len(ours["group_ids"]) == row


def test_what_is_masked_is_missing():
    """By hand: padding on the left, a gap, a padded horizon, a covariate that is none."""
    tensors = {
        "history": torch.tensor([[9.0, 1.0, 9.0, 3.0]]),
        "history_mask": torch.tensor([[False, True, False, True]]),
        "covariates": torch.arange(14.0).reshape(1, 7, 2),
        "covariate_mask": torch.tensor([[True, False]]),
        "future": torch.tensor([[4.0, 5.0, 9.0]]),
        "future_mask": torch.tensor([[True, True, False]]),
    }
    batch, gap = chronos_batch(tensors, 2), math.nan
    expected = {
        "context": [[gap, 1, gap, 3], [gap, 2, 4, 6]],
        "future_target": [[4, 5, gap], [gap] * 3],
        "future_covariates": [[gap] * 3, [8, 10, gap]],
        "group_ids": [0, 0],
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(batch[name], value, err_msg=name)
    assert batch["num_output_patches"] == 2


# ---- fine-tuning ----


def test_one_step_is_a_step_of_its_loss_on_a_batch_of_the_stream(stream, tiny, tmp_path):
    """AdamW's first step moves each weight by the learning rate against its gradient's sign."""
    from chronos import Chronos2Pipeline

    def network(folder):
        return Chronos2Pipeline.from_pretrained(str(folder)).model

    record = fine_tune(
        str(tiny), stream, tmp_path / "tuned", TuningConfig(1, start=5, learning_rate=1e-3),
        trained_on="unknown", training={},
    )  # fmt: skip
    (tensors,) = StreamDataset(stream, 5, 6)
    before, after = network(tiny), dict(network(tmp_path / "tuned").named_parameters())
    before.train()  # the tiny model has dropout: gradients by another draw differ
    for module in before.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    loss = before(**chronos_batch(tensors, PATCH)).loss
    loss.backward()
    agree = total = 0
    for name, weight in before.named_parameters():
        if weight.grad is None:
            continue
        large = weight.grad.abs() > weight.grad.abs().max() / 10
        moved = (after[name] - weight.detach())[large]
        agree += int((moved.sign() == -weight.grad[large].sign()).sum())
        total += moved.numel()
        assert moved.abs().max() <= 1.01e-3
    assert total > 200 and agree > 0.9 * total  # a step on another batch: about half
    assert record.training["next_step"] == 6
    assert record.training["loss"] == pytest.approx(float(loss.detach()), rel=0.2)  # dropout


def test_a_fine_tuned_model_is_a_forecaster_that_says_what_it_saw(stream, tiny, few, tmp_path):
    out = tmp_path / "tuned"
    training = {"systems": ["epanet"]}
    fine_tune(
        str(tiny), stream, out, TuningConfig(4, learning_rate=1e-3),
        trained_on="in-distribution", training=training,
    )  # fmt: skip
    forecaster, first = make("chronos-2", out), make("chronos-2", tiny)
    assert forecaster.trained_on == "in-distribution"
    assert forecaster.training["systems"] == ["epanet"] and forecaster.training["steps"] == 4
    assert "systems" not in (getattr(first, "training", None) or {})
    part = few.take(np.arange(4))
    with pytest.warns(UserWarning, match="the model reads the last 256"):
        ours, theirs = (evaluate(one, part).scores for one in (forecaster, first))
    assert not np.allclose(ours["wql"].to_numpy(), theirs["wql"].to_numpy(), rtol=1e-3)


@pytest.mark.parametrize(
    "before, training, said",
    [
        ("in-distribution", {"systems": ["epanet"]}, "in-distribution, ['epanet']"),
        ("left-out-system", {"left_out": ["sumo"]}, "left-out-system, ['sumo']"),
        ("unknown", {}, "unknown"),
    ],
)
def test_weights_that_saw_the_catalog_do_not_become_zero_shot(tmp_path, before, training, said):
    TrainingRecord(trained_on=before, training=training).write(tmp_path)
    expected = f"^model: {tmp_path}: its weights were trained on {re.escape(said)}; expected"
    for word, more in (("randomised", {}), ("left-out-system", {"left_out": ["epanet"]})):
        with pytest.raises(ValueError, match=expected):
            fine_tune(
                str(tmp_path), None, tmp_path / "out", TuningConfig(1),
                trained_on=word, training=more,
            )  # fmt: skip


def test_longer_shapes_than_the_models_widen_its_settings(stream, tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "short")
    path = tmp_path / "short" / "config.json"
    config = json.loads(path.read_text())
    config["chronos_config"] |= dict(context_length=128, max_output_patches=1)
    path.write_text(json.dumps(config))
    fine_tune(
        str(path.parent), stream, tmp_path / "long", TuningConfig(1),
        trained_on="unknown", training={},
    )  # fmt: skip
    settings = json.loads((tmp_path / "long" / "config.json").read_text())["chronos_config"]
    assert settings["context_length"] == 256 and settings["max_output_patches"] == 2


def test_nothing_is_saved_where_the_loss_is_not_finite(stream, tiny, tmp_path, monkeypatch):
    def broken(tensors, patch):
        batch = chronos_batch(tensors, patch)
        return {**batch, "future_target": batch["future_target"] * math.inf}

    monkeypatch.setattr(chronos2_tuning, "chronos_batch", broken)
    with pytest.raises(NonFiniteLossError, match="by step 1 of the stream from step 7 on: TaskSt"):
        fine_tune(
            str(tiny), stream, tmp_path / "out", TuningConfig(2, start=7),
            trained_on="unknown", training={},
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


# ---- the command line ----


def call(*arguments):
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.slow
def test_the_commands_fine_tune_and_score(tiny, tmp_path):
    out, results = tmp_path / "tuned", tmp_path / "results"
    arguments = [
        "training.recipes.chronos2", "--model", tiny, "--steps", "3", "--out", out, "--split",
        "leave-one-system-out", "--left-out", "sumo", "--bucket", "256+32", "--batch-size", "4",
        "--device", "cpu",
    ]  # fmt: skip
    done = call(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{out}: 3 steps, trained on left-out-system"
    record = json.loads((out / RECORD).read_text())
    assert record["trained_on"] == "left-out-system" and record["training"]["left_out"] == ["sumo"]
    again = call(*arguments)
    assert again.returncode == 2 and "expected a new folder" in again.stderr
    done = call(
        "eval", "run", "--model", "chronos-2", "--set", f"model={out}", "--set", "device=cpu",
        "--where", "context=1024", "--where", "system=sumo", "--sample", "4", "--results", results,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "split, left_out, said",
    [
        ("zero-shot", None, "split: 'zero-shot'; expected one of randomised, leave-one"),
        ("leave-one-system-out", None, "left_out: None; expected one of"),
        ("leave-one-system-out", "mars", "left_out: 'mars'"),
        ("in-distribution", "sumo", "left_out: 'sumo'"),
    ],
)
def test_a_split_that_is_none_is_refused(split, left_out, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        open_stream(split, left_out, 0, 2, [(256, 32)])


def test_a_split_is_recorded_with_its_systems():
    stream, about = open_stream("leave-one-system-out", "sumo", 0, 2, [(256, 32)])
    assert about["left_out"] == ["sumo"] and "sumo" not in stream.systems.systems
    _, about = open_stream("in-distribution", None, 0, 2, [(256, 32)])
    assert about["systems"] == ["opendc", "gridlabd", "epanet", "sumo"]


@pytest.mark.parametrize("text", ["", "[]", '{"training": {}}', '{"trained_on": 1}'])
def test_a_damaged_record_is_named(tiny, tmp_path, text):
    shutil.copytree(tiny, tmp_path / "model")
    (tmp_path / "model" / RECORD).write_text(text)
    with pytest.raises(ModelError, match=f"^model: .*{RECORD}: .*"):
        make("chronos-2", tmp_path / "model")
