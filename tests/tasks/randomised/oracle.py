"""A randomised task again, in float64 NumPy, step by step, from what was drawn."""

import numpy as np

SHAPES = ("step", "ramp", "hump", "bell", "rise", "fall")


def row_of(tree, row):
    import jax

    return jax.tree.map(lambda leaf: np.asarray(leaf)[row], tree)


def share(shape, place):
    """How much of an event applies at a place in (0, 1) of it."""
    hump = 4 * place * (1 - place)
    return {
        "step": 1.0, "ramp": min(1.0, 4 * min(place, 1 - place)), "hump": hump,
        "bell": hump**4, "rise": place, "fall": 1 - place,
    }[SHAPES[shape]]  # fmt: skip


def shift(event, most, own):
    """Steps that a covariate's window begins later, in whole numbers of 32 bits."""
    mixed = (int(own[0]) + int(own[1]) * (event + 1)) % 2**32
    return ((mixed >> 16) * (int(most) + 1)) >> 16


def event_at(events, step, column):
    """(event, steps since its window began) that holds at a step, or None."""
    begun = [event for event, start in enumerate(events.starts) if step >= start]
    if not begun:
        return None
    event = begun[-1]
    since = step - events.starts[event]
    since -= shift(event, events.apart[event], events.own[:, column])
    return (event, float(since)) if since >= 0 else None


def deviations(drawn, steps, context):
    """(shown, felt) [K, steps], without wandering."""
    events, timing = drawn.events, drawn.timing
    k = events.shown.shape[-1]
    shown, felt = np.zeros((k, steps)), np.zeros((k, steps))
    y = drawn.baseline.astype(np.float64)
    for column in range(k):
        shape = int(events.shapes[column])
        for step in range(steps):
            found = event_at(events, step, column)
            if found:
                event, since = found
                place = (since + 0.5) / events.lengths[event]
                if place < 1:
                    full = float(events.shown[event, column]) - 1
                    shown[column, step] = full * share(shape, place)
            found = event_at(events, step - float(timing.lag), column)
            if found:
                event, since = found
                length = float(events.lengths[event])
                full = float(events.felt[event, column]) - 1
                place, decay = (since + 0.5) / length, float(timing.decay)
                if place < 1:
                    built = 1 - np.exp(-(since + 1) / decay) if decay else 1.0
                    felt[column, step] = full * share(shape, place) * built
                elif decay and SHAPES[shape] in ("step", "rise"):
                    felt[column, step] = full * np.exp(-(since + 1 - length) / decay)
    return shown, felt, y


def ratio(terms, d, column):
    """r(f)/r(1) - 1 of one covariate at deviations d."""
    t = {name: float(getattr(terms, name)[column]) for name in vars(terms)}
    d = np.clip(d, t["deviation_low"], t["deviation_high"])
    f = np.maximum(1 + d, 1e-6)
    exponent = np.where(d > 0, t["exponent_above"], t["exponent_below"])
    size = np.maximum(np.abs(d), 1e-6)
    power = d * size ** (exponent - 1) if t["of_deviation"] else f**exponent - 1
    total = t["power_scale"] * power + t["slope"] * d
    total = total + t["cubic_scale"] * ((1 - d) ** 3 - 1)
    angle = np.clip(t["cosine_rate"] * d, -t["cosine_rate"], t["cosine_rate"])
    total = total + t["cosine_scale"] * (np.cos(angle) ** 2 - 1)
    return total + t["exponential_scale"] * (np.exp(t["exponential_rate"] * d) - 1)


def target(response, felt, y):
    """The target at all steps."""
    k = felt.shape[0]
    active = [column for column in range(k) if response.active[column]]
    d = np.where(np.asarray(response.active)[:, None], felt, 0.0)
    logs = np.abs(np.log(np.maximum(1 + d, 1e-6))).sum(axis=0)
    s = 1 / (1 + float(response.damping) * logs)
    mean = float(response.mean_magnitude)
    gain, move = np.ones_like(y), np.zeros_like(y)
    if 0 in active:
        gain = 1 + ratio(response.terms, d[0], 0)
        size = np.maximum(np.abs(d[0]), 1e-6) ** (float(response.offset_exponent) - 1)
        move = float(response.offset_scale) * d[0] * size
        move = move + float(response.offset_slope_of_mean) * mean * d[0]
    added = np.zeros_like(y)
    for column in active:
        if column == 0:
            continue
        effect = s * float(response.weight[column]) * ratio(response.terms, d[column], column)
        if response.additive:
            added = added + mean * effect
        else:
            factor = np.maximum(float(response.floor), 1 + effect)
            gain, move = gain * factor, move * factor
    return np.clip(gain * y + move + added, response.clip_low, response.clip_high)
