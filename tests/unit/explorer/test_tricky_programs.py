"""PyTorch programs that race by a hair, and such as only look like it: confirmed by value, or the same bits always."""

import pytest
import torch

import cudalens
from cudalens.virtual import device

PROGRAMS = []


def program(expect):
    return lambda function: PROGRAMS.append(pytest.param(expect, function, id=function.__name__))


def side():
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    return stream


def zeros(*shape):
    return torch.zeros(*shape, device="cuda")


@program("race")
def foreach_add_while_read():
    ps = [zeros(8) + i for i in range(4)]
    s = side()
    torch._foreach_add_(ps, 1.0)
    with torch.cuda.stream(s):
        y = ps[2] * 2
    return {"y": y, "ps": ps}


@program("clean")
def foreach_add_waited():
    ps = [zeros(8) + i for i in range(4)]
    torch._foreach_add_(ps, 1.0)
    s = side()
    with torch.cuda.stream(s):
        y = torch._foreach_mul(ps, 2)
    return {"y": y, "ps": ps}


@program("race")
def graph_input_overwritten_while_replayed():
    static = zeros(8)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = static * 2 + 1
    s = side()
    static.fill_(3)
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        g.replay()
    static.fill_(7)
    torch.cuda.synchronize()
    return {"out": out}


@program("clean")
def graph_input_overwritten_after_wait():
    static = zeros(8)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = static * 2 + 1
    s = side()
    for v in (3, 7):
        static.fill_(v)
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            g.replay()
        torch.cuda.current_stream().wait_stream(s)
    return {"out": out}


@program("race")
def graph_replayed_on_two_streams():
    static = zeros(8)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        static.add_(1)
        out = static * 2
    a, b = side(), side()
    with torch.cuda.stream(a):
        g.replay()
    with torch.cuda.stream(b):
        y = out.clone()
    return {"out": out, "y": y}


@program("race")
def transposed_view_written():
    a = torch.arange(16.0, device="cuda").reshape(4, 4)
    s = side()
    with torch.cuda.stream(s):
        b = a.t().contiguous()
    a[1].mul_(3)
    return {"b": b, "a": a}


@program("clean")
def disjoint_rows():
    a = torch.arange(16.0, device="cuda").reshape(4, 4)
    s = side()
    with torch.cuda.stream(s):
        b = a[2:].t() * 2
    a[1].mul_(3)
    return {"b": b, "a": a}


@program("race")
def nonblocking_h2d_then_default():
    p = torch.arange(8.0).pin_memory()
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        x = p.to("cuda", non_blocking=True)
    y = x + 1
    return {"y": y}


@program("clean")
def h2d_pageable_is_blocking():
    p = torch.arange(8.0)
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        x = p.to("cuda")
    y = x + 1
    return {"y": y}


@program("race")
def d2h_nonblocking_then_list():
    x = zeros(8) + 3
    h = torch.empty(8, pin_memory=True)
    h.copy_(x, non_blocking=True)
    h.tolist()
    return {"h": h}


@program("clean")
def d2h_blocking():
    x = zeros(8) + 3
    h = torch.empty(8, pin_memory=True)
    h.copy_(x)
    h.tolist()
    return {"h": h}


@program("race")
def grads_stepped_on_another_stream():
    w = torch.ones(8, device="cuda", requires_grad=True)
    opt = torch.optim.SGD([w], 0.1)
    s = side()
    (w * 2).sum().backward()
    with torch.cuda.stream(s):
        opt.step()
    return {"w": w}


@program("clean")
def grads_stepped_after_wait():
    w = torch.ones(8, device="cuda", requires_grad=True)
    opt = torch.optim.AdamW([w], 0.1)
    (w * 2).sum().backward()
    s = side()
    with torch.cuda.stream(s):
        opt.step()
    return {"w": w}


@program("race")
def index_put_on_side():
    t = zeros(16)
    i = torch.tensor([1, 5], device="cuda")
    s = side()
    with torch.cuda.stream(s):
        t.index_put_((i,), torch.tensor(4.0, device="cuda"))
    y = t.sum()
    return {"y": y}


@program("race")
def set_data_swap():
    t = zeros(16) + 1
    s = side()
    t.mul_(5)
    with torch.cuda.stream(s):
        v = t.view(4, 4)[:, 1].clone()
    return {"v": v}


@program("clean")
def mempool_of_its_own():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = zeros(16) + 1
    s = side()
    with torch.cuda.stream(s):
        y = x * 2
    torch.cuda.current_stream().wait_stream(s)
    x.zero_()
    return {"y": y}


@program("race")
def external_nonblocking_like():
    s = torch.cuda.Stream()
    e = torch.cuda.ExternalStream(s.cuda_stream)
    x = zeros(16)
    x.fill_(2)
    with torch.cuda.stream(e):
        y = x * 3
    return {"y": y}


