"""Sums in vector registers whose bits do not depend on the processor.

If a compiler may reorder a sum, the order follows from the width of the processor's registers, and so do the last bits of the
result. Here the order is fixed: element j of a row is added to lane j mod `lanes`, and the lanes are added up in one way. LLVM maps
the lanes to whatever registers there are.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

DOUBLE, WORD, INDEX = ir.DoubleType(), ir.IntType(64), ir.IntType(32)


def sums_over_blocks(terms: Callable[..., Any], n_sums: int, lanes: int) -> Any:
    """Make a function (u, p, n, theta) for kernels that returns so many sums over the whole blocks of the first n elements.

    terms(builder, u, p, theta, zero) emits what a block adds to each sum, from vectors of as many doubles as there are lanes.
    """
    block = ir.VectorType(DOUBLE, lanes)

    @intrinsic
    def sums(context, u, p, n, theta):
        """Return the sums over the whole blocks of u[:n] and p[:n]."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows = [
                context.make_array(kind)(context, builder, one).data
                for kind, one in zip(signature.args[:2], arguments[:2], strict=True)
            ]
            theta, zero = splat(builder, arguments[3], lanes), ir.Constant(block, [0.0] * lanes)
            totals = [cgutils.alloca_once_value(builder, zero) for _ in range(n_sums)]
            with cgutils.for_range(builder, builder.sdiv(arguments[2], WORD(lanes))) as loop:
                first = builder.mul(loop.index, WORD(lanes))
                u, p = (load(builder, row, first, block) for row in rows)
                for total, term in zip(totals, terms(builder, u, p, theta, zero), strict=True):
                    builder.store(builder.fadd(builder.load(total), term), total)
            found = [add_up(builder, builder.load(total), lanes) for total in totals]
            return context.make_tuple(builder, signature.return_type, found)

        return types.UniTuple(types.float64, n_sums)(u, p, types.int64, types.float64), generate

    return sums


def splat(builder: Any, number: Any, lanes: int) -> Any:
    """Emit a vector of which every lane is a number."""
    vector = builder.insert_element(ir.Constant(ir.VectorType(DOUBLE, lanes), ir.Undefined), number, INDEX(0))
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(INDEX, lanes), [0] * lanes))


def load(builder: Any, row: Any, first: Any, block: Any) -> Any:
    """Emit a load of a vector from a row, from its element `first` on."""
    place = builder.bitcast(builder.gep(row, [first]), block.as_pointer())
    vector = builder.load(place)
    vector.align = 8  # arrays of doubles need not be aligned to more
    return vector


def add_up(builder: Any, vector: Any, lanes: int) -> Any:
    """Emit the sum of all lanes: first every fourth, in order, then (0 + 2) + (1 + 3) of the four that are left."""
    lane = [builder.extract_element(vector, INDEX(j)) for j in range(lanes)]
    for j in range(4, lanes):
        lane[j % 4] = builder.fadd(lane[j % 4], lane[j])
    return builder.fadd(builder.fadd(lane[0], lane[2]), builder.fadd(lane[1], lane[3]))


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
    """Emit the logarithm of each lane, which must be a positive normal number. It has the same bits on every processor."""
    block, words = ir.VectorType(DOUBLE, lanes), ir.VectorType(WORD, lanes)

    def same(value: float) -> Any:
        return ir.Constant(block, [value] * lanes)

    def polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
        result = same(coefficients[0])
        for one in coefficients[1:]:
            result = builder.fadd(builder.fmul(result, x), same(one))
        return result

    # The bits of a number above those of sqrt(1/2) count its powers of two from there; what is left is from sqrt(1/2) to sqrt(2).
    half = 0x3FE6A09E667F3BCD
    above = builder.sub(builder.bitcast(number, words), ir.Constant(words, [half] * lanes))
    power = builder.ashr(above, ir.Constant(words, [52] * lanes))
    bits = builder.sub(builder.bitcast(number, words), builder.shl(power, ir.Constant(words, [52] * lanes)))
    x, power = builder.fsub(builder.bitcast(bits, block), same(1.0)), builder.sitofp(power, block)
    square = builder.fmul(x, x)
    rest = builder.fdiv(builder.fmul(builder.fmul(x, square), polynomial(LOG_P, x)), polynomial(LOG_Q, x))
    rest = builder.fsub(builder.fadd(rest, builder.fmul(power, same(LOG_2_LOW))), builder.fmul(square, same(0.5)))
    return builder.fadd(builder.fadd(x, rest), builder.fmul(power, same(LOG_2_HIGH)))
