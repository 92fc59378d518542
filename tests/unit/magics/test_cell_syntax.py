"""The text and the tree of a profiled cell, without running it. What running it does, tests/integration shows."""

import ast
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from cudalens.magics import MAGICS
from cudalens.magics.syntax import CellSyntax


def transformed(cell):
    """The text that IPython compiles for `cell`, and the transformer."""
    syntax = CellSyntax(types.SimpleNamespace(ast_node_interactivity="last_expr"), MAGICS)
    manager = TransformerManager()
    manager.cleanup_transforms.append(syntax)
    return manager.transform_cell(cell), syntax


def tree_of(cell):
    text, syntax = transformed(cell)
    return ast.fix_missing_locations(syntax.visit(ast.parse(text)))


LINES = st.lists(
    st.sampled_from(
        ["x = 1", "", "   ", "# said", "y = '''", "''' + 'z'", "if x:", "    pass", "x", "%pwd", "!ls", "x;"]
    )
)


@given(LINES)
def test_every_line_keeps_its_number(lines):
    body = "\n".join(lines)
    text, _ = transformed(f"%%cudaprofile --memory\n{body}")
    first = next((line for line in lines if line.strip()), " ")
    if first.startswith(" "):  # an empty cell is no magic, an indented one is moved to the left
        return
    plain = TransformerManager().transform_cell("# the magic's line\n" + body)
    assert text.splitlines()[1:] == plain.splitlines()[1:]


@pytest.mark.parametrize(
    "cell", ["", "x", "'%%cudaprofile'\nx", "u'%%cudaprofiler'\nx", "# %%cudaprofile\nx", "%%time\nx"]
)
def test_other_cells_stay_as_they_are(cell):
    text, _ = transformed(cell)
    assert text == TransformerManager().transform_cell(cell)
    assert ast.dump(tree_of(cell)) == ast.dump(ast.parse(text))


def test_the_block_holds_everything_but_future_imports_and_the_value():
    tree = tree_of("%%cudaprofile\nfrom __future__ import annotations\nx = 1\nx + 1")
    future, block, value = tree.body
    assert isinstance(future, ast.ImportFrom)
    assert isinstance(block, ast.With)
    assert [statement.lineno for statement in block.body] == [3, 4]
    assert isinstance(value, ast.Expr)
    assert value.lineno == 4


def test_steps_loop_inside_the_block():
    (block,) = tree_of("%%cudaprofile --repeat 2\nx = 1").body
    (loop,) = block.body
    assert isinstance(loop, ast.For)
    assert [statement.lineno for statement in loop.body] == [2]


@pytest.mark.parametrize("statement", ["break", "continue", "return", "yield"])
def test_no_loop_makes_a_stray_statement_valid(statement):
    tree = tree_of(f"%%cudaprofile --repeat 2\n{statement}")
    with pytest.raises(SyntaxError):
        compile(tree, "cell", "exec")


def test_nested_lines_nest_blocks_with_names_of_their_own():
    (outer,) = tree_of("%%cudaprofile a\n\n%%cudaprofile b\nx = 1").body
    (inner,) = outer.body
    assert isinstance(inner, ast.With)
    assert outer.items[0].optional_vars.id != inner.items[0].optional_vars.id
    assert "'a'" in ast.unparse(outer.items[0])
    assert "'b'" in ast.unparse(inner.items[0])


def test_the_source_is_kept_as_typed():
    (block, *_) = tree_of("%%cudaprofile\n  x = 1  # why\n  %pwd\n").body
    source = block.items[0].context_expr.args[3].value
    assert source == "  x = 1  # why\n  %pwd\n"


def test_a_hostile_line_stays_text():
    line = "'; __import__('os').abort() #\\"
    (block,) = tree_of(f"%%cudaprofile {line}\nx = 1").body
    assert block.items[0].context_expr.args[2].value == line
