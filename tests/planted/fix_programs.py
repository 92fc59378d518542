"""Programs with a planted cause as cells: what runs before, the cell with the cause, and the cell as it should be.

The fix of the rule is written, run and compared with the hand-written one.
"""

from __future__ import annotations

from dataclasses import dataclass

_HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
BF16 = torch.bfloat16
def cuda(*sizes, dtype=torch.float32):
    return torch.ones(sizes, device="cuda", dtype=dtype)
def values(*sizes, dtype=torch.float32):
    return torch.randn(sizes, device="cuda", dtype=dtype)
def busy(number):
    # keeps the GPU at work for 50 µs times `number`
    torch.cuda._sleep(90_000 * number)
def small(x):
    # kernels that take as long as the host needs to launch them
    for _ in range(4):
        x.mul_(1.0)
"""


@dataclass(frozen=True)
class Cell:
    """A program.

    Attributes:
        name: Its name.
        kind: The kind of its cause.
        rule: The rule whose fix is tried.
        setup: What runs before.
        planted: The cell with the cause.
        fixed: The cell as it should be; its setup is not timed where it begins with lines ending in ``# once``.
        gpu: The virtual device; "" for a program that runs on the CPU, where times are measured.
        is_equal: Whether results are claimed to be equal bit for bit.
        has_values: Whether the virtual device computes values.
    """

    name: str
    kind: str
    rule: str
    setup: str
    planted: str
    fixed: str
    gpu: str = "h100"
    is_equal: bool = True
    has_values: bool = True

    @property
    def before(self) -> str:
        """What runs before the cell."""
        return _HEAD + self.setup


CELLS: dict[str, Cell] = {}


def cell(
    name: str, kind: str, rule: str, setup: str, planted: str, fixed: str, *, gpu: str = "h100", equal: bool = True,
    values: bool = True,
) -> None:  # fmt: skip
    """Register a program."""
    assert name not in CELLS
    CELLS[name] = Cell(name, kind, rule, setup, planted.strip("\n"), fixed.strip("\n"), gpu, equal, values)


# waits

cell("sum_of_items", "wait for a value", "host_sync", "w = values(256, 256)", """
total = 0.0
for step in range(20):
    busy(1)
    loss = (w * step).relu().mean()
    total += loss.item()  # the mean loss
print(total / 20)
""", """
total, kept = 0.0, []
for step in range(20):
    busy(1)
    loss = (w * step).relu().mean()
    kept.append(loss)
for value in torch.stack(kept).tolist():
    total += value
""")  # fmt: skip

cell("list_of_items", "wait for a value", "host_sync", "w = values(256, 256)\nlosses = []", """
for step in range(20):
    busy(1)
    losses.append((w * step).relu().mean().item())
""", """
kept = []
for step in range(20):
    busy(1)
    kept.append((w * step).relu().mean())
losses.extend(torch.stack(kept).tolist())
""")  # fmt: skip

cell("training_loss_items", "wait for a value", "host_sync", """
torch.manual_seed(0)
net = nn.Linear(64, 64).cuda()
opt = torch.optim.SGD(net.parameters(), 0.01)
data = [values(32, 64) for _ in range(8)]
big = cuda(64)
""", """
running = 0.0
history = []
for epoch in range(2):
    for x in data:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        busy(2)
        running += loss.item() * len(x)
""", """
running, kept = 0.0, []
for epoch in range(2):
    for x in data:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        busy(2)
        kept.append(loss.detach())
for value in torch.stack(kept).tolist():
    running += value * len(x)
""")  # fmt: skip

cell("item_in_function", "wait for a value", "host_sync", """
w = values(256, 256)
def epoch(number):
    total = 0.0
    for step in range(number):
        busy(1)
        total += (w * step).mean().item()
    return total
""", "result = epoch(20)", """
def fast(number):
    total, kept = 0.0, []
    for step in range(number):
        busy(1)
        kept.append((w * step).mean())
    for value in torch.stack(kept).tolist():
        total += value
    return total
