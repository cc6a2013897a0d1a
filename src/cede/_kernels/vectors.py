"""Sums in vector registers whose bits do not depend on the processor.

If a compiler may reorder a sum, the order follows from the width of the processor's registers, and so do the last bits of the
result. Here the order is fixed: element j of a row is added to lane j mod `lanes`. Then lane j > 3 is added to lane j mod 4, and
the four lanes that are left are added as (0 + 2) + (1 + 3).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from cede._kernels.backend import backend


def sums_over_blocks(terms: Callable[..., Any], n_sums: int, lanes: int) -> Any:
    """Make a function (u, p, n, theta) for kernels that returns 2 or 3 sums over the whole blocks of the first n elements.

    terms(builder, u, p, theta, zero) emits, with the methods of LLVM's builder, what a block adds to each sum: from vectors of as
    many doubles as there are lanes, or from single doubles.
    """
    return backend.sums_over_blocks(terms, n_sums, lanes)


# log(1 + x) = x - x^2 / 2 + x^3 P(x) / Q(x) for sqrt(1/2) <= 1 + x < sqrt(2), to the last bit or so (Moshier's Cephes).
LOG_P = (
    1.01875663804580931796e-4,
    4.97494994976747001425e-1,
    4.70579119878881725854,
    14.4989225341610930846,
    17.9368678507819816313,
    7.70838733755885391666,
)
LOG_Q = (
    1.0,
    11.2873587189167450590,
    45.2279145837532221105,
    82.9875266912776603211,
    71.1544750618563894466,
    23.1251620126765340583,
)
LOG_2_HIGH, LOG_2_LOW = 0.693359375, -2.121944400546905827679e-4  # their sum is log 2; multiples of the first are exact


def logarithm(builder: Any, number: Any, lanes: int) -> Any:
    """Emit the logarithm of a positive normal number, or of each lane of a vector. Its bits are the same on every processor."""
    is_vector, block = isinstance(number.type, ir.VectorType), number.type
    words = ir.VectorType(ir.IntType(64), lanes) if is_vector else ir.IntType(64)

    def same(value: float, kind: Any = block) -> Any:
        return ir.Constant(kind, [value] * lanes if is_vector else value)

    def polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
        result = same(coefficients[0])
        for one in coefficients[1:]:
            result = builder.fadd(builder.fmul(result, x), same(one))
        return result

    # The bits of a number above those of sqrt(1/2) count its powers of two from there; what is left is from sqrt(1/2) to sqrt(2).
    half = 0x3FE6A09E667F3BCD
    above = builder.sub(builder.bitcast(number, words), same(half, words))
    power = builder.ashr(above, same(52, words))
    bits = builder.sub(builder.bitcast(number, words), builder.shl(power, same(52, words)))
    x, power = builder.fsub(builder.bitcast(bits, block), same(1.0)), builder.sitofp(power, block)
    square = builder.fmul(x, x)
    rest = builder.fdiv(builder.fmul(builder.fmul(x, square), polynomial(LOG_P, x)), polynomial(LOG_Q, x))
    rest = builder.fsub(builder.fadd(rest, builder.fmul(power, same(LOG_2_LOW))), builder.fmul(square, same(0.5)))
    return builder.fadd(builder.fadd(x, rest), builder.fmul(power, same(LOG_2_HIGH)))
