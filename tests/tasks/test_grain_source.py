"""Records of a stream as a data source."""

import numpy as np
import pytest

from whatif_jax import TaskStream
from whatif_jax.tasks.grain_source import TaskSource


def test_records_may_be_written_to(systems):
    pytest.importorskip("grain")
    stream = TaskStream(0, 2, buckets=[(256, 32)], systems=systems, event_lengths=[32])
    source = TaskSource(stream, 2)
    record = source[1]
    for name, values in record.items():
        assert values.flags.owndata and values.flags.writeable, name
        np.logical_not(values, out=values, where=True) if values.dtype == bool else values.fill(0)
    assert source[1]["history"].any()
