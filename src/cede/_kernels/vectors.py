"""Sums in vector registers whose bits do not depend on the processor.

If a compiler may reorder a sum, the order follows from the width of the processor's registers, and so do the last bits of the
result. Here the order is fixed: element j of a row is added to lane j mod LANES. Then lane j > 3 is added to lane j mod 4, and
the four lanes that are left are added as (0 + 2) + (1 + 3).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

FEW = 6  # outcomes up to which a row is short
BLOCK = 16  # long rows are padded to whole blocks, so that all passes over them can use vector registers
LANES = 8  # in which sums over long rows run; BLOCK is a multiple

DOUBLE, WORD, INDEX = ir.DoubleType(), ir.IntType(64), ir.IntType(32)


def address_of(array):
    """Return where the elements of an array begin; for `context.compile_internal`."""
    return array.ctypes.data


def sums_over_blocks(terms: Callable[..., Any], n_sums: int) -> Any:
    """Make a function (u, p, n, theta) for kernels that returns n_sums sums over the whole blocks of the first n elements.

    terms(builder, u, p, theta, zero) emits, with LLVM's builder, the terms of one block for each sum; u and p are vectors of LANES
    doubles. LLVM maps the lanes to the registers of the processor.
    """
    block = ir.VectorType(DOUBLE, LANES)

    def splat(builder: Any, number: Any) -> Any:
        vector = builder.insert_element(ir.Constant(block, ir.Undefined), number, INDEX(0))
        return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES))

    def add_up(builder: Any, vector: Any) -> Any:
        lane = [builder.extract_element(vector, INDEX(j)) for j in range(LANES)]
        for j in range(4, LANES):
            lane[j % 4] = builder.fadd(lane[j % 4], lane[j])
        return builder.fadd(builder.fadd(lane[0], lane[2]), builder.fadd(lane[1], lane[3]))

    @intrinsic
    def sums(context, u, p, n, theta):
        """Return the sums over the whole blocks of u[:n] and p[:n]."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            starts = [
                context.compile_internal(builder, address_of, types.uintp(kind), [array])
                for kind, array in zip(signature.args[:2], arguments[:2], strict=True)
            ]
            theta, zero = splat(builder, arguments[3]), ir.Constant(block, [0.0] * LANES)
            n_blocks, before = builder.sdiv(arguments[2], WORD(LANES)), builder.block
            loop, after = builder.append_basic_block("blocks"), builder.append_basic_block("after_blocks")
            builder.cbranch(builder.icmp_signed(">", n_blocks, WORD(0)), loop, after)

            builder.position_at_end(loop)
            i, totals = builder.phi(WORD), [builder.phi(block) for _ in range(n_sums)]
            offset = builder.mul(i, WORD(8 * LANES))
            pointers = [builder.inttoptr(builder.add(start, offset), block.as_pointer()) for start in starts]
            u, p = (builder.load(pointer, align=8) for pointer in pointers)  # doubles need not be aligned to more
            added = [builder.fadd(old, term) for old, term in zip(totals, terms(builder, u, p, theta, zero), strict=True)]
            following = builder.add(i, WORD(1))
            builder.cbranch(builder.icmp_signed("<", following, n_blocks), loop, after)
            for phi, first, again in zip([i, *totals], [WORD(0), *[zero] * n_sums], [following, *added], strict=True):
                phi.add_incoming(first, before)
                phi.add_incoming(again, loop)

            builder.position_at_end(after)
            totals = [builder.phi(block) for _ in range(n_sums)]
            result = ir.Constant(context.get_value_type(signature.return_type), ir.Undefined)
            for which, (total, new) in enumerate(zip(totals, added, strict=True)):
                total.add_incoming(zero, before)
                total.add_incoming(new, loop)
                result = builder.insert_value(result, add_up(builder, total), which)
            return result

        return types.UniTuple(types.float64, n_sums)(u, p, types.int64, types.float64), generate

    return sums


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


def logarithm(builder: Any, number: Any) -> Any:
    """Emit the logarithm of each lane of a vector of positive normal numbers. Its bits are the same on every processor."""
    block, words = number.type, ir.VectorType(WORD, LANES)

    def same(value: float, kind: Any = block) -> Any:
        return ir.Constant(kind, [value] * LANES)

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
