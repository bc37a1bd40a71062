"""One run, never stopped, that others are compared with."""

import pytest


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory):
    """The folder of a tiny run of one process on one device."""
    from tests.training.training_helpers import finished, start_fit

    folder = tmp_path_factory.mktemp("whole") / "run"
    finished(start_fit(folder))
    return folder