result = fast(20)
""")  # fmt: skip

cell("unused_item", "wait for a value", "host_sync", "w = values(256)", """
for step in range(20):
    busy(1)
    y = w.mean()
    y.item()
""", """
for step in range(20):
    busy(1)
    y = w.mean()
""")  # fmt: skip

cell("tensors_to_the_host", "copy to the host", "host_sync", "x = values(64, 64)", """
kept = []
for step in range(20):
    busy(1)
    y = x * step
    kept.append(y.cpu())
    small(x[0])
""", """
kept, late = [], []
for step in range(20):
    busy(1)
    y = x * step
    late.append(y)
    small(x[0])
kept.extend(one.cpu() for one in late)
""")  # fmt: skip

cell("synchronize_in_loop", "explicit synchronize", "host_sync", "big = cuda(64)", """
for _ in range(30):
    busy(1)
    torch.cuda.synchronize()
    small(big)
""", """
for _ in range(30):
    busy(1)
    small(big)
""")  # fmt: skip

cell("masked_sum", "boolean index", "host_sync", "x = values(4096)\nmask = x > 0", """
sums = []
for _ in range(20):
    busy(1)
    sums.append(x[mask].sum())
""", """
sums = []
for _ in range(20):
    busy(1)
    sums.append(torch.where(mask, x, 0).sum())
""", equal=False)  # fmt: skip

# copies

cell("pageable_list", "pageable copies", "pageable_copies", """
hosts = [torch.ones(1 << 20) for _ in range(8)]
""", """
for host in hosts:
    x = host.to("cuda")
    busy(1)
""", """
hosts = [host.pin_memory() for host in hosts]  # once
for host in hosts:
    x = host.to("cuda", non_blocking=True)
    busy(1)
""")  # fmt: skip

cell("pageable_table", "pageable copies", "pageable_copies", "table = torch.ones(1 << 20)", """
for _ in range(8):
    x = table.cuda()
    busy(1)
""", """
table = table.pin_memory()  # once
for _ in range(8):
    x = table.cuda(non_blocking=True)
    busy(1)
""")  # fmt: skip

cell("no_prefetch", "copies not overlapped", "exposed_copies", """
hosts = [torch.ones(1 << 20).pin_memory() for _ in range(8)]
""", """
for host in hosts:
    x = host.to("cuda", non_blocking=True)
    busy(2)
""", """
side = torch.cuda.Stream()
for host in hosts:
    with torch.cuda.stream(side):
        x = host.to("cuda", non_blocking=True)
    busy(2)
""")  # fmt: skip

cell("zeros_from_the_cpu", "tensors made on the CPU", "pageable_copies", "", """
for _ in range(10):
    busy(1)
    x = torch.zeros(1 << 20).to("cuda")
""", """
for _ in range(10):
    busy(1)
    x = torch.zeros(1 << 20, device="cuda")
""")  # fmt: skip

cell("masks_from_the_cpu", "tensors made on the CPU", "made_on_host", "x = values(64, 64)", """
kept = []
for row in range(8):
    index = torch.arange(64).to("cuda")
    mask = torch.zeros(64, 64).to(x.device)
    mask[row] = 1
    kept.append((x * mask)[index].sum())
""", """
kept = []
index = torch.arange(64, device="cuda")
for row in range(8):
    mask = torch.zeros(64, 64, device="cuda")
    mask[row] = 1
    kept.append((x * mask)[index].sum())
""")  # fmt: skip

cell("positions_from_the_cpu", "tensors made on the CPU", "small_copies", "x = values(256, 64)", """
for step in range(30):
    position = torch.arange(step, step + 256).cuda()
    y = x[position % 256]
""", """
for step in range(30):
    position = torch.arange(step, step + 256, device="cuda")
    y = x[position % 256]
""")  # fmt: skip

cell("constant_in_loop", "constants made in a loop", "small_copies", "x = values(256, 3)", """
for step in range(40):
    scale = torch.tensor([0.229, 0.224, 0.225], device="cuda")
    y = x / scale
""", """
scale = torch.tensor([0.229, 0.224, 0.225], device="cuda")
for step in range(40):
    y = x / scale
