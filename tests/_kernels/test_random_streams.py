"""Random numbers in kernels, against NumPy and against splitmix64 written in whole numbers of Python."""

import numpy as np
import pytest
from scipy import stats

from cede._kernels.random_streams import draw_uniform, next_log_gamma, next_normal, next_uniform, stream_at, tie_seed

WORD = 2**64


def mixed(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


GOLDEN = 0x9E3779B97F4A7C15


@pytest.mark.parametrize("seed", [0, 1, 20261118])
def test_what_happens_is_drawn_as_numpy_draws_it(seed):
    bits = np.random.PCG64(seed)
    told = bits.state["state"]
    words = [told["state"] >> 64, told["state"] % WORD, told["inc"] >> 64, told["inc"] % WORD]
    stream, found = np.array(words, dtype=np.uint64), np.empty(300)
    draw_uniform(stream, found[:200])
    draw_uniform(stream, found[200:])
    assert (found == np.random.Generator(bits).random(300)).all()


@pytest.mark.parametrize(("seed", "place"), [(0, 0), (3, 17), (2**62, 2**40 + 5)])
def test_streams_of_places_are_splitmix64(seed, place):
    stream = mixed((mixed((seed + GOLDEN) % WORD) + (place + 1) * GOLDEN) % WORD)
    now = stream_at(seed, place)
    assert int(now) == stream
    for _ in range(5):
        stream = (stream + GOLDEN) % WORD
        now, found = next_uniform(np.uint64(now))
        assert (int(now), found) == (stream, ((mixed(stream) >> 11) + 0.5) / 2**53)


@pytest.mark.parametrize(("seed", "episode"), [(0, 0), (0, 1), (5, 1000), (2**31 - 2, 7)])
def test_seeds_of_ties(seed, episode):
    scrambled = mixed((seed + GOLDEN) % WORD) >> 1
    assert int(tie_seed(seed, episode)) == mixed((scrambled + episode + GOLDEN) % WORD) >> 1


def test_normal_numbers():
    stream, found = stream_at(1, 2), []
    for _ in range(4000):
        stream, x = next_normal(np.uint64(stream))
        found.append(x)
    assert stats.kstest(found, "norm").pvalue > 0.001


@pytest.mark.parametrize("shape", [0.05, 1.0, 4.5])
def test_gamma_numbers(shape):
    stream, found = stream_at(1, 3), []
    for _ in range(4000):
        stream, x = next_log_gamma(np.uint64(stream), shape)
        found.append(x)
    assert stats.kstest(found, stats.loggamma(shape).cdf).pvalue > 0.001
