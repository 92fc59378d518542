"""Arguments, and tensors from outside: copied, static, moved, overwritten."""

from __future__ import annotations

import functools

import torch

from cudalens.errors import GraphError
from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, fails, reason_row, reasons, recordings, same, scenario, values


@scenario
def arguments_are_copied_and_never_kept(m: GraphManager) -> None:
    import weakref

    step = m.wrap(lambda x: x + 1)
    for n in range(4):
        x = values() + n
        token = weakref.ref(x)
        same(step(x), x + 1)
        del x
        assert token() is None
    assert recordings(m)["copied_bytes"].tolist() == [24]


@scenario
def expanded_dimensions_are_copied_once(m: GraphManager) -> None:
    step = m.wrap(lambda x: x.sum(0) + 1)
    for n in range(4):
        x = (values() + n).expand(1000, 6)
        same(step(x), x.sum(0) + 1)
    m_x = (values().view(2, 3, 1) + 5).expand(2, 3, 7)
    other = m.wrap(lambda x: x.contiguous() * 2)
    for _ in range(4):
        same(other(m_x), m_x * 2)
    assert recordings(m)["copied_bytes"].max() <= 24 * 1000 * 6 / 6


@scenario
def misaligned_arguments_are_copied(m: GraphManager) -> None:
    step = m.wrap(lambda x: x.cumsum(0))
    for offset in (0, 1, 2, 3, 1, 1, 2):
        x = torch.arange(40.0, device="cuda")[offset : offset + 30]
        same(step(x), x.cumsum(0))
    assert counts(step) == (1, 1, 5, 0)


@scenario
def strided_arguments_with_gaps(m: GraphManager) -> None:
    step = m.wrap(lambda x, y: x * 2 + y.t())
    for n in range(4):
        x = (torch.arange(24.0, device="cuda") + n).view(4, 6)[:, ::2]
        y = (torch.arange(24.0, device="cuda") - n).view(6, 4)[1::2]
        same(step(x, y), x * 2 + y.t())


@scenario
def one_tensor_as_two_arguments(m: GraphManager) -> None:
    step = m.wrap(lambda x, y: x * 2 + y)
    for n in range(4):
        x = values() + n
        same(step(x, x), x * 3)
        same(step(x, values()), x * 2 + values())
        same(step(x[1:], x[:-1]), x[1:] * 2 + x[:-1])


@scenario
def outputs_of_the_last_step_as_arguments_of_this_one(m: GraphManager) -> None:
    """A decode loop: what it reads lies where this step writes."""
    step = m.wrap(lambda x, y: (y + 1, x * 2))
    x, y = values(), values() * 10
    a, b = x, y
    for _ in range(7):
        x, y = step(x, y)
        a, b = b + 1, a * 2
        same((x, y), (a, b))
    assert counts(step) == (1, 1, 5, 0)


@scenario
def views_of_the_last_step_s_outputs_as_arguments(m: GraphManager) -> None:
    step = m.wrap(lambda x, y: torch.cat([y * 2, x + 1]))
    state = reference = values()
    for _ in range(7):
        state = step(state[3:], state[:3])
        reference = torch.cat([reference[:3] * 2, reference[3:] + 1])
        same(state, reference)


@scenario
def swapped_outputs_as_arguments(m: GraphManager) -> None:
    step = m.wrap(lambda x, y: (x + 1, y * 2))
    x, y = values(), values() * 10
    a, b = x, y
    for n in range(9):
        x, y = step(y, x) if n % 2 else step(x, y)
        a, b = (b + 1, a * 2) if n % 2 else (a + 1, b * 2)
        same((x, y), (a, b))


# Arguments that the function overwrites.


def increment(cache, x):
    cache.add_(x)
    return cache * 2