""")  # fmt: skip

cell("mask_in_loop", "constants made in a loop", "graphable", "x = values(512, 512)", """
for step in range(30):
    y = x * torch.tril(torch.ones(512, 512, device="cuda"))
""", """
mask = torch.tril(torch.ones(512, 512, device="cuda"))
for step in range(30):
    y = x * mask
""")  # fmt: skip

cell("many_small_copies", "many small copies", "small_copies", "rows = [torch.ones(4) for _ in range(100)]", """
moved = [row.to("cuda") for row in rows]
""", """
moved = list(torch.stack(rows).to("cuda"))
""")  # fmt: skip

cell("casts_in_loop", "casts in a loop", "copies", "x = values(1 << 20)", """
for step in range(20):
    y = x.half() * 2
""", """
half = x.half()
for step in range(20):
    y = half * 2
""")  # fmt: skip

cell("clones_in_loop", "copies on the device", "copies", "x = values(1 << 20)", """
for step in range(20):
    y = x.clone().sum()
""", """
for step in range(20):
    y = x.sum()
""", gpu="a100")  # fmt: skip

cell("contiguous_in_loop", "strided operands", "copies", "x = values(1024, 1024).t()", """
for step in range(20):
    y = x.contiguous() * step
""", """
dense = x.contiguous()
for step in range(20):
    y = dense * step
""", gpu="a100")  # fmt: skip

# precision

cell("fp32_products", "FP32 products", "fp32_math", "x, w = values(512, 512), values(512, 512)", """
for _ in range(6):
    y = x @ w
""", """
torch.backends.cuda.matmul.allow_tf32 = True  # once
for _ in range(6):
    y = x @ w
""", gpu="a100", equal=False)  # fmt: skip

cell("tf32_turned_off", "FP32 products", "fp32_math", "x, w = values(8, 256, 256), values(8, 256, 256)", """
torch.backends.cuda.matmul.allow_tf32 = False  # to be safe
for _ in range(6):
    y = torch.bmm(x, w)
""", """
torch.backends.cuda.matmul.allow_tf32 = True
for _ in range(6):
    y = torch.bmm(x, w)
""", equal=False)  # fmt: skip

cell("float64_products", "float64", "float64_math", "", """
x = torch.ones(256, 256, device="cuda", dtype=torch.float64)
for _ in range(6):
    y = x @ x
""", """
x = torch.ones(256, 256, device="cuda", dtype=torch.float32)
for _ in range(6):
    y = x @ x
""", gpu="l4", equal=False)  # fmt: skip

cell("float64_by_accident", "float64", "float64_math", "x = values(1 << 20).double()", """
for _ in range(20):
    y = x.exp()
""", """
x = x.float()  # once
for _ in range(20):
    y = x.exp()
""", gpu="l4", equal=False)  # fmt: skip

# attention

_QKV = "q, k, v = (values(2, 4, 256, 64, dtype=BF16) for _ in range(3))"
_SDPA = """
for _ in range(6):
    y = F.scaled_dot_product_attention(q, k, v, scale=0.125)
"""

cell("attention_with_filled_scores", "unfused attention", "eager_attention", """
q, causal = values(2, 4, 256, 64), torch.ones(256, 256, device="cuda").tril()
""", """
for _ in range(4):
    wei = q @ q.transpose(-2, -1) * q.shape[-1] ** -0.5
    wei = wei.masked_fill(causal == 0, float("-inf"))
    wei = F.softmax(wei, dim=-1)
    out = wei @ q
""", """
for _ in range(4):
    out = F.scaled_dot_product_attention(q, q, q, attn_mask=causal != 0)
""", equal=False)  # fmt: skip

cell("attention_in_one_line", "unfused attention", "eager_attention", _QKV, """
for _ in range(6):
    y = torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1) @ v
""", _SDPA, gpu="a100", equal=False)  # fmt: skip

cell("attention_in_statements", "unfused attention", "eager_attention", "import math\n" + _QKV, """
for _ in range(6):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(64)  # (batch, heads, queries, keys)
    weights = F.softmax(scores, dim=-1)
    y = torch.matmul(weights, v)
