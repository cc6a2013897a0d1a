"""Random numbers in compiled code.

Simulations use the same numbers as NumPy's PCG64; each team has its own stream. Ties between agents and sampled tables depend only
on a seed and a place (splitmix64).
"""

from math import log, sqrt

import numpy as np

from cede._kernels.compiling import inlined, kernel

MULTIPLIER_HIGH, MULTIPLIER_LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)
LOW_32 = np.uint64(0xFFFFFFFF)
TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # step of splitmix64


@inlined
def high_of_product(x, y):
    """Return the upper 64 bits of the product of two 64-bit numbers."""
    x_low, x_high = x & LOW_32, x >> np.uint64(32)
    y_low, y_high = y & LOW_32, y >> np.uint64(32)
    middle = x_high * y_low + ((x_low * y_low) >> np.uint64(32))
    other = x_low * y_high + (middle & LOW_32)
    return x_high * y_high + (middle >> np.uint64(32)) + (other >> np.uint64(32))


@kernel
def draw_uniform(stream, result):
    """Fill `result` with numbers in [0, 1) and move the stream on. stream: (4,) uint64, state and increment, upper half first."""
    high, low, step_high, step_low = stream[0], stream[1], stream[2], stream[3]
    for i in range(result.size):
        carried = high_of_product(low, MULTIPLIER_LOW) + high * MULTIPLIER_LOW + low * MULTIPLIER_HIGH
        low = low * MULTIPLIER_LOW + step_low
        high = carried + step_high + np.uint64(low < step_low)
        turn = high >> np.uint64(58)
        mixed = high ^ low
        mixed = (mixed >> turn) | (mixed << ((np.uint64(64) - turn) & np.uint64(63)))
        result[i] = np.float64(mixed >> np.uint64(11)) * TO_UNIT
    stream[0], stream[1] = high, low


@inlined
def mixed(z):
    """Return 64 bits that look random (the last step of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def stream_at(seed, place):
    """Return the start of the random numbers of a place: a stream of splitmix64 for each seed and place."""
    return mixed(mixed(np.uint64(seed) + GOLDEN) + np.uint64(place + 1) * GOLDEN)


@kernel
def next_uniform(stream):
    """Return the stream moved on by one number, and that number, in (0, 1)."""
    stream = stream + GOLDEN
    return stream, (np.float64(mixed(stream) >> np.uint64(11)) + 0.5) * TO_UNIT


@kernel
def next_normal(stream):
    """Return the stream moved on, and a standard normal number (Marsaglia's polar method)."""
    while True:
        stream, x = next_uniform(stream)
        stream, y = next_uniform(stream)
        x, y = 2.0 * x - 1.0, 2.0 * y - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return stream, x * sqrt(-2.0 * log(square) / square)


@kernel
def next_log_gamma(stream, shape):
    """Return the stream moved on, and the logarithm of a Gamma(shape) number (Marsaglia and Tsang 2000).

    The logarithm, because numbers of small shapes are too small for a float.
    """
    boost = 0.0
    if shape < 1.0:  # Gamma(shape) = Gamma(shape + 1) U^(1 / shape)
        stream, x = next_uniform(stream)
        boost, shape = log(x) / shape, shape + 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / sqrt(9.0 * d)
    while True:
        stream, x = next_normal(stream)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            stream, y = next_uniform(stream)
            if log(y) < 0.5 * x * x + d - d * v + d * log(v):
                return stream, log(d * v) + boost


@kernel
def tie_seed(seed, episode):
    """Return the seed for the ties and samples of an episode. Neighbouring seeds and episodes get unrelated ones."""
    scrambled = mixed(np.uint64(seed) + GOLDEN) >> np.uint64(1)
    return np.int64(mixed(scrambled + np.uint64(episode) + GOLDEN) >> np.uint64(1))


@inlined
def tie_break(seed, place, n):
    """Return a number from 0 to n - 1 that depends on the seed and the place alone."""
    return np.int64(mixed(np.uint64(seed) + np.uint64(place + 1) * GOLDEN) % np.uint64(n))
