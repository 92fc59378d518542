"""Planted bottlenecks on a virtual GPU: each program with its fixed twin and its control."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from cases import on_gpu
from torch.nn import functional

from cudalens.virtual import assume

BF16 = torch.bfloat16


def cuda(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes, device="cuda", dtype=dtype)


def busy(x: torch.Tensor, number: int) -> None:
    """Kernels that keep the GPU at work for longer than the host needs to launch them, and cannot be fused."""
    for _ in range(number):
        torch.cumsum(x, 0, out=x)


def busy_small(x: torch.Tensor) -> None:
    """Kernels that take as long as the host needs to launch them."""
    for _ in range(6):
        torch.cumsum(x, 0, out=x)


# waits of the host


@on_gpu("wait for a value", "host_sync")
def item_in_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    x, big = cuda(256, 256), cuda(1 << 24)
    total = torch.zeros((), device="cuda")
    yield
    for step in range(20):
        busy(big, 3 if not is_control else 8)
        y = assume((x * 2).relu().mean(), 1.0)
        if is_control:
            if step == 19 and is_planted:  # nothing is left to launch after it
                y.item()
        elif is_planted:
            y.item()
        else:
            total += y


@on_gpu("copy to the host", "host_sync")
def copy_to_cpu_in_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    x, big = cuda(64, 64), cuda(1 << 24)
    kept = []
    yield
    for _ in range(30):
        busy(big, 2)
        x = assume(x * 1.5, torch.ones(64, 64))
        if is_planted and not is_control:
            kept.append(x.cpu())
        busy_small(x)
    if is_control and is_planted:
        kept.append(x.cpu())


@on_gpu("wait for a size", "host_sync", control=False)
def nonzero_in_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    x, big = cuda(1024), cuda(1 << 24)
    yield
    for _ in range(30):
        busy(big, 2)
        mask = assume(x > 0, count=1024)
        if is_planted:
            mask.nonzero()
        else:
            torch.nonzero_static(mask, size=1024)
        busy_small(x)


@on_gpu("wait for a truth value", "host_sync", control=False)
def branch_on_value(is_planted: bool, is_control: bool) -> Iterator[None]:
    x, big = cuda(256), cuda(1 << 24)
    yield
    for _ in range(25):
        busy(big, 2)
        y = assume(x.sum() > 0, True)
        if not is_planted:
            x = x * y
        elif bool(y):
            x = x * 1.0
        busy_small(x)


@on_gpu("explicit synchronize", "host_sync")
def synchronize_in_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    big = cuda(1 << 22)
    yield
    for _ in range(30):
        busy(big, 5)
        if is_planted and not is_control:
            torch.cuda.synchronize()
    if is_control and is_planted:
        torch.cuda.synchronize()


@on_gpu("boolean index", "host_sync", control=False)
def boolean_index(is_planted: bool, is_control: bool) -> Iterator[None]:
    x, big = cuda(4096), cuda(1 << 24)
    mask = assume(torch.ones(4096, device="cuda", dtype=torch.bool), count=2048)
    yield
    for _ in range(25):
        busy(big, 2)
        if is_planted:
            x[mask].sum()
        else:
            (x * mask).sum()
        busy_small(x)


# launching


@on_gpu("launches of a repeating region", "graphable", gpu="a100")
def small_network(is_planted: bool, is_control: bool) -> Iterator[None]:
    size = 4096 if is_control else 64
    number = 4 if is_control else 40
    net = torch.nn.Sequential(*(torch.nn.Linear(size, size) for _ in range(6))).cuda()
    x = cuda(1024 if is_control else 8, size)
    with torch.no_grad():
        net(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(x)
        yield
        for _ in range(number):
            net(x) if is_planted else graph.replay()


@on_gpu("launches of a repeating region", "graphable")
def equal_layers(is_planted: bool, is_control: bool) -> Iterator[None]:
    """Equal layers within each step, with work before and after them."""
    layers = [torch.nn.Linear(128, 128).cuda() for _ in range(8)]
    x = cuda(1 << 27) if is_control else cuda(16, 128)

    def step() -> None:
        y = (x + 1).tanh()
        for layer in layers:
            y = torch.cumsum(y, 0) if is_control else layer(y).relu() + y
        (y * 2).exp().sum()

    with torch.no_grad():
        step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        yield
        for _ in range(5):
            step() if is_planted else graph.replay()


@on_gpu("launches of a repeating region", "graphable", gpu="b200", control=False)
def decoding(is_planted: bool, is_control: bool) -> Iterator[None]:
    weight = [cuda(512, 512, dtype=BF16) for _ in range(12)]
    x = cuda(1, 512, dtype=BF16)

    def token() -> None:
        y = x
        for w in weight:
            y = functional.silu(y @ w) + y

    token()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token()
    yield
    for _ in range(20):
        token() if is_planted else graph.replay()


@on_gpu("launches that do not repeat", "launch_bound", "tiny_kernels", "graphable", "optimizer_loop")
def loop_over_rows(is_planted: bool, is_control: bool) -> Iterator[None]:
    rows = 4 if is_control else 300
    x, w = cuda(rows, 1 << (25 if is_control else 8)), cuda(1)
    yield
    if is_planted:
        for row in x:
            row.mul_(w)
    else:
        x.mul_(w)


@on_gpu("launches that do not repeat", "launch_bound", "tiny_kernels", "graphable")
def product_by_element(is_planted: bool, is_control: bool) -> Iterator[None]:
    batch, n = (2, 2048) if is_control else (200, 32)
    a, b = cuda(batch, n, n), cuda(batch, n, n)
    yield
    if is_planted:
        for k in range(batch):
            torch.mm(a[k], b[k])
    else:
        torch.bmm(a, b)


# copies


@on_gpu("pageable copies", "pageable_copies", "host_sync")
def pageable_batches(is_planted: bool, is_control: bool) -> Iterator[None]:
    size, times = (1 << 10, 40) if is_control else (1 << 21, 2)
    hosts = [torch.ones(size) for _ in range(8)]
    hosts = hosts if is_planted else [host.pin_memory() for host in hosts]
    big = cuda(1 << 23)
    yield
    for host in hosts[: 1 if is_control else 8]:
        host.to("cuda", non_blocking=not is_planted)
        busy(big, times)


@on_gpu("copies not overlapped", "exposed_copies")
def copies_on_one_stream(is_planted: bool, is_control: bool) -> Iterator[None]:
    hosts = [torch.ones(1 << (14 if is_control else 21)).pin_memory() for _ in range(10)]
    targets = [cuda(host.numel()) for host in hosts]
    side, big = torch.cuda.Stream(), cuda(1 << 24)
    yield
    for host, target in zip(hosts, targets, strict=True):
        with contextlib.nullcontext() if is_planted else torch.cuda.stream(side):
            target.copy_(host, non_blocking=True)
        busy(big, 4)


@on_gpu("copies not overlapped", "exposed_copies", gpu="a100")
def prefetch_missing(is_planted: bool, is_control: bool) -> Iterator[None]:
    """Copies that take longer than the computation beside them: only that much can be hidden."""
    hosts = [torch.ones(1 << (13 if is_control else 22)).pin_memory() for _ in range(6)]
    targets = [cuda(host.numel()) for host in hosts]
    side, big = torch.cuda.Stream(), cuda(1 << 24)
    yield
    for host, target in zip(hosts, targets, strict=True):
        with contextlib.nullcontext() if is_planted else torch.cuda.stream(side):
            target.copy_(host, non_blocking=True)
        busy(big, 2)


@on_gpu("many small copies", "small_copies", "graphable", "host_sync")
def scalars_to_device(is_planted: bool, is_control: bool) -> Iterator[None]:
    values = [torch.ones(4) for _ in range(25 if is_control else 200)]
    big = cuda(1 << (28 if is_control else 8))
    if is_control:
        values = [value.pin_memory() for value in values]
    yield
    if is_control:
        busy(big, 12)
    if is_planted:
        for value in values:
            value.to("cuda", non_blocking=is_control)
    else:
        torch.stack(values).to("cuda", non_blocking=True)


@on_gpu("copies on the device", "copies")
def casts_in_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    x = cuda(1 << (8 if is_control else 23))
    half = x.half()
    big = cuda(1 << 24)
    yield
    for _ in range(20):
        if is_planted:
            x.half()
        if is_control:
            busy(big, 2)
        half * 2


@on_gpu("copies on the device", "copies", gpu="a100", control=False)
def clones_in_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    x = cuda(1 << 23)
    yield
    for _ in range(20):
        (x.clone() if is_planted else x).sum()


@on_gpu("strided operands", "copies", "strided_operands", gpu="a100", control=False)
def contiguous_in_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    x = cuda(2048, 2048)
    y = x.t()
    yield
    for _ in range(20):
        (y.contiguous() if is_planted else x).mul_(1.0)


# kernels


@on_gpu("FP32 products", "fp32_math", gpu="a100")
def fp32_products(is_planted: bool, is_control: bool) -> Iterator[None]:
    x, w = (cuda(1024, 8), cuda(8, 1024)) if is_control else (cuda(1024, 1024), cuda(1024, 1024))
    yield
    torch.backends.cuda.matmul.allow_tf32 = not is_planted
    for _ in range(12):
        x @ w
    torch.backends.cuda.matmul.allow_tf32 = False


@on_gpu("FP32 products", "fp32_math", gpu="h100", control=False)
def fp32_batched(is_planted: bool, is_control: bool) -> Iterator[None]:
    x, w = cuda(8, 1024, 512), cuda(8, 512, 1024)
    yield
    torch.backends.cuda.matmul.allow_tf32 = not is_planted
    for _ in range(12):
        x @ w
    torch.backends.cuda.matmul.allow_tf32 = False


@on_gpu("FP32 products", "fp32_math", gpu="v100", control=False)
def fp32_on_volta(is_planted: bool, is_control: bool) -> Iterator[None]:
    dtype = torch.float32 if is_planted else torch.float16
    x, w = cuda(1024, 1024, dtype=dtype), cuda(1024, 1024, dtype=dtype)
    yield
    for _ in range(12):
        x @ w


@on_gpu("float64", "float64_math", gpu="l4")
def float64_by_accident(is_planted: bool, is_control: bool) -> Iterator[None]:
    dtype = torch.float64 if is_planted else torch.float32
    size = 8 if is_control else 512
    x, w = cuda(size, size, dtype=dtype), cuda(size, size, dtype=dtype)
    big = cuda(1 << 24)
    yield
    for _ in range(10):
        x @ w
        busy(big, 2 if is_control else 0)


@on_gpu("float64", "float64_math", gpu="a100", control=False)
def float64_pointwise(is_planted: bool, is_control: bool) -> Iterator[None]:
    x = cuda(1 << 22, dtype=torch.float64 if is_planted else torch.float32)
    yield
    for _ in range(30):
        torch.cumsum(x, 0, out=x)


def attend(is_planted: bool, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    if is_planted:
        torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v
    else:
        functional.scaled_dot_product_attention(q, k, v)


@on_gpu("unfused attention", "eager_attention", gpu="a100")
def eager_attention(is_planted: bool, is_control: bool) -> Iterator[None]:
    length = 16 if is_control else 768
    q, k, v = (cuda(2, 8, length, 64, dtype=BF16) for _ in range(3))
    big = cuda(1 << 24)
    yield
    for _ in range(6):
        attend(is_planted, q, k, v)
        busy(big, 12 if is_control else 0)


@on_gpu("unfused attention", "eager_attention", control=False)
def eager_attention_h100(is_planted: bool, is_control: bool) -> Iterator[None]:
    q, k, v = (cuda(1, 8, 1024, 64, dtype=BF16) for _ in range(3))
    yield
    for _ in range(6):
        attend(is_planted, q, k, v)


@on_gpu("unfused pointwise chain", "unfused_pointwise")
def pointwise_chain(is_planted: bool, is_control: bool) -> Iterator[None]:
    x = cuda(1 << (8 if is_control else 22))
    big = cuda(1 << 24)
    yield
    for _ in range(3 if is_control else 10):
        if is_planted:
            0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
        else:
            functional.gelu(x, approximate="tanh")
        busy(big, 30 if is_control else 0)


@on_gpu("unfused pointwise chain", "unfused_pointwise", gpu="a100", control=False)
def layer_norm_by_hand(is_planted: bool, is_control: bool) -> Iterator[None]:
    x = cuda(4096, 1024)
    yield
    for _ in range(8):
        if is_planted:
            y = x - x.mean(-1, keepdim=True)
            y / (y * y).mean(-1, keepdim=True).add(1e-5).sqrt()
        else:
            functional.layer_norm(x, (1024,))


@on_gpu("kernels too small for the GPU", "small_grids", control=False)
def products_one_by_one(is_planted: bool, is_control: bool) -> Iterator[None]:
    a, b = cuda(16, 64, 1 << 18, dtype=BF16), cuda(16, 1 << 18, 64, dtype=BF16)
    yield
    for _ in range(2):
        if is_planted:
            for k in range(16):
                torch.mm(a[k], b[k])
        else:
            torch.bmm(a, b)


# training


def parameters(number: int, size: int) -> list[torch.Tensor]:
    made = [torch.ones(size, device="cuda", requires_grad=True) for _ in range(number)]
    for one in made:
        one.grad = torch.ones_like(one)
    return made


@on_gpu("unfused optimizer", "optimizer_loop", gpu="a100")
def adamw_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    number, size = (31, 1 << 24) if is_control else (60, 1 << 10)
    made = parameters(number, size)
    adam = (
        torch.optim.AdamW(made, foreach=not is_planted)
        if not is_control
        else torch.optim.SGD(made, 0.1, foreach=not is_planted)
    )
    adam.step()
    yield
    for _ in range(3):
        adam.step()


@on_gpu("unfused optimizer", "optimizer_loop", control=False)
def sgd_momentum_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    sgd = torch.optim.SGD(parameters(100, 1 << 12), 0.1, momentum=0.9, foreach=not is_planted)
    sgd.step()
    yield
    for _ in range(4):
        sgd.step()


@on_gpu("gradients set to zero", "zero_grad")
def zeros_for_gradients(is_planted: bool, is_control: bool) -> Iterator[None]:
    made = parameters(50, 1 << (10 if is_control else 20))
    adam = torch.optim.SGD(made, 0.1)
    big = cuda(1 << 24)
    yield
    for _ in range(5):
        busy(big, 400 if is_control else 0)
        adam.zero_grad(set_to_none=not is_planted)
        big.mul_(1.0)


@on_gpu("dense embedding gradient", "dense_embedding", gpu="a100", values=True)
def dense_embedding(is_planted: bool, is_control: bool) -> Iterator[None]:
    rows = 256 if is_control else 1 << 19
    table = torch.nn.Embedding(rows, 64, sparse=not is_planted).cuda()
    sgd = torch.optim.SGD(table.parameters(), 0.1)
    index = torch.arange(256, device="cuda")
    big = cuda(1 << 24)
    table(index).sum().backward()
    sgd.step()
    yield
    for _ in range(6):
        busy(big, 10 if is_control else 0)
        sgd.zero_grad()
        table(index).sum().backward()
        sgd.step()


@on_gpu("checkpointing with memory to spare", "needless_checkpointing", gpu="a100", control=False)
def checkpointing(is_planted: bool, is_control: bool) -> Iterator[None]:
    from torch.utils.checkpoint import checkpoint

    layers = [torch.nn.Linear(2048, 2048).cuda().to(BF16) for _ in range(6)]
    x = cuda(4096, 2048, dtype=BF16).requires_grad_()

    def step() -> None:
        y = x
        for layer in layers:
            y = checkpoint(lambda z, f=layer: f(z).relu(), y, use_reentrant=False) if is_planted else layer(y).relu()
        y.sum().backward()

    step()
    yield
    for _ in range(3):
        step()


# memory


@on_gpu("driver memory in a loop", "driver_memory", warm=False)
def empty_cache_in_loop(is_planted: bool, is_control: bool) -> Iterator[None]:
    big = cuda(1 << 22)
    yield
    for step in range(20):
        y = torch.cumsum(big, 0)
        busy(big, 150 if is_control else 6)
        del y
        if is_planted and (not is_control or step == 19):
            torch.cuda.empty_cache()


@on_gpu("driver memory in a loop", "driver_memory", control=False, warm=False)
def growing_buffers(is_planted: bool, is_control: bool) -> Iterator[None]:
    kept = []
    pool = None if is_planted else torch.empty(40 * (12 << 20), device="cuda")
    del pool
    yield
    for step in range(40):
        kept.append(torch.empty(12 << 20, device="cuda"))
        kept[-1][:4096].fill_(step)


@on_gpu("cold driver memory", "driver_memory", "idle_ends", control=False, warm=False)
def cold_allocations(is_planted: bool, is_control: bool) -> Iterator[None]:
    sizes = [(20 + 3 * k) << 20 for k in range(12)]
    x = cuda(1024)
    if not is_planted:
        warm = [torch.empty(size, device="cuda") for size in sizes]
        del warm
    yield
    kept = [torch.empty(size, device="cuda") for size in sizes]
    for _ in range(20):
        x.mul_(1.0)
    del kept


@on_gpu("allocator retries", "driver_memory", control=False, warm=False)
def fragmented_memory(is_planted: bool, is_control: bool) -> Iterator[None]:
    torch.cuda.set_per_process_memory_fraction(1.0)
    if is_planted:
        hog = torch.empty(torch.cuda.mem_get_info()[0] - (700 << 20), device="cuda", dtype=torch.uint8)
    yield
    for step in range(16):
        y = torch.empty((300 + 40 * (step % 4)) << 20, device="cuda", dtype=torch.uint8)
        y[:4096].fill_(1)
        del y
    if is_planted:
        del hog


# streams


@on_gpu("streams in turns", "streams_in_turns", "host_sync")
def streams_wait_for_each_other(is_planted: bool, is_control: bool) -> Iterator[None]:
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    size = 2048 if is_control else 128
    a, b = cuda(128, size * 256, dtype=BF16), cuda(size * 256, 128, dtype=BF16)
    outs = [cuda(128, 128, dtype=BF16) for _ in range(2)]
    if is_control:
        a, b = cuda(1 << 24), cuda(1 << 24)

    def turns(number: int) -> None:
        for _ in range(number):
            for stream in (first, second):
                if is_planted:
                    stream.wait_stream(second if stream is first else first)
                with torch.cuda.stream(stream):
                    torch.cumsum(a, 0, out=a) if is_control else torch.mm(a, b, out=outs[stream is first])

    turns(1)  # workspaces of the streams
    yield
    turns(20)
    first.synchronize()
    second.synchronize()