""", _SDPA, equal=False)  # fmt: skip

cell("attention_in_a_module", "unfused attention", "eager_attention", _QKV + """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.125
    def forward(self, q, k, v):
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        return attn @ v
attention = Attention()
""", """
for _ in range(6):
    y = attention(q, k, v)
""", _SDPA, equal=False)  # fmt: skip

cell("attention_with_mask", "unfused attention", "eager_attention", _QKV + """
mask = torch.zeros(256, 256, device="cuda", dtype=BF16)
mask = mask.masked_fill(torch.ones(256, 256, device="cuda").triu(1) > 0, -1e9)
""", """
for _ in range(6):
    y = torch.softmax(q @ k.mT * 0.125 + mask, -1) @ v
""", """
for _ in range(6):
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.125)
""", equal=False)  # fmt: skip

# pointwise

cell("gelu_by_hand", "unfused pointwise chain", "unfused_pointwise", "x = values(1 << 20)", """
for _ in range(8):
    y = 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
""", """
for _ in range(8):
    y = F.gelu(x, approximate="tanh")
""", equal=False)  # fmt: skip

cell("gelu_with_erf", "unfused pointwise chain", "unfused_pointwise", "import math\nx = values(1 << 20)", """
for _ in range(8):
    y = x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
""", """
for _ in range(8):
    y = F.gelu(x)
""", equal=False)  # fmt: skip

cell("layer_norm_by_hand", "unfused normalization", "unfused_pointwise", "x = values(1024, 512)", """
for _ in range(8):
    y = x - x.mean(-1, keepdim=True)
    z = y / (y * y).mean(-1, keepdim=True).add(1e-5).sqrt()
""", """
for _ in range(8):
    z = F.layer_norm(x, (512,))
""", gpu="a100", equal=False)  # fmt: skip

# training

cell("sgd_one_by_one", "unfused optimizer", "optimizer_loop", """
params = [torch.ones(1 << 10, device="cuda", requires_grad=True) for _ in range(60)]
for one in params:
    one.grad = torch.ones_like(one)
sgd = torch.optim.SGD(params, 0.1, momentum=0.9, foreach=False)
sgd.step()
""", """
for _ in range(3):
    sgd.step()
""", """
for group in sgd.param_groups: group["foreach"] = True  # once
for _ in range(3):
    sgd.step()
""")  # fmt: skip

cell("adamw_one_by_one", "unfused optimizer", "optimizer_loop", """
params = [torch.ones(1 << 10, device="cuda", requires_grad=True) for _ in range(60)]
for one in params:
    one.grad = torch.ones_like(one)
""", """
adam = torch.optim.AdamW(params, lr=1e-3, foreach=False)
for _ in range(3):
    adam.step()
""", """
adam = torch.optim.AdamW(params, lr=1e-3, foreach=True)
for _ in range(3):
    adam.step()
""", gpu="a100", equal=False)  # fmt: skip

cell("zeros_for_gradients", "gradients set to zero", "zero_grad", """
params = [torch.ones(1 << 18, device="cuda", requires_grad=True) for _ in range(20)]
for one in params:
    one.grad = torch.ones_like(one)
sgd = torch.optim.SGD(params, 0.1)
big = cuda(64)
""", """
for _ in range(5):
    sgd.zero_grad(set_to_none=False)
    big.mul_(1.0)
""", """
for _ in range(5):
    sgd.zero_grad()
    big.mul_(1.0)
""")  # fmt: skip

cell("gradients_zeroed_by_hand", "gradients set to zero", "zero_grad", """
net = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6))).cuda()
x = values(64, 256)
""", """
for _ in range(4):
    for p in net.parameters():
        if p.grad is not None:
            p.grad.zero_()
    net(x).sum().backward()
""", """
for _ in range(4):
    for p in net.parameters():
        p.grad = None
    net(x).sum().backward()