@scenario
def an_overwritten_argument_skips_the_graph(m: GraphManager) -> None:
    step = m.wrap(increment)
    cache, expected = values(), values()
    for _ in range(4):
        same(step(cache, values()), increment(expected, values()))
        same(cache, expected)
    assert counts(step)[1:3] == (0, 0)
    row = reason_row(m, "MUTATED_INPUT")
    assert "'cache' (add_)" in row["detail"]
    assert row["source"].strip() == "cache.add_(x)"
    assert "mutations='copy'" in row["advice"]


@scenario
def an_overwritten_argument_is_copied_back(m: GraphManager) -> None:
    step = m.wrap(increment, mutations="copy")
    for n in range(6):
        cache, expected = values() + n, values() + n
        same(step(cache, values()), increment(expected, values()))
        same(cache, expected)
    assert counts(step) == (1, 1, 4, 0)


@scenario
def an_overwritten_view_is_copied_back(m: GraphManager) -> None:
    step = m.wrap(lambda part, x: part.mul_(x).sum(), mutations="copy")
    for n in range(5):
        cache, expected = (torch.arange(12.0, device="cuda").view(3, 4) + n for _ in range(2))
        same(step(cache[:, 1:3], 3.0), expected[:, 1:3].mul_(3.0).sum())
        same(cache, expected)


@scenario
def writes_through_a_view_inside_the_function_are_seen(m: GraphManager) -> None:
    def function(cache, x):
        cache.view(2, 3)[0].copy_(x)
        return cache.sum()

    skipped, copied = m.wrap(function), m.wrap(function, mutations="copy")
    for n in range(4):
        for step in (skipped, copied):
            cache, expected = values(), values()
            x = values(7, 8, 9) + n
            same(step(cache, x), function(expected, x))
            same(cache, expected)
    assert counts(skipped)[2] == 0
    assert counts(copied) == (1, 1, 2, 0)


@scenario
def out_arguments_are_seen_as_written(m: GraphManager) -> None:
    def function(x, out):
        torch.add(x, 1, out=out)
        return out

    skipped, copied = m.wrap(function), m.wrap(function, mutations="copy")
    for n in range(4):
        for step in (skipped, copied):
            out = torch.zeros(6, device="cuda")
            assert step(values() + n, out) is out
            same(out, values() + n + 1)
    assert reason_row(m, "MUTATED_INPUT")["count"] >= 2


@scenario
def two_arguments_that_overlap_and_are_written(m: GraphManager) -> None:
    """Copies would be apart where the arguments are not."""

    def function(a, b):
        a.add_(1)
        return b * 2

    step = m.wrap(function, mutations="copy")
    for n in range(5):
        x, y = values() + n, values() + n
        same(step(x, x), function(y, y))
        same(x, y)


@scenario
def a_static_argument_may_be_overwritten(m: GraphManager) -> None:
    step = m.wrap(increment, static="cache")
    cache, expected = values(), values()
    for n in range(6):
        same(step(cache, values() + n), increment(expected, values() + n))
        same(cache, expected)
    assert counts(step) == (1, 1, 4, 0)
    assert not reasons(m)


