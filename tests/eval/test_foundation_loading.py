"""Foundation models that cannot be made: missing packages, models that are not there."""

import importlib
import sys
import time

import pytest

pytest.importorskip("torch")

from eval.forecasters import FORECASTERS
from eval.forecasters.foundation import FoundationForecaster, ModelError
from tests.eval.tiny_models import PACKAGES, make


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, True])
def test_batch_sizes_are_positive_integers(batch_size):
    with pytest.raises(ValueError, match="batch_size: .*expected an integer >= 1"):
        FoundationForecaster(
            "nothing", print, model="m", distribution="torch", batch_size=batch_size
        )


def test_the_accelerator_is_taken_where_there_is_one(monkeypatch):
    import torch

    from eval.forecasters.foundation import choose_device

    for there, expected in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert choose_device(None, "t0") == expected
        assert choose_device("cuda:1", "t0") == "cuda:1"


@pytest.mark.parametrize("name", PACKAGES)
def test_a_model_that_is_not_there_is_named(name, tmp_path, monkeypatch):
    pytest.importorskip(PACKAGES[name])
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    start = time.monotonic()
    for model in (str(tmp_path / "missing"), "nobody/no-such-model"):
        with pytest.raises(
            ModelError, match=f"model: '{model}'.*expected a local folder, or an id"
        ):
            make(name, model)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ModelError, match=f"model: '{empty}' cannot be loaded"):
        make(name, empty)
    assert time.monotonic() - start < 60  # no waiting for a hub that is out of reach


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_is_named_with_its_extra(name, monkeypatch):
    module, _, factory = FORECASTERS[name].partition(":")
    extra = module.rpartition(".")[2]
    for loaded in [key for key in sys.modules if key.partition(".")[0] == PACKAGES[name]]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, PACKAGES[name], None)
    with pytest.raises(ImportError, match=rf"pip install -e '\.\[{extra}\]'"):
        getattr(importlib.import_module(module), factory)()


def test_adapters_import_no_package_before_one_is_made():
    import subprocess

    names = [FORECASTERS[name].partition(":")[0] for name in (*PACKAGES, "tabpfn-ts")]
    heavy = {"torch", "transformers", "pandas", *PACKAGES.values(), "tabpfn_time_series"}
    code = (
        f"import importlib, sys; [importlib.import_module(n) for n in {names!r}]; "
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
