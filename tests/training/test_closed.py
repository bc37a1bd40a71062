"""The closed form's own fits, against refits and sums in float64."""

import jax
import numpy as np

from training.models.closed import NEAR, _nearest, _ridge

EVENTS, K, PENALTY = 12, 3, 0.1


def drawn(seed):
    """Features, aims and a mask of events; what is masked is rubbish."""
    draw = np.random.default_rng(seed)
    mask = np.arange(EVENTS) < 9
    design = draw.normal(0, 1, (EVENTS, K)).astype(np.float32)
    aim = (design @ np.array([0.7, -0.4, 0.2]) + draw.normal(0, 0.2, EVENTS)).astype(np.float32)
    return np.where(mask[:, None], design, 99.0), np.where(mask, aim, -99.0), mask


def refit(design, aim, penalty):
    """Minimises |aim - design c|^2 + penalty |c|^2."""
    return np.linalg.solve(design.T @ design + penalty * np.eye(design.shape[1]), design.T @ aim)


def test_residuals_are_those_of_refits_without_each_event():
    """Relative tolerance 1e-4; the penalty is that of all events in every refit."""
    for seed in range(5):
        design, aim, mask = drawn(seed)
        found, residual, left_out = jax.jit(_ridge)(design, aim, mask, PENALTY)
        features, aims = np.float64(design[mask]), np.float64(aim[mask])
        penalty = (PENALTY + 1e-5) * np.sum(features**2) / len(aims)
        coefficients = refit(features, aims, penalty)
        np.testing.assert_allclose(found, coefficients, rtol=1e-4, atol=1e-5)
        seen = aims - features @ coefficients
        np.testing.assert_allclose(residual[mask], seen, rtol=1e-4, atol=1e-5)
        for event in range(len(aims)):
            others = np.arange(len(aims)) != event
            coefficients = refit(features[others], aims[others], penalty)
            expected = aims[event] - features[event] @ coefficients
            np.testing.assert_allclose(left_out[event], expected, rtol=1e-4, atol=1e-4)
        assert np.all(residual[~mask] == 0) and np.all(left_out[~mask] == 0)


def test_no_events_give_no_coefficients():
    design, aim, mask = drawn(0)
    for found in jax.jit(_ridge)(design, aim, np.zeros_like(mask), PENALTY):
        assert np.all(found == 0)


def test_features_of_any_size_give_the_same_fit():
    """Scaled by 2**10, so that nothing is rounded: coefficients scale inversely."""
    design, aim, mask = drawn(0)
    found, _, left_out = jax.jit(_ridge)(design, aim, mask, PENALTY)
    scaled, _, same = jax.jit(_ridge)(1024 * design, aim, mask, PENALTY)
    np.testing.assert_allclose(scaled * 1024, found, rtol=1e-5)
    np.testing.assert_allclose(same, left_out, rtol=1e-4, atol=1e-5)


def test_near_events_speak_by_their_distance():
    """Three events on a line, one of them not there; sums by hand."""
    doses = np.float32([[0.0], [NEAR], [2 * NEAR]])
    values, mask = np.float32([1.0, 3.0, 50.0]), np.array([True, True, False])
    ahead = np.float32([[0.0], [NEAR], [9.0]])
    to_come, left_out = jax.jit(_nearest)(doses, ahead, values, mask)
    near = np.exp(-0.5)
    expected = [(1 + 3 * near) / (1 + near + 0.05), (near + 3) / (1 + near + 0.05), 0.0]
    np.testing.assert_allclose(to_come, expected, rtol=1e-5, atol=1e-7)
    # an event says nothing of itself; the third is near the second alone
    expected = [3 * near / (near + 0.05), near / (near + 0.05)]
    np.testing.assert_allclose(left_out[:2], expected, rtol=1e-5)
