"""Fixtures of the simulator tests: the data folder and short real runs, one each a session."""

import importlib
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))  # `simulators` is no part of the installed package

run_isolated = importlib.import_module("simulators.isolation").run_isolated


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: runs a simulator for several seconds")


@pytest.fixture(scope="session")
def data() -> Path:
    folder = CHECKOUT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"{folder} with the trace and the weather file is not here")
    return folder


@pytest.fixture
def write_module(tmp_path, monkeypatch):
    """Write a runner module that an isolated run can import."""

    def write(name: str, text: str) -> str:
        folder = tmp_path / "modules"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        return name

    return write


@pytest.fixture(scope="session")
def sumo_run(tmp_path_factory) -> tuple:
    """Twenty simulated minutes of SUMO and the folder it ran in."""
    folder = tmp_path_factory.mktemp("sumo")
    return run_isolated("simulators.sumo", 4, folder, keep=folder), folder


@pytest.fixture(scope="session")
def gridlabd_run(tmp_path_factory, data) -> tuple:
    """One day of GridLAB-D and the folder it ran in."""
    folder = tmp_path_factory.mktemp("gridlabd")
    return run_isolated("simulators.gridlabd", 1440, data, keep=folder), folder
