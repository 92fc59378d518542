"""Programs with state, side effects, views, gradients and random numbers observe the same with graphs as without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from budget import examples
from graph_scenarios import undisturbed
from graph_scenarios.random_programs import (
    CHANGES,
    STATEMENTS,
    Program,
    difference,
    one_feature,
    random_program,
)

from cudalens import virtual

pytestmark = pytest.mark.filterwarnings("ignore:cudalens:RuntimeWarning")

#: Programs of several statements in which a graph once differed, or in which one hides what another does.
TOGETHER = (
    Program(("z = y.exp(); z.add_(1); y = y + z",), {}, (True,) * 7),
    Program(("outs.append(x.detach())", "y = y * 2"), {}, (True,) * 7),
    Program(("thing.state = thing.state + y.detach()", "y = y + thing.state"), {}, (False,) * 7),
    Program(("y = y + torch.rand_like(y)", "y = F.dropout(y, 0.5)", "outs.append(y.view(2, 3))"), {}, (True,) * 7),
    Program(("y = y * w", "y = net(y.view(1, 6)).view(6)"), {3: "w.requires_grad_(False)"}, (None,) * 3 + (True,) * 4),
    Program(("if thing.flag: log.append(1)", "y = y * 2"), {5: "thing.flag = True"}, (False,) * 7),
    Program(("if thing.flag: y = y * 3", "y = thing * y"), {3: "thing.flag = True", 5: "thing.k = 7.0"}, (True,) * 7),
    Program(("helper(y)", "y = helper(y)"), {4: "helper = traced"}, (False,) * 7),
    Program(  # the gradient of y is a sum of three; in another order, its last bit differs
        (
            *("y = F.dropout(y, 0.5)", "outs.append(y[2:5])", "buf.add_(1)", "outs.append(y)"),
            *("outs.append(x.detach())", "outs.append({'n': thing.n, 'y': y.cos()})"),
        ),
        {5: "w = nn.Parameter(w.detach() + 1)"},
        (True,) * 7,
    ),
)

#: Changes with a statement that reads what they change.
CHANGED = (
    ("y = y + cfg['scale']", "cfg['scale'] += 1"),
    ("y = y * thing.k", "thing.k += 0.5"),
    ("y = thing * y", "thing.k += 0.5"),
    ("y = thing * y", "Thing.__mul__ = lambda self, other: other + self.k"),
    ("y = y * sum(getattr(thing, name) for name in ('k', 'n'))", "thing.n = 5"),
    ("y = y * FACTOR", "FACTOR += 1"),
    ("y = helper(y)", "helper = triple"),
    ("y = y * w", "w.requires_grad_(not w.requires_grad)"),
    ("y = y * w", "w.data = w.data * 2"),
    ("y = y * w", "w = nn.Parameter(w.detach() + 1)"),
    ("y = y + buf", "buf = torch.ones(6, device='cuda')"),
    ("y = y + thing.state", "thing.state = torch.ones(6, device='cuda')"),
    ("y = net(y.view(1, 6)).view(6)", "net.eval()"),
    ("y = net(y.view(1, 6)).view(6)", "net[1] = nn.Tanh()"),
    ("y = net(y.view(1, 6)).view(6)", "net[2].eps = 0.1"),
    ("y = net(y.view(1, 6)).view(6)", "net[0].register_forward_hook(lambda module, args, out: out * 2)"),
    ("y = y * float(os.environ.get('CUDALENS_TEST_SCALE', '1'))", "os.environ['CUDALENS_TEST_SCALE'] = '3'"),
    ("y = y * float(table[0])", "table[0] += 1"),
    ("y = y + host.item()", "host.add_(1)"),
)

HAND_MADE = (
    *((statement, one_feature(statement)) for statement in STATEMENTS),
    *((f"{statement}; {change}", one_feature(statement, change)) for statement, change in CHANGED),
    *((f"together {number}", program) for number, program in enumerate(TOGETHER)),
)

#: Seeds of the random programs, in groups.
SEEDS = [range(first, first + 25) for first in range(0, examples(250), 25)]


@pytest.fixture(scope="module", autouse=True)
def _device() -> Iterator[None]:
    with undisturbed(), virtual.device("h100"):
        yield


@pytest.mark.parametrize("program", [program for _, program in HAND_MADE], ids=[name for name, _ in HAND_MADE])
def test_a_program_observes_the_same_with_graphs(program: Program) -> None:
    assert difference(program) is None


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_random_programs_observe_the_same_with_graphs(seeds: range) -> None:
    differ = {seed: found for seed in seeds if (found := difference(random_program(seed))) is not None}
    assert not differ


def test_the_table_holds_what_programs_do() -> None:
    assert len(HAND_MADE) >= 60
    assert {change for _, change in CHANGED} - set(CHANGES) <= {
        "thing.n = 5",
        "net[0].register_forward_hook(lambda module, args, out: out * 2)",
    }