""")  # fmt: skip

cell("checkpointing", "checkpointing with memory to spare", "needless_checkpointing", """
from torch.utils.checkpoint import checkpoint
layers = [nn.Sequential(nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 2048)).cuda() for _ in range(3)]
x = values(4096, 2048).requires_grad_()
""", """
for _ in range(3):
    y = x
    for layer in layers:
        y = checkpoint(layer, y, use_reentrant=False)
    y.sum().backward()
""", """
for _ in range(3):
    y = x
    for layer in layers:
        y = layer(y)
    y.sum().backward()
""", gpu="a100", values=False)  # fmt: skip

cell("dense_embedding", "dense embedding gradient", "dense_embedding", """
table = nn.Embedding(1 << 20, 64, device="cuda")
sgd = torch.optim.SGD(table.parameters(), 0.1)
index = torch.arange(256, device="cuda")
""", """
for _ in range(2):
    sgd.zero_grad()
    table(index).sum().backward()
    sgd.step()
""", """
table.sparse = True  # once
for _ in range(2):
    sgd.zero_grad()
    table(index).sum().backward()
    sgd.step()
""", gpu="a100", equal=False)  # fmt: skip

# memory

cell("empty_cache_in_loop", "driver memory in a loop", "driver_memory", "big = cuda(1 << 22)", """
for step in range(10):
    y = torch.cumsum(big, 0)
    busy(2)
    del y
    torch.cuda.empty_cache()
""", """
for step in range(10):
    y = torch.cumsum(big, 0)
    busy(2)
    del y
""")  # fmt: skip

cell("empty_cache_in_function", "driver memory in a loop", "driver_memory", """
big = cuda(1 << 22)
def clean():
    torch.cuda.empty_cache()
def step():
    y = torch.cumsum(big, 0)
    busy(2)
    del y
    clean()
""", """
for _ in range(10):
    step()
""", """
for _ in range(10):
    y = torch.cumsum(big, 0)
    busy(2)
    del y
""")  # fmt: skip

# launching

cell("small_network", "launches of a repeating region", "graphable", """
net = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6))).cuda()
x = values(8, 64)
torch.set_grad_enabled(False)
""", """
for _ in range(20):
    y = net(x)
""", """
graph = torch.cuda.CUDAGraph()  # once
net(x)  # once
with torch.cuda.graph(graph): y = net(x)  # once
for _ in range(20):
    graph.replay()
""", gpu="a100")  # fmt: skip

cell("decoding", "launches of a repeating region", "graphable", """
weights = [values(256, 256, dtype=BF16) * 0.05 for _ in range(8)]
x = values(1, 256, dtype=BF16)
def token(x):
    y = x
    for w in weights:
        y = F.silu(y @ w) + y
    return y
""", """
for _ in range(15):
    y = token(x)
""", """
graph = torch.cuda.CUDAGraph()  # once
token(x)  # once
with torch.cuda.graph(graph): y = token(x)  # once
for _ in range(15):
    graph.replay()
""", gpu="b200")  # fmt: skip

cell("loop_over_rows", "launches that do not repeat", "launch_bound", "x, w = values(200, 256), cuda(1)", """
for row in x:
    row.mul_(w)
""", """
x.mul_(w)
""")  # fmt: skip

cell("product_by_element", "products one by one", "launch_bound", "a, b = values(100, 32, 32), values(100, 32, 32)", """
out = []
for k in range(len(a)):
    out.append(torch.mm(a[k], b[k]))
""", """
out = list(torch.bmm(a, b).unbind())
""", equal=False)  # fmt: skip

cell("products_with_long_rows", "kernels too small for the GPU", "small_grids", """
a, b = values(8, 32, 1 << 14), values(8, 1 << 14, 32)
""", """
for k in range(8):
    a[k] @ b[k]
""", """
torch.bmm(a, b)
""", equal=False)  # fmt: skip

cell("weighted_items", "wait for a value", "host_sync", "w = values(256, 256)", """
total = 0.0
for step in range(20):
    busy(1)
    loss = (w * step).square().mean()
    total += loss.item() / 20
    small(w[0])
