"""Hand-made cases around torch: transforms, settings, modes, attributes and classes of tensors, hooks, modules."""

from __future__ import annotations

from graph_scenarios.hand_made import Case

_LOGGED = """
class Counted(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        log.append(str(func))
        return func(*args, **(kwargs or {}))
"""

TRANSFORMS = {
    f"{name} inside, {'with' if grad else 'without'} a gradient": Case(
        "def f(y): return (y * w).sin().sum()\ndef g(y): return f(y) * y", f"return {body}", grad=grad
    )
    for grad in (False, True)
    for name, body in {
        "vmap": "torch.vmap(f)(torch.stack([x, x + 1]))",
        "grad": "torch.func.grad(f)(x)",
        "vmap of grad": "torch.vmap(torch.func.grad(f))(torch.stack([x, x + 1]))",
        "vjp": "torch.func.vjp(f, x)[1](torch.ones((), device='cuda'))",
        "jvp": "torch.func.jvp(f, (x,), (x * 2,))",
        "jacrev": "torch.func.jacrev(g)(x)",
        "jacfwd": "torch.func.jacfwd(g)(x)",
        "hessian": "torch.func.hessian(f)(x)",
        "functionalize": "torch.func.functionalize(lambda y: f(y.clone().add_(1)))(x)",
        "gradients per sample": "torch.vmap(torch.func.grad(lambda p, y: torch.func.functional_call(net, p, (y,))"
        ".sum()), (None, 0))(dict(net.named_parameters()), torch.stack([x, x]))",
    }.items()
}

SETTINGS = {
    "hooks of saved tensors are disabled inside": Case(
        "", "with torch.autograd.graph.disable_saved_tensors_hooks('none'): return (x * w).sum()"
    ),
    "hooks of saved tensors are disabled around": Case(
        "", "return (x * w).sum()", around="torch.autograd.graph.disable_saved_tensors_hooks('none')"
    ),
    "hooks of saved tensors lose digits": Case(
        "",
        "return (x * w).exp()",
        around="torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float())",
    ),
    "save_on_cpu inside": Case("", "with torch.autograd.graph.save_on_cpu(): return (x * w).sum()", grad=True),
    "a dispatch mode around": Case(_LOGGED, "return x * 2", around="Counted()", seen="log"),
    "anomaly mode": Case("", "return (x * w).sqrt()", around="torch.autograd.set_detect_anomaly(n > 3)"),
    "default device": Case("", "return torch.full((6,), 2.0) * 1", around="torch.device('cpu' if n == 4 else 'cuda')"),
    "use_deterministic_algorithms": Case(
        "",
        "return x * 2 if torch.are_deterministic_algorithms_enabled() else x",
        "torch.use_deterministic_algorithms(True)",
        around="contextlib.ExitStack() if n < 6 else"
        " contextlib.closing(type('Undo', (), {'close': lambda self: torch.use_deterministic_algorithms(False)})())",
    ),
    "TF32": Case(
        "before = torch.backends.cuda.matmul.allow_tf32",
        "return x * (2 if torch.backends.cuda.matmul.allow_tf32 else 3)",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        seen="setattr(torch.backends.cuda.matmul, 'allow_tf32', before) if n == 6 else 1",
    ),
    "autocast of the CPU": Case(
        "", "return x * (2 if torch.is_autocast_enabled('cpu') else 3)", around="torch.autocast('cpu', enabled=n > 3)"
    ),
    "the gradient mode is left switched off": Case(
        "",
        "torch.set_grad_enabled(False)\nreturn x * w",
        seen="(torch.is_grad_enabled(), torch.set_grad_enabled(True) and None)",
    ),
    "the default dtype is left changed": Case(
        "",
        "torch.set_default_dtype(torch.float64)\nreturn x + torch.ones(6, device='cuda')",
        seen="(str(torch.get_default_dtype()), torch.set_default_dtype(torch.float32))",
    ),
    "inference mode inside": Case("", "with torch.inference_mode(): return x * w"),
    "a hook of all modules": Case(
        "from torch.nn.modules.module import register_module_forward_hook as register",
        "return net(x)",
        "handle = register(lambda module, args, out: (log.append(1), out * 2)[1])",
        "(len(log), n == 6 and handle.remove())",
    ),
}