@scenario
def a_static_argument_that_moved_is_recorded_anew(m: GraphManager) -> None:
    step = m.wrap(lambda cache, x: cache * x, static=["cache"])
    caches = [values(), values() + 1]
    for n in range(9):
        cache = caches[n // 3 % 2]
        same(step(cache, values()), cache * values())
    assert counts(step) == (1, 2, 6, 0)
    row = reason_row(m, "STATIC_MOVED")
    assert "'cache'" in row["detail"]
    assert "copy_" in row["advice"]


@scenario
def static_by_position_and_inside_of_containers(m: GraphManager) -> None:
    step = m.wrap(lambda x, caches: (caches["k"].add_(x), caches["v"][0].sub_(x))[0] * 1, static=1)
    caches, x = {"k": values(), "v": [values()]}, values()
    for n in range(5):
        same(step(x, caches), values() + (n + 1) * x)
        same(caches["v"][0], values() - (n + 1) * x)
    assert counts(step) == (1, 1, 3, 0)


@scenario
def static_names_that_are_not_there_are_an_error(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1, static="cache")
    fails(lambda: step(values()), GraphError, "static='cache'", "x")


@scenario
def an_output_of_the_path_may_be_overwritten(m: GraphManager) -> None:
    a, b = m.wrap(lambda x: x + 1), m.wrap(lambda p: p.mul_(3).sum())
    for n in range(6):
        p = a(values() + n)
        same(b(p), ((values() + n + 1) * 3).sum())
        same(p, (values() + n + 1) * 3)
        del p
    assert counts(b)[3] == 0
    assert counts(b)[2] > 0


@scenario
def overwritten_now_from_the_path_now_from_outside(m: GraphManager) -> None:
    a, b = m.wrap(lambda x: x + 1), m.wrap(lambda p: p.mul_(3).sum())
    for n in range(8):
        p = a(values() + n) if n % 2 == 0 else values() + n + 1
        same(b(p), ((values() + n + 1) * 3).sum())
        same(p, (values() + n + 1) * 3)
        del p


@scenario
def an_external_tensor_is_overwritten_in_place(m: GraphManager) -> None:
    total = torch.zeros(6, device="cuda")

    def function(x):
        total.add_(x)
        return total.sum()

    step = m.wrap(function)
    expected = 0.0
    for n in range(6):
        expected += float((values() + n).sum())
        assert float(step(values() + n)) == expected
    assert counts(step) == (1, 1, 4, 0)


@scenario
def a_batch_norm_s_statistics_are_updated_once_per_call(m: GraphManager) -> None:
    torch.manual_seed(1)
    layer, twin = (torch.nn.BatchNorm1d(3, device="cuda") for _ in range(2))
    step = m.wrap(layer)
    with torch.no_grad():
        for n in range(6):
            x = torch.arange(12.0, device="cuda").view(4, 3) * (n + 1)
            same(step(x), twin(x))
            same(layer.running_mean, twin.running_mean)
            same(layer.running_var, twin.running_var)
            same(layer.num_batches_tracked, twin.num_batches_tracked)
    assert counts(step) == (1, 1, 4, 0)


# Tensors from outside that move.


table = torch.zeros(1)


@scenario
def a_global_that_is_bound_anew(m: GraphManager) -> None:
    global table
    step = m.wrap(lambda x: x * table)
    for n in range(9):
        if n % 3 == 0:
            table = values() + n
        same(step(values()), values() * (values() + n // 3 * 3))
    table = torch.zeros(1)
    row = reason_row(m, "STATIC_MOVED")
    assert "'table'" in row["detail"]
    assert row["count"] == 2


@scenario
def a_closure_that_is_bound_anew(m: GraphManager) -> None:
    scale = values()
    step = m.wrap(lambda x: x * scale)
    for n in range(9):
        if n % 3 == 0:
            scale = values() + n
        same(step(values()), values() * scale)
    assert "'scale'" in reason_row(m, "STATIC_MOVED")["detail"]


@scenario
def an_attribute_that_is_bound_anew(m: GraphManager) -> None:
    class Decoder:
        def __init__(self):
            self.cache = [values()]

        def step(self, x):
            return x + self.cache[0]

    decoder = Decoder()
    step = m.wrap(decoder.step)
    for n in range(9):
        if n % 3 == 0:
            decoder.cache[0] = values() * n
        same(step(values()), values() + decoder.cache[0])
    assert "self.cache[0]" in reason_row(m, "STATIC_MOVED")["detail"]


@scenario
def a_parameter_that_moves(m: GraphManager) -> None:
    layer = torch.nn.Linear(6, 2, device="cuda")
    step = m.wrap(layer)
    kept = []
    with torch.no_grad():
        for n in range(12):
            kept.append(layer.weight.data)
            if n == 3:
                layer.weight.data = torch.ones(2, 6, device="cuda")
            elif n == 6:
                layer.weight = torch.nn.Parameter(torch.ones(2, 6, device="cuda") * 2)
            elif n == 9:
                layer.load_state_dict({"weight": torch.ones(2, 6) * 3, "bias": torch.zeros(2)})  # in place
            same(step(values()), layer(values()))
    row = reason_row(m, "STATIC_MOVED")
    assert "'weight'" in row["detail"]
    assert row["count"] == 2
    assert counts(step)[3] == 0


@scenario
def a_buffer_that_is_replaced(m: GraphManager) -> None:
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", values())

        def forward(self, x):
            return x * self.scale

    module = Scaled()
    step = m.wrap(module)
    for n in range(9):
        if n % 3 == 0:
            module.scale = values() + n
        same(step(values()), values() * module.scale)
    assert "scale" in reason_row(m, "STATIC_MOVED")["detail"]


@scenario
def a_name_that_disappears(m: GraphManager) -> None:
    held = {"w": values()}
    step = m.wrap(lambda x: x * held.get("w", torch.ones((), device="cuda")))
    for n in range(6):
        if n == 4:
            del held["w"]
        same(step(values()), values() * (values() if n < 4 else 1))


@scenario
def an_external_tensor_is_kept_alive_by_its_recording(m: GraphManager) -> None:
    """A graph reads addresses: what it reads must not be freed below it."""
    make = functools.partial(torch.full, (6,), device="cuda")
    held = [make(fill_value=3.0)]
    step = m.wrap(lambda x: x * held[0])
    for _ in range(3):
        step(values())
    held[0] = make(fill_value=5.0)
    noise = [make(fill_value=-1.0) for _ in range(8)]
    same(step(values()), values() * 5)
    assert noise[0][0] == -1


# How arguments are given.


@scenario
def keywords_defaults_and_rest_arguments(m: GraphManager) -> None:
    bias = values()

    def function(x, *rest, scale=2.0, shift=bias, **more):
        return sum((t for t in rest), x * scale) + shift + sum(more.values())

    step = m.wrap(function)
    calls = [((), {}), ((values(),), {}), ((), {"scale": 3.0}), ((), {"shift": values() * 4, "k": values()})]
    for n in range(4):
        for args, kwargs in calls:
            same(step(values() + n, *args, **kwargs), function(values() + n, *args, **kwargs))
    assert counts(step)[3] == 0
    assert counts(step)[2] >= 8


@scenario
def the_order_of_keywords_does_not_matter(m: GraphManager) -> None:
    step = m.wrap(lambda *, a, b: a - b)
    for n in range(6):
        a, b = values() + n, values() * n
        same(step(a=a, b=b) if n % 2 else step(b=b, a=a), a - b)
    assert counts(step)[3] == 0


@scenario
def partials_and_methods_and_static_methods(m: GraphManager) -> None:
    class Model:
        weight = None

        def __init__(self, factor):
            self.factor = values() * factor

        def step(self, x):
            return x * self.factor

        @staticmethod
        def plain(x):
            return x + 1

        @classmethod
        def of_class(cls, x):
            return x + 2

        def __call__(self, x):
            return x - self.factor

    def scaled(x, w, *, b):
        return x * w + b

    model = Model(3)
    w, b = values(), values() * 2
    wrapped = [
        (m.wrap(function), function)
        for function in (model.step, Model.plain, Model.of_class, model, functools.partial(scaled, w=w, b=b))
    ]
    for n in range(4):
        for step, function in wrapped:
            same(step(values() + n), function(values() + n))
    assert all(counts(step) == (1, 1, 2, 0) for step, _ in wrapped)


@scenario
def builtins_and_torch_functions(m: GraphManager) -> None:
    add, relu = m.wrap(torch.add), m.wrap(torch.nn.functional.relu)
    for n in range(4):
        same(add(values(), values() + n), values() + values() + n)
        same(relu(values() - n), (values() - n).relu())
    assert counts(add) == (1, 1, 2, 0)


@scenario
def a_module_as_an_argument(m: GraphManager) -> None:
    layers = [torch.nn.Linear(6, 3, device="cuda") for _ in range(2)]
    step = m.wrap(lambda layer, x: layer(x) * 2)
    with torch.no_grad():
        for n in range(8):
            x = values() + n
            same(step(layers[n % 2], x), layers[n % 2](x) * 2)
        layers[0].weight.data = layers[0].weight.data * 2
        same(step(layers[0], values()), layers[0](values()) * 2)
    assert counts(step)[:3] == (2, 3, 4)


@scenario
def a_module_argument_in_another_mode(m: GraphManager) -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(6, 6, device="cuda"), torch.nn.Dropout(0.999))
    step = m.wrap(lambda layer, x: layer(x))
    with torch.no_grad():
        for _ in range(3):
            layer.train()
            dropped = step(layer, values())
            layer.eval()
            same(step(layer, values()), layer(values()))
            assert dropped.shape == (6,)


@scenario
def unhashable_arguments_run_eager(m: GraphManager) -> None:
    class Config:
        __hash__ = None  # type: ignore[assignment]
        scale = 3

    step = m.wrap(lambda x, config: x * config.scale)
    for _ in range(3):
        same(step(values(), Config()), values() * 3)
    assert reasons(m) == {"UNHASHABLE": 3}
    assert counts(step) == (0, 0, 0, 3)


@scenario
def objects_as_arguments_are_keys(m: GraphManager) -> None:
    class Config:
        def __init__(self, scale):
            self.scale = scale

    step = m.wrap(lambda x, config: x * config.scale)
    configs = [Config(2), Config(5)]
    for _ in range(4):
        for config in configs:
            same(step(values(), config), values() * config.scale)
    assert counts(step)[2] == 4


@scenario
def a_part_of_a_tensor_is_written_another_read(m: GraphManager) -> None:
    """The written addresses decide which of two arguments of one storage was written."""

    def function(read, write):
        write.copy_(read * 2)
        return read.sum()

    step = m.wrap(function, mutations="copy")
    for n in range(5):
        x, y = values() + n, values() + n
        same(step(x[:3], x[3:]), function(y[:3], y[3:]))
        same(x, y)
    assert counts(step) == (1, 1, 3, 0)


@scenario
def an_argument_that_is_also_written_from_outside(m: GraphManager) -> None:
    total = torch.zeros(6, device="cuda")

    def function(x):
        total.add_(1)
        return x * 2

    step = m.wrap(function)
    for n in range(8):
        before = total.clone()
        given = total if n in (3, 6) else values()
        same(step(given), (before + 1) * 2 if n in (3, 6) else values() * 2)
        same(total, before + 1)
    assert counts(step) == (1, 1, 4, 2)
    assert "from outside" in reason_row(m, "MUTATED_INPUT")["detail"]


@scenario
def sizes_as_arguments_stay_sizes(m: GraphManager) -> None:
    step = m.wrap(lambda x, size, more: x.expand(size) * size.numel() + more["size"].numel())
    size = torch.Size([2, 6])
    for n in range(4):
        same(step(values() + n, size, {"size": size}), (values() + n).expand(2, 6) * 12 + 12)


@scenario
def arguments_that_lie_crosswise_where_their_copies_go(m: GraphManager) -> None:
    """The second function's outputs lie in the memory of the first one's copies, in any order."""

    def crossed(p):
        a = p + 1
        b = p * 0.5
        return b, a

    def straight(p):
        a = p + 1
        return a, p * 0.5

    for other in (crossed, straight):
        first, second = m.wrap(lambda x, y: x - y * 2), m.wrap(other)
        x, y = values(), values() * 3
        a, b = x, y
        for _ in range(7):
            p = first(x, y)
            del x, y
            x, y = second(p)
            del p
            a, b = other(a - b * 2)
            same((x, y), (a, b))
        assert counts(first) == (1, 1, 5, 0)
        assert counts(second) == (1, 1, 5, 0)
