"""Suites of episodes: sizes, numbers, variants, what they are frozen with."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from pyarrow import parquet

from tests.tscm.freeze import SAMPLE, rows, sampled, values_of
from tests.tscm.made import made_episodes
from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import episode_suites, load_episode_suite, structures
from whatif_jax.tscm.frozen import FrozenValues, frozen_values, platform_name
from whatif_jax.tscm.names import VALUES

STEADY = ("identifiability-v1", "continuous-v1")  # others have chaotic worlds among them
SIZES = {"identifiability": 10_800, "regime": 9_999, "continuous": 9_999, "generic": 100_000}


@pytest.fixture
def made(monkeypatch):
    """Episodes of random numbers in place of simulated ones."""
    monkeypatch.setattr("whatif_jax.tscm.suite.sample_episodes", made_episodes)


def same(found, wanted):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_episode_has_one_number_and_one_part():
    assert episode_suites() == tuple(SIZES)
    seeds = set()
    for name, size in SIZES.items():
        suite = load_episode_suite(name)
        seeds.add(suite.seed)
        assert suite.version == f"{name}-v1" and suite.steps == 200
        assert len(suite) == suite.episodes == size
        numbers = [number for part in suite.parts for number in part.numbers]
        assert numbers == list(range(size))
        assert all(suite.part_of(n) is part for part in suite.parts for n in part.numbers[:: 10**4])
        assert f"{size:,} episodes" in repr(suite)
    assert len(seeds) == 4, "no suite shares its worlds with another"


def test_the_parts_are_those_that_the_issue_asks_for():
    found = {name: load_episode_suite(name).parts for name in SIZES}
    structured = [part.structure for part in found["identifiability"]]
    assert sorted(structured) == sorted(structures())
    assert {part.episodes for part in found["identifiability"]} == {1200}
    regimes = [(part.prior.regimes.number, part.tier) for part in found["regime"]]
    assert regimes == [((2,), 1), ((3,), 2), ((5,), 3)]
    for part in found["continuous"]:
        assert part.prior.time.continuous and part.prior.structure == part.structure == part.name
        assert part.prior.query.offsets == (1, 2, 3, 5, 10) and part.prior.query.since == "window"
    shares = [part.episodes / 100_000 for part in found["generic"]]
    assert shares == [0.35, 0.35, 0.15, 0.075, 0.075]
    assert not any(part.structure for part in (*found["generic"], *found["regime"]))


def test_an_episode_is_a_function_of_seed_and_number(made):
    suite = load_episode_suite("identifiability")
    numbers = [1199, 0, 7, 1203]
    of = {}
    for number in numbers:
        key = jax.random.fold_in(root_key(suite.seed), np.uint32(number))
        of[number] = made_episodes(keys=key[None], prior=suite.part_of(number).prior)
        same(suite.episodes_of([number]), of[number])
    for batch_size in (1, 2, 100):
        seen = []
        for part, own, episode in suite.batches(batch_size=batch_size, numbers=numbers):
            assert len(own) <= batch_size and len(episode.factual) == len(own)
            for place, number in enumerate(own):
                assert number in part.numbers
                wanted = of[int(number)]
                same(jax.tree.map(lambda leaf, at=place: leaf[at : at + 1], episode), wanted)
            seen += own.tolist()
        assert seen == numbers, "part by part, in the order given"


def test_batches_of_a_part_have_one_size_before_they_are_cut(made, monkeypatch):
    sizes = []

    def noted(*, keys, prior, steps):
        sizes.append((prior.structure, len(keys)))
        return made_episodes(keys=keys, prior=prior, steps=40)

    monkeypatch.setattr("whatif_jax.tscm.suite.sample_episodes", noted)
    suite = load_episode_suite("identifiability")
    one, two = (dataclasses.replace(part, episodes=13) for part in suite.parts[:2])
    suite = dataclasses.replace(suite, parts=(one, dataclasses.replace(two, first=13)))
    found = [number for _, own, _ in suite.batches(batch_size=12) for number in own]
    assert found == list(range(26))
    assert sizes == [("bi_variate", 7)] * 2 + [("back_door", 7)] * 2


def test_what_is_no_number_is_refused(made):
    suite = load_episode_suite("regime")
    for numbers in ([], [-1], [9999], [0.5], 3, [[1]], ["a"]):
        with pytest.raises(ValueError, match=r"^numbers: .*; expected some of 0 to 9998$"):
            suite.episodes_of(numbers)
        with pytest.raises(ValueError, match=r"^numbers: .*; expected some of 0 to 9998$"):
            suite.batches(numbers=numbers)
    with pytest.raises(ValueError, match="of several parts; expected those of one"):
        suite.episodes_of([3332, 3333])
    for size in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match=r"^batch_size: .*; expected an integer >= 1$"):
            suite.batches(batch_size=size)
    with pytest.raises(ValueError, match="suite: 'regimes'; expected 'regime'|one of"):
        load_episode_suite("regimes")
    with pytest.raises(ValueError, match="values: 'observed'; expected"):
        load_episode_suite("regime", values="observed")


def test_a_sample_gives_each_part_its_share():
    for name in SIZES:
        suite = load_episode_suite(name)
        for count in (1, 7, 90, 1000, suite.episodes):
            numbers = suite.sample(count)
            assert len(np.unique(numbers)) == count
            assert numbers.min() >= 0 and numbers.max() < suite.episodes
            for part in suite.parts:
                own = np.sum((numbers >= part.first) & (numbers < part.first + part.episodes))
                assert abs(own - count * part.episodes / suite.episodes) <= 1
    for count in (0, 10**6, 1.5, True):
        with pytest.raises(ValueError, match=r"^sample: .*; expected a whole number in 1 to"):
            suite.sample(count)


def test_the_window_tells_the_tier_in_continuous_time(made):
    suite = load_episode_suite("continuous")
    part = suite.parts[0]
    episode = suite.episodes_of([0, 1, 2, 3])
    act = dataclasses.replace(
        episode.intervention,
        onset=np.array([20, 50, 100, 10]),
        length=np.array([10, 31, 32, 150]),  # steps; the first and the last are apart by one less
    )
    times = np.tile(np.linspace(5, 205, 201), (4, 1))
    episode = dataclasses.replace(episode, intervention=act, times=times)
    # 9, 30, 31 and 149 of 200
    assert part.tiers(episode).tolist() == [1, 2, 2, 3]
    assert load_episode_suite("regime").parts[2].tiers(episode).tolist() == [3, 3, 3, 3]


def test_a_variant_differs_in_its_values_alone():
    for name in SIZES:
        suite = load_episode_suite(name)
        assert load_episode_suite(name, values="prior").version == suite.version
        for values in VALUES[1:]:
            other = load_episode_suite(name, values=values)
            assert other.version == f"{suite.version}+{values}" and other.seed == suite.seed
            assert other.fingerprint != suite.fingerprint
            for one, its in zip(suite.parts, other.parts, strict=True):
                assert dict(its.prior.intervention.values) == {values: 1.0}
                there = its.prior.intervention.model_copy(
                    update={"values": one.prior.intervention.values}
                )
                assert its.prior.model_copy(update={"intervention": there}) == one.prior


def test_another_definition_than_the_frozen_one_is_refused(monkeypatch):
    kept = {"regime-v1": {"fingerprint": "0" * 64}}
    monkeypatch.setattr("whatif_jax.tscm.suite.frozen_values", lambda: kept)
    with pytest.raises(ValueError, match=f"regime-v1 was frozen with {'0' * 64} and has "):
        load_episode_suite("regime")
    assert load_episode_suite("regime", values="observed_normal").episodes == 9_999


def test_the_hash_of_values_knows_every_bit_and_no_batch_size(made):
    suite = load_episode_suite("generic")
    whole = suite.episodes_of(np.arange(9))

    def digest(*batches):
        values = FrozenValues()
        for batch in batches:
            values.add(batch)
        assert values.episodes == 9
        assert values.redrawn == np.sum(whole.redraws > 0)
        assert values.redraws == np.sum(whole.redraws)
        return values.hexdigest()

    parted = [suite.episodes_of(own) for own in ([0, 1, 2, 3], [4], [5, 6, 7, 8])]
    found = digest(whole)
    assert digest(*parted) == found
    assert digest(parted[1], parted[0], parted[2]) != found
    leaves, tree = jax.tree.flatten(whole)
    for place, leaf in enumerate(leaves):
        if leaf.dtype == np.float32:
            changed = leaf.copy()
            last = (-1,) * leaf.ndim
            changed[last] = np.nextafter(changed[last], np.float32(np.inf))
            assert digest(tree.unflatten([*leaves[:place], changed, *leaves[place + 1 :]])) != found


def compare(suite, part, numbers):
    """Rows of the committed sample and those made now: equal to the bit where it was made.

    Elsewhere to 1e-5, in worlds that do not amplify rounding; where they may, what was drawn.
    """
    kept = sample()
    here = kept.schema.metadata[b"platform"].decode() == platform_name()
    places = [
        place
        for place, one in enumerate(zip(*keys_of(kept), strict=True))
        if one[0] == suite.version and one[1] in numbers
    ]
    assert len(places) == len(numbers)
    then, now = kept.take(places), rows(suite, part, numbers)
    assert now.column_names == then.column_names
    for name in then.column_names:
        wanted, found = then.column(name).to_pylist(), now.column(name).to_pylist()
        if here or not name.startswith(("x_", "y_", "intervention_json")):
            assert found == wanted, name
        elif name.startswith(("x_", "y_")) and suite.version in STEADY:
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=name)


@functools.cache
def sample():
    return parquet.read_table(SAMPLE)


def keys_of(table):
    return table.column("suite").to_pylist(), table.column("scm_id").to_pylist()


def test_the_sample_covers_every_part():
    wanted = [(suite.version, n) for suite, _, numbers in sampled() for n in numbers]
    assert list(zip(*keys_of(sample()), strict=True)) == wanted
    assert SAMPLE.stat().st_size < 2**20


def test_a_part_of_the_sample_is_made_again():
    compare(*next(sampled()))


@pytest.mark.slow
def test_all_of_the_sample_is_made_again():
    for one in sampled():
        compare(*one)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SIZES if name != "generic"])
def test_every_value_is_the_frozen_one(name):
    suite = load_episode_suite(name)
    kept = frozen_values()[suite.version]
    if kept["platform"] != platform_name():
        pytest.skip(f"frozen on {kept['platform']}")
    assert values_of(suite) == kept["parts"]
