"""Numbers in a system's file: what float32 or the format cannot hold is refused as it is read."""

import pytest

from tests.catalog_helpers import broken, changed
from whatif_jax.catalog import load_system

# old text, new text, entry, field of a number that float32 or the format cannot hold
NUMBERS = {
    "base of 400 digits": ("base = 12.0 ", f"base = {'9' * 400} ", "base"),
    "base that vanishes": ("base = 12.0 ", "base = 1e-50 ", "base"),
    "constant too large": ("exponent = 0.8", "exponent = 1e39", "primary.exponent"),
    "constant that vanishes": ("exponent = 0.8", "exponent = -1e-46", "primary.exponent"),
    "constant of 400 digits": ("slope = 0.4", f"slope = -{'9' * 400}", "secondary[1].slope"),
    "weight too large": ("weight = 0.5", "weight = 3.5e38", "secondary[0].weight"),
    "weight that vanishes": ("weight = 0.5", "weight = 1e-60", "secondary[0].weight"),
    "weights that a rule makes too large": (
        "weight = 0.5",
        "weight_rule = { base = 1.0, step = 3e38, modulus = 3 }",
        "secondary[0].weight_rule",
    ),
    "factor too large": ("0.25, 0.5, 2, 4]", "0.25, 0.5, 2, 1e39]", "pools.values[3]"),
    "factor that vanishes": ("[0.25, 0.5, 2, 4]", "[1e-50, 0.5, 2, 4]", "pools.values[0]"),
    "clip too large": (
        'combine = "multiply" ', 'clip = [0, 1e39]\ncombine = "multiply" ', "clip[1]"
    ),
    "floor that vanishes": (
        'combine = "multiply" ', 'floor = 1e-46\ncombine = "multiply" ', "floor"
    ),
    "damping too large": (
        'combine = "multiply" ', 'damping = 1e300\ncombine = "multiply" ', "damping"
    ),
    "share that vanishes": ("k = [1, 2] ", "prefix = 1e-50\nk = [1, 2] ", "prefix"),
    "step that vanishes": ("step_seconds = 60", "step_seconds = 1e-46", "step_seconds"),
    "steps beyond any file": ("steps = 2880 ", "steps = 9999999999999 ", "steps"),
    "steps of 400 digits": ("steps = 2880 ", f"steps = {'9' * 400} ", "steps"),
    "context of 400 digits": ("context = 512", f"context = {'9' * 400}", "context"),
    "events of 400 digits": (
        "fewest_events = 1", f"fewest_events = {'9' * 400}", "fewest_events"
    ),
    "length of 400 digits": ("[32, 64]", f"[32, {'9' * 400}]", "event_lengths[1]"),
    "gap beyond any file": ("k = [1, 2] ", "gap = 2147483648\nk = [1, 2] ", "gap"),
}  # fmt: skip


@pytest.mark.parametrize("case", NUMBERS)
def test_number_that_cannot_be_held_is_one_fault_in_one_line(tmp_path, case):
    old, new, field = NUMBERS[case]
    error = broken(tmp_path, (old, new))
    assert [problem.field for problem in error.problems] == [field]
    assert len(str(error).splitlines()) == 1
    assert len(str(error)) < 300


def test_numbers_at_the_edge_of_float32_are_held(tmp_path):
    path = changed(
        tmp_path, ("base = 12.0 ", "base = -3.4028234e38 "), ("slope = 0.4", "slope = 1e-45"),
        ("steps = 2880 ", "steps = 2147483647 "),
    )  # fmt: skip
    found = load_system(path)
    assert found.covariates[0].base == -3.4028234e38  # as written, not as float32 holds it
    assert found.classes[0].secondary[1].response.constants == {"slope": 1e-45}
    assert found.steps == 2**31 - 1


@pytest.mark.parametrize("text", [f"steps = {'9' * 5000}", f"x = {'[' * 20_000}", "steps = \x00"])
def test_text_that_no_parser_takes_is_one_line(tmp_path, text):
    error = broken(tmp_path, ("format_version = 1", text))
    assert str(error).startswith("broken.toml: file: text = ")
    assert len(str(error).splitlines()) == 1