""", """
total, kept = 0.0, []
for step in range(20):
    busy(1)
    loss = (w * step).square().mean()
    kept.append(loss)
    small(w[0])
for value in torch.stack(kept).tolist():
    total += value / 20
""")  # fmt: skip

cell("eye_from_the_cpu", "tensors made on the CPU", "host_sync", "x = values(256, 256)", """
for step in range(10):
    busy(1)
    y = x + step * torch.eye(256).to("cuda")
""", """
eye = torch.eye(256, device="cuda")
for step in range(10):
    busy(1)
    y = x + step * eye
""")  # fmt: skip

cell("rows_to_the_gpu", "many small copies", "small_copies", "rows = [torch.ones(16, 3) for _ in range(60)]", """
moved = [row.cuda() for row in rows]  # one copy for each row
""", """
moved = list(torch.stack(rows).cuda())
""")  # fmt: skip

cell("zeros_by_position", "gradients set to zero", "zero_grad", """
params = [torch.ones(1 << 18, device="cuda", requires_grad=True) for _ in range(20)]
for one in params:
    one.grad = torch.ones_like(one)
sgd = torch.optim.SGD(params, 0.1)
""", """
for _ in range(5):
    sgd.zero_grad(False)
    params[0].detach().mul_(1.0)
""", """
for _ in range(5):
    sgd.zero_grad()
    params[0].detach().mul_(1.0)
""")  # fmt: skip

cell("rmsprop_one_by_one", "unfused optimizer", "optimizer_loop", """
params = [torch.ones(1 << 10, device="cuda", requires_grad=True) for _ in range(40)]
for one in params:
    one.grad = torch.ones_like(one)
""", """
rmsprop = torch.optim.RMSprop(
    params,
    lr=1e-3,
    foreach=False,  # to save memory
)
for _ in range(3):
    rmsprop.step()
""", """
rmsprop = torch.optim.RMSprop(params, lr=1e-3, foreach=True)
for _ in range(3):
    rmsprop.step()
""", equal=False)  # fmt: skip

cell("mask_of_attention_in_loop", "constants made in a loop", "launch_bound", "x = values(64, 64)", """
for step in range(30):
    mask = torch.ones(64, 64, device="cuda").triu(1) * -1e9
    y = (x + mask).exp()
""", """
upper = torch.ones(64, 64, device="cuda").triu(1)
for step in range(30):
    mask = upper * -1e9
    y = (x + mask).exp()
""")  # fmt: skip

# more kinds

_SLOW_DATA = """
import time
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, index):
        time.sleep(0.03)  # reads a file
        return torch.full((4,), float(index))
data = Slow()
"""

cell("batches_in_the_main_process", "waiting for the next batch", "data_loader", _SLOW_DATA, """
loader = torch.utils.data.DataLoader(data, batch_size=4)
total = 0.0
for batch in loader:
    total += float(batch.sum())
""", """
loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, persistent_workers=True)
total = 0.0
for batch in loader:
    total += float(batch.sum())
""", gpu="")  # fmt: skip

cell("collecting_in_loop", "garbage collection in a loop", "garbage_collection", """
import gc
many = [[number] for number in range(400_000)]
x = torch.ones(64, 64)
""", """
for step in range(8):
    y = x @ x
    gc.collect()  # to save memory
""", """
for step in range(8):
    y = x @ x
""", gpu="")  # fmt: skip

cell("collecting_in_function", "garbage collection in a loop", "garbage_collection", """
import gc
many = [[number] for number in range(400_000)]
x = torch.ones(64, 64)
def clean():
    gc.collect()
""", """
for step in range(8):
    y = x @ x
    clean()
""", """
for step in range(8):
    y = x @ x
""", gpu="")  # fmt: skip

cell("images_in_rows", "layout of convolutions", "layout_conversions", """
torch.set_grad_enabled(False)
net = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)).cuda().to(BF16)
images = values(16, 64, 56, 56, dtype=BF16)
""", """
for _ in range(3):
    y = net(images)
