"""The grammar of breakpoint expressions: text is compiled to closures over a step's scalars.

Python's parser builds a syntax tree once. Every node is checked against a list of allowed nodes,
and the tree becomes nested closures. `eval` is never used: expressions come over the network.

    comparison, and / or / not      loss > 2 and step > 100
    + - * / // % **, parentheses    numbers and the names of scalars
    abs min max log exp sqrt isnan isinf isfinite
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from midstep.core.errors import ExpressionError

# Limits against expressions that would take long in every step, or exhaust the stack.
MAX_LENGTH = 500
MAX_NODES = 200
MAX_DEPTH = 32

Scalars = Mapping[str, float]
Evaluate = Callable[[Scalars], float]

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    # `math.pow` raises where `**` would give a complex number, and it never makes huge integers.
    ast.Pow: math.pow,
}
_COMPARE: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, tuple[Callable[..., float], range]] = {
    "abs": (abs, range(1, 2)),
    "min": (min, range(2, 9)),
    "max": (max, range(2, 9)),
    "log": (math.log, range(1, 2)),
    "exp": (math.exp, range(1, 2)),
    "sqrt": (math.sqrt, range(1, 2)),
    "isnan": (math.isnan, range(1, 2)),
    "isinf": (math.isinf, range(1, 2)),
    "isfinite": (math.isfinite, range(1, 2)),
}
_TESTS = frozenset({"isnan", "isinf", "isfinite"})


@dataclass(frozen=True, kw_only=True)
class CompiledExpression:
    """An expression that can be evaluated once a step."""

    names: frozenset[str]
    """Scalars that it reads."""
    evaluate: Evaluate
    """Returns whether it is true. Raises KeyError for a scalar that this step did not log."""
    sides: tuple[Evaluate, Evaluate] | None
    """Left and right side, if the expression is a single comparison."""

    def holds(self, scalars: Scalars) -> bool:
        """Whether it is true. False if a scalar is missing or a value is undefined (log of -1)."""
        try:
            return bool(self.evaluate(scalars))
        except (KeyError, ValueError, ArithmeticError, TypeError):
            return False


def compile_expression(text: str) -> CompiledExpression:
    """Check `text` against the grammar and compile it.

    >>> compile_expression("loss > 2 * base and step > 10").holds(
    ...     {"loss": 5.0, "base": 2.0, "step": 11}
    ... )
    True
    """
    tree = _parse(text)
    evaluate = _compile(tree)
    if not _is_test(tree):
        raise ExpressionError(
            f"{text!r} is a number, not a condition; compare it, for example: loss > 2"
        )
    # By identity: a scalar may have the name of a function, as in `max(max, 2) > 1`.
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called
    )
    return CompiledExpression(names=names, evaluate=evaluate, sides=_sides(tree))


def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise ExpressionError(
            f"the expression has {len(text)} characters; at most {MAX_LENGTH} are allowed"
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        position = _error_position(error.offset, text) if isinstance(error, SyntaxError) else ""
        raise ExpressionError(
            f"{text!r} does not parse{position}; write for example: loss > 2 and step > 100"
        ) from None
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES or _depth(tree) > MAX_DEPTH:
        raise ExpressionError("the expression is too large; split it into two breakpoints")
    return tree


def _error_position(offset: int | None, text: str) -> str:
    """Where Python's parser stopped; it counts from 1, and gives 0 at the end of the text."""
    before = len(text) - len(text.lstrip())
    return f" at character {before + offset}" if offset else " at its end"


def _depth(node: ast.AST) -> int:
    return 1 + max((_depth(child) for child in ast.iter_child_nodes(node)), default=0)


def _is_test(node: ast.expr) -> bool:
    """Whether `node` gives true or false and not a number."""
    match node:
        case ast.Compare():
            return True
        case ast.BoolOp(values=values):
            return all(_is_test(value) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_test(operand)
        case ast.Call(func=ast.Name(id=name)):
            return name in _TESTS
        case _:
            return False


def _sides(tree: ast.expr) -> tuple[Evaluate, Evaluate] | None:
    match tree:
        case ast.Compare(left=left, comparators=[right]):
            return _compile(left), _compile(right)
        case _:
            return None


def _compile(node: ast.expr) -> Evaluate:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            number = float(value)
            return lambda _scalars: number
        case ast.Name(id=name):
            return lambda scalars: scalars[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _compile(operand)
            return lambda scalars: -inner(scalars)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _compile(operand)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _compile(operand)
            return lambda scalars: not inner(scalars)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            apply, first, second = _BINARY[type(op)], _compile(left), _compile(right)
            return lambda scalars: apply(first(scalars), second(scalars))
        case ast.BoolOp(op=op, values=values):
            combine, parts = any if isinstance(op, ast.Or) else all, [_compile(v) for v in values]
            return lambda scalars: combine(part(scalars) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(
            type(op) in _COMPARE for op in ops
        ):
            terms = [_compile(term) for term in (left, *rest)]
            return _chain([_COMPARE[type(op)] for op in ops], terms)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _call(name, [_compile(arg) for arg in args])
        case _:
            raise ExpressionError(
                f"{ast.unparse(node)[:60]!r} is not allowed here; use numbers, names of scalars, "
                f"+ - * / // % **, comparisons, and, or, not, {', '.join(_FUNCTIONS)}"
            )


# A function, not a lambda: a chain as in `0 < loss < 2` computes each term once.
def _chain(tests: list[Callable[[float, float], bool]], terms: list[Evaluate]) -> Evaluate:
    def evaluate(scalars: Scalars) -> bool:
        values = [term(scalars) for term in terms]
        return all(test(a, b) for test, a, b in zip(tests, values, values[1:], strict=False))

    return evaluate


def _call(name: str, arguments: list[Evaluate]) -> Evaluate:
    function, arity = _FUNCTIONS[name]
    if len(arguments) not in arity:
        least, most = arity.start, arity.stop - 1
        count = f"{least} to {most} arguments" if most > least else "1 argument"
        raise ExpressionError(f"{name} takes {count}, got {len(arguments)}")
    return lambda scalars: function(*(argument(scalars) for argument in arguments))
