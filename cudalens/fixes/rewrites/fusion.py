"""Many small kernels: CUDA graphs, torch.compile, fused pointwise chains, and `scaled_dot_product_attention`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from cudalens.analysis import Finding
from cudalens.fixes.rewrites.fix import Fix, Program, Unit, edits_by_unit
from cudalens.fixes.rewrites.use import changes_state, has_effects, is_steady
from cudalens.fixes.source import Edit, Source, argument, assigned_in, dotted, names_read


def replay_graphs(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Run the functions and modules that a loop of the cell calls as CUDA graphs."""
    names = [name for name in dict.fromkeys(_called_in_loops(program)) if not has_effects(program, name)]
    rule = finding.rule if finding is not None else "graphable"
    if names:
        lines = ("import cudalens", *(f"{name} = cudalens.cudagraph({name})" for name in names))
        warm = tuple(
            line
            for name in names
            for call in _first_call(program, name)
            for line in ("for _ in range(3):", f"    {call}")
        )
        yield Fix(
            rule,
            f"replay {_list(names)} as a CUDA graph",
            (),
            (*lines, *warm),
            needs="The function must not depend on values of the GPU in its Python code.",
        )


def compile_functions(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Compile the functions and modules that a loop of the cell calls."""
    names = list(dict.fromkeys(_called_in_loops(program)))
    if names:
        lines = tuple(f"{name} = torch.compile({name})" for name in names)
        warm = tuple(call for name in names for call in _first_call(program, name))
        yield Fix(
            finding.rule if finding is not None else "unfused_pointwise",
            f"compile {_list(names)}",
            (),
            (*lines, *warm),
            changes_numbers=True,
        )


def fused_gelu(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite GELU and its approximation, written out, as `torch.nn.functional.gelu`."""
    edits: dict[Unit, list[Edit]] = {}
    for unit in program.units:
        for node in unit.source.nodes(ast.BinOp):
            found = _gelu(unit.source, node)
            if found is not None and not _inside(unit.source, node, edits.get(unit, [])):
                edits.setdefault(unit, []).append(unit.source.replace(node, found))
    if edits:
        yield Fix(
            "unfused_pointwise",
            "use the fused gelu",
            edits_by_unit(edits),
            changes_numbers=True,
        )


def fused_layer_norm(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``y = x - x.mean(-1, keepdim=True); y / (y * y).mean(...).add(eps).sqrt()`` as `layer_norm`."""
    edits: dict[Unit, list[Edit]] = {}
    dropped: set[str] = set()
    for unit in program.units:
        for node in unit.source.nodes(ast.BinOp):
            found = _layer_norm(unit.source, node)
            if found is None:
                continue
            x, epsilon, statement, name = found
            text = f"torch.nn.functional.layer_norm({x}, {x}.shape[-1:], eps={epsilon})"
            edits.setdefault(unit, []).append(unit.source.replace(node, text))
            if statement is not None:
                edits[unit].append(unit.source.remove(statement))
                dropped |= {name} if unit.function is None else set()
    if edits:
        yield Fix(
            "unfused_pointwise",
            "use the fused layer norm",
            edits_by_unit(edits),
            changes_numbers=True,
            dropped=frozenset(dropped),
            needs=f"No longer assigned: {', '.join(sorted(dropped))}." if dropped else "",
        )


def _called_in_loops(program: Program) -> Iterator[str]:
    """The variables of the cell, functions of the user and modules, that a loop of the cell calls.

    Those that an earlier fix compiles or replays already are left out: Dynamo runs a function that is compiled twice
    without compiled code.
    """
    source = program.cell.source
    made = assigned_in(source.tree.body)  # do not exist before the cell
    made |= assigned_in(ast.parse("\n".join(program.setup)).body)
    for call in source.nodes(ast.Call):
        if not isinstance(call.func, ast.Name) or source.loop(call) is None:
            continue
        value = program.names.value(call.func)
        is_module = hasattr(type(value), "named_modules")
        is_function = any(unit.function is value for unit in program.functions)
        is_own = type(value).__module__.startswith(("cudalens", "torch._dynamo"))
        if (is_module or is_function) and not is_own and call.func.id not in made:
            yield call.func.id


def _first_call(program: Program, name: str) -> list[str]:
    """A call of `name` whose arguments are variables that exist before the cell, to warm it up."""
    source = program.cell.source
    if changes_state(program, name):
        return []
    for call in source.nodes(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == name:
            parts = [*call.args, *(one.value for one in call.keywords)]
            if all(isinstance(one, ast.Name | ast.Constant) for one in parts) and "backward" not in source.text:
                loop = source.loop(call)
                bound = (
                    {
                        one.id
                        for one in ast.walk(loop)
                        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
                    }
                    if loop
                    else set()
                )
                if not any(isinstance(one, ast.Name) and one.id in bound for one in parts):
                    return [source.text_of(call)]
    return []


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _inside(source: Source, node: ast.AST, edits: list[Edit]) -> bool:
    start, end = source.start(node), source.end(node)
    return any(edit.start <= start and end <= edit.end for edit in edits)


def _gelu(source: Source, node: ast.BinOp) -> str | None:
    """The fused form of ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`` or the one with erf."""
    factors = _factors(node)
    constants = [one for one in factors if _number(one) == 0.5]
    sums = [one for one in factors if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add)]
    others = [one for one in factors if one not in constants and one not in sums]
    if len(constants) != 1 or len(sums) != 1 or len(others) != 1 or not dotted(others[0]):
        return None
    x = dotted(others[0])
    terms = (sums[0].left, sums[0].right)
    calls = [one for one in terms if isinstance(one, ast.Call)]
    if len(calls) != 1 or not any(_number(one) == 1 for one in terms):
        return None
    function = dotted(calls[0].func).rpartition(".")[2]
    inner = "".join(ast.unparse(calls[0]).split())
    if function == "erf" and inner.rpartition("erf")[2] in {
        f"({x}/{root})" for root in ("math.sqrt(2)", "math.sqrt(2.0)", "2**0.5", "1.4142135623730951")
    }:
        return f"torch.nn.functional.gelu({x})"
    if function == "tanh" and "0.044715" in inner and _is_cubic(calls[0], x):
        return f'torch.nn.functional.gelu({x}, approximate="tanh")'
    return None


def _is_cubic(call: ast.Call, x: str) -> bool:
    """Whether the argument of a tanh is ``sqrt(2 / pi) * (x + 0.044715 * x ** 3)``: checked by its value at points."""
    import math

    tree = ast.Expression(call.args[0]) if call.args else None
    if tree is None or any(not isinstance(one, _ARITHMETIC) for one in ast.walk(tree)):
        return False
    for point in (0.5, -1.25, 2.0):
        value = _evaluated(call.args[0], x, point)
        if value is None or abs(value - math.sqrt(2 / math.pi) * (point + 0.044715 * point**3)) > 1e-5:
            return False
    return True


_ARITHMETIC: Final = (
    *(ast.Expression, ast.BinOp, ast.Constant, ast.Name, ast.Attribute, ast.Call, ast.UnaryOp, ast.operator),
    *(ast.unaryop, ast.expr_context),
)


def _evaluated(node: ast.expr, x: str, point: float) -> float | None:
    """The value of an arithmetic expression of `x`; None for anything else."""
    import math

    if isinstance(node, ast.Constant):
        return float(node.value) if isinstance(node.value, int | float) else None
    if dotted(node) == x:
        return point
    if dotted(node) in ("math.pi", "np.pi", "torch.pi"):
        return math.pi
    if isinstance(node, ast.BinOp):
        left, right = _evaluated(node.left, x, point), _evaluated(node.right, x, point)
        if left is None or right is None:
            return None
        operators: dict[type, Any] = {
            ast.Add: lambda: left + right,
            ast.Sub: lambda: left - right,
            ast.Mult: lambda: left * right,
            ast.Div: lambda: left / right,
            ast.Pow: lambda: left**right,
        }
        found = operators.get(type(node.op))
        return None if found is None else found()
    if isinstance(node, ast.Call):
        values = [_evaluated(one, x, point) for one in node.args]
        name = dotted(node.func).rpartition(".")[2]
        if name == "sqrt" and len(values) == 1 and values[0] is not None and values[0] >= 0:
            return math.sqrt(values[0])
        if name == "pow" and len(values) == 2 and None not in values:
            return float(values[0] ** values[1])  # type: ignore[operator]
    return None


def _factors(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left), *_factors(node.right)]
    return [node]


def _number(node: ast.AST) -> float | None:
    is_number = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return float(node.value) if is_number else None  # type: ignore[attr-defined]


def _layer_norm(source: Source, node: ast.BinOp) -> tuple[str, str, ast.stmt | None, str] | None:
    """``x``, the epsilon, and the statement that makes the centred tensor, of a layer norm without weights."""
    if not isinstance(node.op, ast.Div) or not isinstance(node.left, ast.Name):
        return None
    name, last = node.left.id, source.statement(node)
    stores = [one for one in source.nodes(ast.Name) if one.id == name and not isinstance(one.ctx, ast.Load)]
    centred = source.statement(stores[0]) if len(stores) == 1 else None
    if not isinstance(centred, ast.Assign) or centred.targets != stores:
        return None
    if source.parent(centred) is not source.parent(last) or centred.lineno >= last.lineno:
        return None  # not in the same block, in this order
    if not is_steady(source, names_read(centred.value) | {name}, centred, last):
        return None
    if not isinstance(centred.value, ast.BinOp) or not isinstance(centred.value.op, ast.Sub):
        return None
    x = dotted(centred.value.left)
    if not x or not _is_mean(centred.value.right, x):
        return None
    call = node.right
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "sqrt":
        return None
    inner = call.func.value
    epsilon, mean = _added(inner)
    squares = (
        f"({name} * {name})",
        f"{name} * {name}",
        f"{name} ** 2",
        f"({name} ** 2)",
        f"{name}.square()",
        f"{name}.pow(2)",
    )
    is_variance = isinstance(mean, ast.Call) and isinstance(mean.func, ast.Attribute) and mean.func.attr == "mean"
    if epsilon is None or not is_variance or ast.unparse(mean.func.value) not in squares or not _is_last(mean):
        return None
    uses = [one for one in ast.walk(source.tree) if isinstance(one, ast.Name) and one.id == name]
    inside = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id == name]
    return x, source.text_of(epsilon), centred if len(uses) == len(inside) + 1 else None, name


def _added(node: ast.expr) -> tuple[ast.expr | None, Any]:
    """The number that is added to a tensor, and the tensor."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        pair = (node.right, node.left) if _number(node.right) is not None else (node.left, node.right)
        return (pair[0], pair[1]) if _number(pair[0]) is not None else (None, None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add" and node.args:
        return (node.args[0], node.func.value) if _number(node.args[0]) is not None else (None, None)
    return None, None


def _is_mean(node: ast.expr, x: str) -> bool:
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "mean"
    return is_method and dotted(node.func.value) == x and _is_last(node)  # type: ignore[attr-defined]


def _is_last(call: Any) -> bool:
    dim, keep = argument(call, 0, "dim"), argument(call, 1, "keepdim")
    return dim is not None and ast.unparse(dim) == "-1" and keep is not None and ast.unparse(keep) == "True"


@dataclass(frozen=True)
class _Scores:
    """The parts of ``q @ k.transpose(-2, -1) * scale + mask``."""

    query: str
    key: str
    scale: str = "1.0"
    mask: str = ""


def fused_attention(program: Program, finding: Finding | None) -> Iterator[Fix]:
    """Rewrite ``softmax(q @ k.transpose(-2, -1) * scale + mask, -1) @ v``, in one expression or over statements.

    The mask may also be one of ``masked_fill(mask, -inf)``.
    """
    edits: dict[Unit, list[Edit]] = {}
    removed: dict[Unit, list[ast.stmt]] = {}
    dropped: set[str] = set()
    for unit in program.units:
        source = unit.source
        for node in source.nodes(ast.BinOp, ast.Call):
            operands = _product(program, node)
            if operands is None:
                continue
            chain = _Chain(program, source, source.statement(node))
            scores = chain.softmax(operands[0])
            if scores is None:
                continue
            arguments = [scores.query, scores.key, source.text_of(operands[1])]
            if scores.mask:
                arguments.append(f"attn_mask={scores.mask}")
            arguments.append(f"scale={scores.scale}")
            text = f"torch.nn.functional.scaled_dot_product_attention({', '.join(arguments)})"
            found = edits.setdefault(unit, [])
            found.append(source.replace(node, text))
            removed.setdefault(unit, []).extend(chain.used)
            dropped |= chain.dropped if unit.function is None else set()
    for unit, statements in removed.items():
        edits[unit] += unit.source.remove_all(statements)
    if edits:
        yield Fix(
            "eager_attention",
            "use scaled_dot_product_attention",
            edits_by_unit(edits),
            changes_numbers=True,
            dropped=frozenset(dropped),
            needs=f"No longer assigned: {', '.join(sorted(dropped))}." if dropped else "",
        )


class _Chain:
    """Reads an expression, through variables that the statements before assign and only it reads."""

    def __init__(self, program: Program, source: Source, statement: ast.stmt) -> None:
        self._program, self._source, self._statement = program, source, statement
        self.used: list[ast.stmt] = []
        self.dropped: set[str] = set()

    def softmax(self, node: ast.expr) -> _Scores | None:
        """Read the attention weights."""
        node = self._inlined(node)
        if not isinstance(node, ast.Call):
            return None
        is_method = isinstance(node.func, ast.Attribute) and not self._program.names.path(node.func)
        is_method = is_method or _is_tensor(self._program, getattr(node.func, "value", None))
        if is_method:
            if getattr(node.func, "attr", "") != "softmax":
                return None
            scores, dim = node.func.value, argument(node, 0, "dim")  # type: ignore[attr-defined]
        elif self._program.names.is_call_of(node, "softmax") and node.args:
            scores, dim = node.args[0], argument(node, 1, "dim")
        else:
            return None
        if dim is None or ast.unparse(dim) not in ("-1", "3") or any(one.arg == "dtype" for one in node.keywords):
            return None
        return self._scores(scores)

    def _scores(self, node: ast.expr) -> _Scores | None:
        node = self._inlined(node)
        text = self._source.text_of
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            inner = self._scores(node.left)
            is_other = str(getattr(self._program.names.value(node.right), "dtype", "")) == "torch.bool"
            return None if inner is None or inner.mask or is_other else replace(inner, mask=text(node.right))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            left = self._scores(node.left)
            if left is not None and left.scale == "1.0" and not left.mask:
                factor = text(node.right) if isinstance(node.op, ast.Mult) else f"1 / {_in_brackets(node.right, text)}"
                return replace(left, scale=factor) if self._is_number(node.right) else None
            right = self._scores(node.right) if isinstance(node.op, ast.Mult) else None
            if right is not None and right.scale == "1.0" and not right.mask and self._is_number(node.left):
                return replace(right, scale=text(node.left))
            return None
        if isinstance(node, ast.Call) and _is_filled_with_infinity(node):
            assert isinstance(node.func, ast.Attribute)
            inner = self._scores(node.func.value)
            return None if inner is None or inner.mask else replace(inner, mask=_is_kept(node.args[0], text))
        operands = _product(self._program, node)
        if operands is None:
            return None
        key = _transposed(operands[1], text)
        return None if key is None else _Scores(text(operands[0]), key)

    def _is_number(self, node: ast.expr) -> bool:
        """Whether a factor is a number, as far as its text and the values of variables show."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int | float)
        if isinstance(node, ast.BinOp):
            return self._is_number(node.left) and self._is_number(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_number(node.operand)
        if isinstance(node, ast.Call):
            is_size = isinstance(node.func, ast.Attribute) and node.func.attr == "size"
            return is_size or self._program.names.path(node.func) in ("math.sqrt", "numpy.sqrt")
        value = self._program.names.value(node)
        if value is None:
            return (isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") == "shape") or _is_scale_name(
                node
            )
        return isinstance(value, int | float)

    def _inlined(self, node: ast.expr) -> ast.expr:
        """Return what a variable holds that one statement assigns and only this expression reads."""
        if not isinstance(node, ast.Name):
            return node
        statement = self._definition(node)
        if statement is None or statement not in self._block():
            return node
        # The expression moves to the statement of the product: what it reads must be the same there.
        if not is_steady(self._source, names_read(statement.value), statement, self._statement, self.used):
            return node
        self.used.append(statement)
        self.dropped.add(node.id)
        return statement.value

    def _definition(self, use: ast.Name) -> ast.Assign | None:
        """Return the assignment of the value that a name has at `use`, if nothing else reads this value."""
        found = [one for one in ast.walk(self._scope()) if isinstance(one, ast.Name) and one.id == use.id]
        is_store = {one: not isinstance(one.ctx, ast.Load) for one in found}
        # Within a statement, what it reads comes before what it assigns.
        found.sort(key=lambda one: (self._source.statement(one).lineno, is_store[one], one.lineno, one.col_offset))
        if not is_store[found[0]]:  # of an iteration before
            return None
        if any(isinstance(one.ctx, ast.Del) for one in found) or self._is_captured(use.id):
            return None
        place = found.index(use)
        if not is_store[found[place - 1]] or (place + 1 < len(found) and not is_store[found[place + 1]]):
            return None
        store = found[place - 1]
        statement = self._source.statement(store)
        is_plain = isinstance(statement, ast.Assign) and statement.targets == [store]
        return statement if is_plain and isinstance(statement, ast.Assign) else None

    def _is_captured(self, name: str) -> bool:
        """Whether a function inside of the scope reads the name, whenever it is called."""
        inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        scope = self._scope()
        functions = [one for one in ast.walk(scope) if isinstance(one, inner) and one is not scope]
        return any(name in names_read(one) for one in functions)

    def _block(self) -> list[ast.stmt]:
        parent = self._source.parent(self._statement)
        blocks = [getattr(parent, name, []) for name in ("body", "orelse", "finalbody")]
        return next((block for block in blocks if isinstance(block, list) and self._statement in block), [])

    def _scope(self) -> ast.AST:
        for one in self._source.around(self._statement):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                return one
        return self._source.tree


def _product(program: Program, node: Any) -> tuple[ast.expr, ast.expr] | None:
    """The operands of a matrix product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if isinstance(node, ast.Call) and program.names.is_call_of(node, "matmul", "bmm") and len(node.args) == 2:
        return node.args[0], node.args[1]
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1
    if is_method and node.func.attr in ("matmul", "bmm") and not program.names.path(node.func.value):
        return node.func.value, node.args[0]
    return None


def _transposed(node: ast.expr, text: Any) -> str | None:
    """The text of ``k`` in ``k.transpose(-2, -1)``, ``k.mT`` or ``k.permute(0, 1, 3, 2)``."""
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        return str(text(node.value))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        given = [ast.unparse(one) for one in node.args]
        if node.func.attr == "transpose" and sorted(given) in (["-1", "-2"], ["2", "3"]):
            return str(text(node.func.value))
        if node.func.attr == "permute" and given == ["0", "1", "3", "2"]:
            return str(text(node.func.value))
    return None


def _is_filled_with_infinity(call: ast.Call) -> bool:
    """Whether a call is ``scores.masked_fill(mask, float("-inf"))``: masked keys have no weight."""
    is_fill = isinstance(call.func, ast.Attribute) and call.func.attr == "masked_fill"
    if not is_fill or len(call.args) != 2 or call.keywords:
        return False
    value = ast.unparse(call.args[1])
    return value in ("float('-inf')", "-float('inf')", "-math.inf", "-torch.inf", "-np.inf")


def _is_kept(mask: ast.expr, text: Any) -> str:
    """The text of the mask of the keys that count, which is the opposite of the given one."""
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return str(text(mask.operand))
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1 and isinstance(mask.ops[0], ast.Eq):
        return f"{text(mask.left)} != {text(mask.comparators[0])}"
    return f"~{_in_brackets(mask, text)}"


def _is_tensor(program: Program, node: ast.AST | None) -> bool:
    return hasattr(program.names.value(node), "untyped_storage")


def _is_scale_name(node: ast.expr) -> bool:
    """Whether a local variable or an attribute is called as a number of attention is called."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("scale", "scaling", "d_k", "head_dim", "dim_head", "d_head", "softmax_scale", "sqrt_d")


def _in_brackets(node: ast.expr, text: Any) -> str:
    return (
        str(text(node)) if isinstance(node, ast.Constant | ast.Name | ast.Call | ast.Attribute) else f"({text(node)})"
    )
