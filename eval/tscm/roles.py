"""What a named structure says of its nodes: treatment, outcome, and which method fits it."""

import functools
from collections.abc import Collection, Iterable
from typing import NamedTuple

from whatif_jax.tscm import structures

__all__ = ["Roles", "roles_of"]

LATENT = "U"
Edge = tuple[int, int]  # parent, child


class Roles(NamedTuple):
    """Places of nodes; a tuple is empty where the method does not fit."""

    treatment: int
    outcome: int
    adjust: tuple[int, ...]  # a back-door set
    instruments: tuple[int, ...]
    mediators: tuple[int, ...]  # one of a front door


def _reached(start: Iterable[int], edges: Collection[Edge]) -> set[int]:
    """Nodes that some edges lead to from a start; without it, unless a cycle leads back."""
    found: set[int] = set()
    waiting = list(start)
    while waiting:
        node = waiting.pop()
        new = {child for parent, child in edges if parent == node} - found
        found |= new
        waiting += new
    return found


@functools.cache
def roles_of(structure: str) -> Roles | None:
    """The roles of a structure's nodes, read off its graph; None for a name that is none.

    The graph has an edge where there is one at once or at a lag, with lagged edges or without, so
    that what holds for it holds for both. Edges from a node to itself are left out: they are
    history, for which every method has terms of the step before.

    - Back door: visible nodes that A does not act on, some of which acts on A and, past A, on Y; no
      latent node does. Fits back_door, observed_confounder and confounder_mediator. In bi_variate
      and mediator nothing confounds: plain regression is the adjustment there.
    - Instrument: a visible node that acts on A and on Y through A alone, and is acted on by no
      latent node, where a latent one confounds A and Y. Fits instrumental_variable.
    - Front door: one visible node that all paths from A to Y lead through, and that no latent node
      acts on except through A. Fits front_door, mediator and confounder_mediator.
    """
    found = structures().get(structure)
    if found is None:
        return None
    names = found.names()
    edges = {
        edge
        for text in (found.now, found.lagged, found.also_lagged)
        for edge in found.pairs(text)
        if edge[0] != edge[1]
    }
    a, y = names.index("A"), names.index("Y")
    latent = {place for place, name in enumerate(names) if name == LATENT}
    past_a = {edge for edge in edges if edge[0] != a}
    seen = set(range(len(names))) - latent - {a, y}

    def confounds(node: int) -> bool:
        return a in _reached([node], edges) and y in _reached([node], past_a)

    below = _reached([a], edges)
    hidden = any(confounds(node) for node in latent)
    adjust = sorted(seen - below)
    if hidden or not any(confounds(node) for node in adjust):
        adjust = []
    by_latent = _reached(latent, edges)
    instruments = [
        node
        for node in sorted(seen - below - by_latent)
        if hidden and a in _reached([node], edges) and y not in _reached([node], past_a)
    ]
    mediators = [node for node in sorted(seen & below) if y in _reached([node], edges)]
    around = {edge for edge in edges if not set(edge) & set(mediators)}
    door = (
        len(mediators) == 1
        and y not in _reached([a], around)
        and not set(mediators) & _reached(latent, past_a)
    )
    return Roles(a, y, tuple(adjust), tuple(instruments), tuple(mediators) if door else ())
