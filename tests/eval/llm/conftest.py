"""A provider on this machine, and forecasters that ask it."""

import pytest

from tests.eval.llm.llm_server import FakeProvider, maker


@pytest.fixture(scope="module")
def provider():
    server = FakeProvider()
    yield server
    server.close()


@pytest.fixture
def ask(provider, tmp_path):
    yield maker(provider, tmp_path)
    provider.release.set()
