"""The luck of a simulation: NumPy's PCG64, number for number, so that teams draw theirs inside of compiled code."""

import numpy as np

from cede._kernels.compiling import inlined, kernel

MULTIPLIER_HIGH, MULTIPLIER_LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)
LOW_32 = np.uint64(0xFFFFFFFF)
TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53


@inlined
def high_of_product(x, y):
    """The upper 64 bits of the product of two 64-bit numbers."""
    x_low, x_high = x & LOW_32, x >> np.uint64(32)
    y_low, y_high = y & LOW_32, y >> np.uint64(32)
    middle = x_high * y_low + ((x_low * y_low) >> np.uint64(32))
    other = x_low * y_high + (middle & LOW_32)
    return x_high * y_high + (middle >> np.uint64(32)) + (other >> np.uint64(32))


@kernel
def draw_uniform(stream, result):
    """Fill `result` with numbers in [0, 1). stream: (4,) uint64, state and increment, upper half first; moved on."""
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
