"""OpenDC's resource model replayed over the trace's fragments (whatif-v1.md §2, notes/opendc.md).

Demand, usage, utilisation and power are the values at the sampling instant, where a fragment that
begins at the instant is the one seen; active and idle times are amounts since the sample before.
Like OpenDC, every time is a share of the host's whole CPU, for a virtual machine too:
active = integral of usage / host capacity, idle = elapsed - active. Times are not rounded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .trace import STEP_SECONDS, Machine

__all__ = ["HOST", "Host", "max_min_share", "replay_host"]


@dataclass(frozen=True)
class Host:
    """A host and its linear power model at the base setting (whatif-v1.md §2)."""

    cores: int = 16
    core_speed: float = 3000.0  # MHz
    memory_gigabytes: int = 64
    idle_power: float = 200.0  # W [R]
    full_power: float = 400.0  # W [R]

    @property
    def capacity(self) -> float:
        """MHz of all cores together."""
        return self.cores * self.core_speed

    def power(self, utilization: np.ndarray) -> np.ndarray:
        """Power draw in W at a utilization in [0, 1]."""
        return self.idle_power + (self.full_power - self.idle_power) * utilization


HOST = Host()


def max_min_share(demand: np.ndarray, capacity: float) -> np.ndarray:
    """Share `capacity` among the demands of each row so that no smaller share could grow.

    Every claimant gets its demand if that is at most an even split of what is left; what it
    does not need goes to the others.

    Args:
        demand: [rows, claimants], not negative.
        capacity: what one row may hand out.
    """
    order = np.argsort(demand, axis=1, kind="stable")
    ascending = np.take_along_axis(demand, order, axis=1)
    shares = np.empty_like(ascending)
    left = np.full(len(demand), float(capacity))
    count = demand.shape[1]
    for rank in range(count):
        shares[:, rank] = np.minimum(ascending[:, rank], left / (count - rank))
        left -= shares[:, rank]
    result = np.empty_like(shares)
    np.put_along_axis(result, order, shares, axis=1)
    return result


def _edges(machine: Machine) -> np.ndarray:
    """Instants at which a machine's demand changes: its start and each fragment's end."""
    return machine.start + np.concatenate([[0], np.cumsum(machine.durations)])


def replay_host(
    host: Host, machines: Sequence[Machine], steps: int, step_seconds: int = STEP_SECONDS
) -> tuple[dict[str, np.ndarray], Mapping[str, dict[str, np.ndarray]]]:
    """Replay one host's machines.

    Returns:
        The host's metrics and each machine's, both by metric name, [steps] each; the first
        sample is one step after the first submission.
    """
    samples = (np.arange(steps) + 1) * step_seconds * 1000
    own_edges = {machine.name: _edges(machine) for machine in machines}
    edges = np.unique(np.concatenate([[0, samples[-1]], *own_edges.values()]))
    edges = edges[edges <= samples[-1]]
    # one column a machine, one row a stretch [edge, next edge): before its start and after its
    # last fragment a machine demands nothing
    demand = np.zeros((len(edges), len(machines)))
    for column, machine in enumerate(machines):
        fragment = np.searchsorted(own_edges[machine.name], edges, side="right") - 1
        running = (fragment >= 0) & (fragment < len(machine.demand))
        demand[running, column] = machine.demand[fragment[running]]
    limits = np.asarray([machine.limit for machine in machines])
    usage = max_min_share(np.minimum(demand, limits), host.capacity)

    at_sample = np.searchsorted(edges, samples, side="right") - 1
    lengths = np.diff(edges)[:, None] / 1000.0
    supplied = np.concatenate(
        [np.zeros((1, len(machines))), np.cumsum(usage[:-1] * lengths, axis=0)]
    )
    # every sample lies within a stretch, whose usage is constant
    into = (samples - edges[at_sample])[:, None] / 1000.0
    supplied_at_sample = supplied[at_sample] + usage[at_sample] * into
    active = np.diff(supplied_at_sample, axis=0, prepend=0.0) / host.capacity

    per_machine = {
        machine.name: {
            "cpu_demand": demand[at_sample, column],
            "cpu_usage": usage[at_sample, column],
            "cpu_time_active": active[:, column],
            "cpu_time_idle": step_seconds - active[:, column],
        }
        for column, machine in enumerate(machines)
    }
    used = usage[at_sample].sum(axis=1)
    whole = active.sum(axis=1)
    return {
        "cpu_demand": demand[at_sample].sum(axis=1),
        "cpu_usage": used,
        "cpu_utilization": used / host.capacity,
        "cpu_time_active": whole,
        "cpu_time_idle": step_seconds - whole,
        "power_draw": host.power(used / host.capacity),
    }, per_machine