TENSORS = {
    "an attribute of an argument is read": Case(
        "", "return x * getattr(x, 'scale', 1.0)", argument="scaled(vector(n), n)"
    ),
    "an argument gets an attribute": Case("", "x.tag = 'seen'\nreturn x * 2", seen="getattr(x, 'tag', None)"),
    "a result has an attribute": Case("", "y = x * 2\ny.tag = 'seen'\nreturn y", seen="getattr(found, 'tag', None)"),
    "an attribute of a tensor from outside": Case(
        "k = vector()\nk.scale = 2.0", "return x * k * k.scale", "k.scale = 3.0"
    ),
    "a hook is added to an argument": Case("", "x.register_hook(lambda g: g * 2)\nreturn x * w", grad=True),
    "a class of tensors outside": Case("k = vector().as_subclass(Sub)", "return x * k"),
    "a class of tensors as result": Case("", "return (x * 2).as_subclass(Sub)"),
    "a parameter as result": Case("", "with torch.no_grad(): return nn.Parameter(x * 2)"),
    "two arguments that are one": Case(
        "", "return x[0] * 2, x[0] is x[1]", argument="[one := vector(n), one if n % 3 else vector(n)]"
    ),
    "minus zero": Case("thing.k = 0.0", "return torch.full_like(x, thing.k) * 1", "thing.k = -0.0"),
    "the counter of in-place changes": Case("b = vector()", "return b.add_(x)", seen="b._version"),
    "a tensor that a backward needs is overwritten": Case("b = vector()", "b.add_(x)\nreturn b * 2", seen="spoil()"),
    "a gradient is removed": Case("w.grad = vector()", "w.grad = None\nreturn x * w", "w.grad = vector()"),
    "retain_grad of a result": Case("", "y = x * w\ny.retain_grad()\nreturn y, y * 2", seen="found[0].grad"),
    "a new leaf and its consequence": Case("", "y = x * 2\ny.requires_grad_()\nreturn y, y * 3", seen="found[0].grad"),
    "a sparse gradient": Case(
        "net = nn.Embedding(10, 3, sparse=True).cuda()",
        "return net(x).sum()",
        argument="torch.tensor([1, 2, n], device='cuda')",
    ),
    "sparse inside": Case(
        "ids = torch.arange(6, device='cuda').repeat(2, 1)", "return torch.sparse_coo_tensor(ids, x, (6, 6)).to_dense()"
    ),
    "complex": Case("", "return torch.complex(x, x * w).conj(), torch.complex(x, x).imag", grad=True),
    "an inner second derivative": Case(
        "", "return torch.autograd.grad((x * w).sin().sum(), x, create_graph=True)[0]", grad=True
    ),
    "views of several outputs": Case(
        "", "return (x * 2).chunk(3), (x * 3).unbind(0)[:2], (x * 4).split([1, 5])", grad=True
    ),
    "in place on views": Case("", "y = x * w\ny[1:3].mul_(2)\ny.view(2, 3)[0].add_(w[:3])\nreturn y", grad=True),
    "out=": Case("b = torch.zeros(6, device='cuda')", "return torch.mul(x, 2, out=b)", seen="b"),
    "set_": Case("b = torch.zeros(6, device='cuda')", "b.set_(x * 2)\nreturn b + 1", seen="b"),
    "memory that elements share": Case("", "return x * 2", argument="vector(n).as_strided((4, 3), (1, 1))"),
}
TENSORS = {
    name: Case(
        f"{case.before}\ndef scaled(t, k):\n    t.scale = float(k)\n    return t\n"
        "def spoil():\n    loss = (b * w).sum()\n    step(vector())\n    loss.backward()\n    return 1\n",
        case.body,
        case.change,
        case.seen,
        case.grad,
        case.around,
        case.argument,
    )
    for name, case in TENSORS.items()
}

MODULES = {
    "a lazy module": Case("net = nn.Sequential(nn.LazyLinear(4), nn.ReLU()).cuda()", "return net(x)", grad=True),
    "spectral_norm": Case(
        "net = parametrizations.spectral_norm(net)", "return net(x)", "net.eval()", "dict(net.state_dict())"
    ),
    "weight_norm": Case(
        "net = parametrizations.weight_norm(net)", "return net(x)", "net.parametrizations.weight.original0.data.mul_(2)"
    ),
    "a parametrization is added": Case(
        "class Double(nn.Module):\n    def forward(self, t): return t * 2",
        "return net(x)",
        "parametrize.register_parametrization(net, 'weight', Double())",
    ),
    "a ParameterList grows": Case(
        "net = nn.ParameterList([vector()])", "return sum(x * p for p in net)", "net.append(vector(3))"
    ),
    "tied weights are untied": Case(
        "net = nn.Sequential(net, nn.Linear(6, 6).cuda())\nnet[1].weight = net[0].weight",
        "return net(x)",
        "net[1].weight = nn.Parameter(net[0].weight.detach() * 2)",
        grad=True,
    ),
    "a state dict is loaded": Case(
        "state = {k: v * 2 for k, v in net.state_dict().items()}",
        "return net(x)",
        "net.load_state_dict(state, assign=True)",
    ),
    "a backward hook that logs": Case(
        "net.register_full_backward_hook(lambda m, i, o: (log.append(1), (i[0] * 2,))[1])",
        "return net(x)",
        seen="len(log)",
        grad=True,
        argument="vector(n).view(1, 6)",
    ),
    "a forward hook that logs": Case(
        "net.register_forward_hook(lambda m, a, o: log.append(1))", "return net(x)", seen="len(log)"
    ),
    "dropout in a checkpoint": Case(
        "", "return checkpoint(lambda y: F.dropout(net(y)), x, use_reentrant=False)", grad=True
    ),
}