""", """
net = net.to(memory_format=torch.channels_last)  # once
images = images.to(memory_format=torch.channels_last)  # once
for _ in range(3):
    y = net(images)
""", equal=False, values=False)  # fmt: skip

cell("no_tf32_on_this_gpu", "products that autocast runs on tensor cores", "fp32_math", """
torch.set_grad_enabled(False)
net = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(3))).cuda()
x = values(1024, 1024)
""", """
for _ in range(3):
    y = net(x)
""", """
with torch.autocast("cuda", dtype=torch.float16):
    for _ in range(3):
        y = net(x)
""", gpu="t4", equal=False)  # fmt: skip

cell("pointwise_function", "pointwise chain that compiles", "unfused_pointwise", """
def mix(x, y):
    z = x * 2 + y
    z = z.sigmoid() * x - y
    return (z * z + 1).sqrt()
x, y = values(1 << 22), values(1 << 22)
""", """
for _ in range(8):
    z = mix(x, y)
""", """
mix = torch.compile(mix)  # once
mix(x, y)  # once
for _ in range(8):
    z = mix(x, y)
""", equal=False)  # fmt: skip

cell("step_counts_on_the_gpu", "step counts that the host reads", "host_sync", """
params = [torch.ones(1 << 8, device="cuda", requires_grad=True) for _ in range(40)]
for one in params:
    one.grad = torch.ones_like(one)
adam = torch.optim.Adam(params, 1e-3)
adam.step()
for state in adam.state.values():
    state["step"] = state["step"].cuda()  # as after reading a checkpoint
""", """
for _ in range(3):
    adam.step()
""", """
for group in adam.param_groups: group["capturable"] = True  # once
for _ in range(3):
    adam.step()
""", equal=False)  # fmt: skip

cell("clipping_one_by_one", "gradients clipped one by one", "tiny_kernels", """
params = [torch.ones(1 << 8, device="cuda", requires_grad=True) for _ in range(60)]
for one in params:
    one.grad = torch.ones_like(one)
""", """
for _ in range(4):
    norm = torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=False)
""", """
for _ in range(4):
    norm = torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
""", equal=False)  # fmt: skip

cell("growing_tensor", "a tensor that grows in a loop", "copies", "x = values(64, 1 << 14)", """
out = x[:0]
for step in range(64):
    y = x[step : step + 1] * step
    out = torch.cat([out, y])
""", """
parts = [x[:0]]
for step in range(64):
    parts.append(x[step : step + 1] * step)
out = torch.cat(parts)
""")  # fmt: skip

cell("mean_from_the_host", "the same copy in each iteration", "small_copies", """
x, mean = values(64, 3), torch.tensor([0.485, 0.456, 0.406])
""", """
for step in range(40):
    y = x - mean.to("cuda")
""", """
device_mean = mean.to("cuda")
for step in range(40):
    y = x - device_mean
""")  # fmt: skip

cell("accumulation", "gradients reduced in each iteration", "exposed_communication", """
import time
import torch.distributed as dist
if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.parallel.DistributedDataParallel(nn.Sequential(*(nn.Linear(64, 64) for _ in range(4))))
sgd = torch.optim.SGD(net.parameters(), 0.01)
batches = [torch.randn(4, 64) for _ in range(16)]
def slow_network(state, bucket):
    time.sleep(0.05)
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done
net.register_comm_hook(None, slow_network)
for _ in range(3):
    net(batches[0]).sum().backward()  # the first passes arrange the buckets
sgd.zero_grad()
""", """
for number, batch in enumerate(batches):
    loss = net(batch).square().mean()
    loss.backward()
    if (number + 1) % 8 == 0:
        sgd.step()
        sgd.zero_grad()
""", """
import contextlib  # once
for number, batch in enumerate(batches):
    with contextlib.nullcontext() if (number + 1) % 8 == 0 else net.no_sync():
        loss = net(batch).square().mean()
        loss.backward()
    if (number + 1) % 8 == 0:
        sgd.step()
        sgd.zero_grad()
""", gpu="", equal=False)  # fmt: skip