@program("clean")
def same_stream_by_external():
    s = side()
    e = torch.cuda.ExternalStream(s.cuda_stream)
    with torch.cuda.stream(s):
        x = zeros(16) + 2
    with torch.cuda.stream(e):
        y = x * 3
    return {"y": y}


@program("clean")
def event_query_loop():
    s = side()
    ev = torch.cuda.Event()
    with torch.cuda.stream(s):
        x = zeros(16) + 2
        ev.record()
    while not ev.query():
        pass
    return {"y": x * 3}


@program("race")
def inplace_chain_two_streams():
    x = zeros(16) + 1
    s = side()
    x.add_(1).mul_(2)
    with torch.cuda.stream(s):
        x.sub_(3)
    x.pow_(2)
    return {"x": x}


@program("race")
def uaf_via_resize():
    x = torch.full((1024,), 1.0, device="cuda")
    s = side()
    with torch.cuda.stream(s):
        y = x * 2
    x.untyped_storage().resize_(0)
    z = torch.full((1024,), -1.0, device="cuda")
    return {"y": y, "z": z}


@program("race")
def embedding_prefetch_double_buffer():
    bufs = [torch.empty(64, device="cuda") for _ in range(2)]
    host = [(torch.zeros(64) + i).pin_memory() for i in range(4)]
    s = side()
    outs = []
    main = torch.cuda.current_stream()
    for i in range(4):
        with torch.cuda.stream(s):
            bufs[i % 2].copy_(host[i], non_blocking=True)
        main.wait_stream(s)
        outs.append(bufs[i % 2] * 2)
    return {"outs": outs}


@program("clean")
def embedding_prefetch_double_buffer_ok():
    bufs = [torch.empty(64, device="cuda") for _ in range(2)]
    host = [(torch.zeros(64) + i).pin_memory() for i in range(4)]
    s = side()
    outs = []
    main = torch.cuda.current_stream()
    done = [torch.cuda.Event() for _ in range(2)]
    for i in range(4):
        s.wait_event(done[i % 2])
        with torch.cuda.stream(s):
            bufs[i % 2].copy_(host[i], non_blocking=True)
        main.wait_stream(s)
        outs.append(bufs[i % 2] * 2)
        done[i % 2].record()
    return {"outs": outs}


@program("race")
def out_variant():
    a = zeros(8) + 2
    o = zeros(8)
    s = side()
    with torch.cuda.stream(s):
        torch.mul(a, 3, out=o)
    return {"y": o + 1}


@program("race")
def bool_and_half():
    a = torch.zeros(8, dtype=torch.bool, device="cuda")
    h = torch.zeros(8, dtype=torch.half, device="cuda")
    s = side()
    a.logical_not_()
    h.add_(1)
    with torch.cuda.stream(s):
        y = torch.where(a, h, h - 1)
    return {"y": y}


@program("race")
def scatter_and_item():
    a = zeros(8)
    s = side()
    with torch.cuda.stream(s):
        a.fill_(4)
    a.sum().item()
    return {"a": a}


@program("clean")
def two_devices_events():
    a = torch.ones(8, device="cuda:0")
    s = torch.cuda.Stream("cuda:1")
    b = a.to("cuda:1")
    with torch.cuda.device(1):
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            c = b * 2
        torch.cuda.current_stream().wait_stream(s)
        d = c + 1
    return {"d": d}


@program("race")
def two_devices_missing():
    a = torch.ones(8, device="cuda:0")
    s = torch.cuda.Stream("cuda:1")
    b = a.to("cuda:1", non_blocking=True)
    with torch.cuda.device(1), torch.cuda.stream(s):
        c = b * 2
    return {"c": c}


@program("race")
def norm_buffers():
    m = torch.nn.BatchNorm1d(4).cuda()
    x = torch.randn(16, 4, device="cuda")
    s = side()
    with torch.cuda.stream(s):
        m(x)
    r = m.running_mean.clone()
    return {"r": r}


@program("race")
def cat_split_chunk():
    x = torch.arange(12.0, device="cuda")
    s = side()
    _a, b, c = x.chunk(3)
    with torch.cuda.stream(s):
        y = torch.cat([c, b])
    b.neg_()
    return {"y": y}


@program("clean")
def cat_split_chunk_disjoint():
    x = torch.arange(12.0, device="cuda")
    s = side()
    a, b, c = x.chunk(3)
    with torch.cuda.stream(s):
        y = torch.cat([c, b])
    a.neg_()
    return {"y": y}


@pytest.mark.parametrize(("expect", "function"), PROGRAMS)
def test_programs_with_known_verdicts(expect, function):
    with device("h100x2"):
        torch.manual_seed(0)
        san = cudalens.sanitize(explore=True)
        san.start()
        san.end_block(function())
        san.stop()
        found = san.explore(50 if expect == "race" else 200)
    assert san.error is None
    assert not [note for note in found.notes if "uninitialized memory" not in note]
    assert not found.others
    assert bool(san.races) == bool(found.confirmed) == (expect == "race")
    assert found.differs == (expect == "race")
