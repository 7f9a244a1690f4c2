"""``LANES`` numbers as one value of compiled code.

Numba vectorises loops over arrays, but what each short loop costs before its first turn (slices,
checks that no two arrays overlap) is a good part of a row of a picture. Here a vector is a type of
LLVM: what is written is what the processor does, on registers of whatever width it has.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, overload, register_model

LANES = 16  # pairs of images: a register of float32, or two of float64


class VectorType(types.Type):
    """``LANES`` numbers of a type."""

    def __init__(self, element: types.Float) -> None:
        self.element = element
        super().__init__(name=f"vector({element})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, _as_llvm(kind))


def _as_llvm(kind: VectorType) -> ir.VectorType:
    single = kind.element.bitwidth == 32
    return ir.VectorType(ir.FloatType() if single else ir.DoubleType(), LANES)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    vector = _as_llvm(VectorType(kind.dtype))
    return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(typing: Any, array: Any, place: Any) -> Any:
    """The numbers from ``array[place]`` on, which have to be inside."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *values)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return VectorType(array.dtype)(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(typing: Any, vector: Any, array: Any, place: Any) -> Any:
    """Write the numbers from ``array[place]`` on, which have to be inside."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[1], *values[1:])
        builder.store(values[0], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(vector, array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def spread(typing: Any, number: Any) -> Any:
    """A number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _in_all_lanes(builder, _as_llvm(signature.return_type), values[0])

    return VectorType(number)(number), generate


@intrinsic  # type: ignore[untyped-decorator]
def repeat(typing: Any, array: Any, place: Any) -> Any:
    """The number ``array[place // LANES]`` in all lanes: what ``load`` is where lanes are equal."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        bits = ir.Constant(values[1].type, LANES.bit_length() - 1)
        number = builder.load(builder.gep(data, [builder.ashr(values[1], bits)]))
        return _in_all_lanes(builder, _as_llvm(signature.return_type), number)

    return VectorType(array.dtype)(array, types.intp), generate


def _in_all_lanes(builder: Any, kind: Any, number: Any) -> Any:
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, _int(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [_int(0)] * LANES)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), mask)


def _int(value: int) -> ir.Constant:
    return ir.Constant(ir.IntType(32), value)


def _of_two(emit: Callable[[Any, Any, Any], Any]) -> Any:
    """A function of two vectors, from the instructions that it is."""

    def function(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit(builder, *values)

        return a(a, b), generate

    return intrinsic(function)


def _choose(builder: Any, sign: str, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(sign, a, b), a, b)


_FUSED = ("contract",)  # as ``compiled`` allows it
_add = _of_two(lambda builder, a, b: builder.fadd(a, b, flags=_FUSED))
_subtract = _of_two(lambda builder, a, b: builder.fsub(a, b, flags=_FUSED))
_multiply = _of_two(lambda builder, a, b: builder.fmul(a, b, flags=_FUSED))
_divide = _of_two(lambda builder, a, b: builder.fdiv(a, b))
larger = _of_two(lambda builder, a, b: _choose(builder, ">", a, b))


def _operator(symbol: Any, of_two: Any) -> None:
    @overload(symbol, strict=False)  # type: ignore[untyped-decorator]
    def implementation(a: Any, b: Any) -> Any:
        if isinstance(a, VectorType) and isinstance(b, VectorType):
            return lambda a, b: of_two(a, b)  # noqa: PLW0108
        if isinstance(a, VectorType):
            return lambda a, b: of_two(a, spread(b))
        if isinstance(b, VectorType):
            return lambda a, b: of_two(spread(a), b)
        return None


_operator(operator.add, _add)
_operator(operator.sub, _subtract)
_operator(operator.mul, _multiply)
_operator(operator.truediv, _divide)


@intrinsic  # type: ignore[untyped-decorator]
def root(typing: Any, vector: Any) -> Any:
    """Square roots: the processor takes them while it multiplies, quicker than Newton's steps."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = values[0].type
        name = f"llvm.sqrt.v{LANES}f{signature.return_type.element.bitwidth}"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind]), name
        )
        return builder.call(function, values)

    return vector(vector), generate


@intrinsic  # type: ignore[untyped-decorator]
def where_at_most(typing: Any, a: Any, b: Any, close: Any, far: Any) -> Any:
    """``close`` in lanes where a ≤ b, ``far`` in the others."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        first, second, near, other = values
        return builder.select(builder.fcmp_ordered("<=", first, second), near, other)

    return close(a, b, close, far), generate
