"""Hand-made cases with autocast, which keeps the casts of weights until its outermost region ends."""

from __future__ import annotations

from graph_scenarios.hand_made import Case

_BF16 = "torch.autocast('cuda', torch.bfloat16)"
_CHANGED = "with torch.no_grad(): net.weight.mul_(1.5)"
_AFTER = "net.weight.data.mul_(1.5) is None"


def _inside(*lines: str) -> str:
    return f"with {_BF16}:\n" + "\n".join(f"    {line}" for line in lines)


def _through(region: str, body: str = "return net(x)", seen: str = _AFTER) -> Case:
    """All calls in one region; weights change after each of them."""
    before = f"region = contextlib.ExitStack()\nregion.enter_context({region})"
    return Case(before, body, seen=f"({seen}, n == 6 and region.close())")


AUTOCAST = {
    "a weight is used twice": Case("", _inside("return net(x) + net(x * 0.37)"), seen=_AFTER),
    "a weight is used twice, in regions that are nested": Case(
        "", _inside("y = net(x)", f"with {_BF16}: y = y + net(x * 0.37)", "return y + net(x * 0.11)"), seen=_AFTER
    ),
    "a weight changes between two uses": Case("", _inside("y = net(x)", _CHANGED, "return y, net(x)")),
    "a weight changes between two uses, without kept casts": Case(
        "",
        _inside("y = net(x)", _CHANGED, "return y, net(x)").replace("bfloat16)", "bfloat16, cache_enabled=False)"),
    ),
    "a weight is used without gradients first": Case(
        "", _inside("with torch.no_grad(): y = net(x)", "return y * net(x)"), seen=_AFTER
    ),
    "a weight is used in inference mode first": Case(
        "", _inside("with torch.inference_mode(): y = net(x).sum().item()", "return y * net(x)"), seen=_AFTER
    ),
    "a weight as argument": Case(
        "", _inside("return F.linear(x[0], x[1]) + F.linear(x[0] * 0.37, x[1])"), argument="[vector(n), net.weight]"
    ),
    "a region around all calls": _through(_BF16),
    "a region around all calls, a weight that is used twice": _through(_BF16, "return net(x) + net(x * 0.37)"),
    "a region around all calls, without gradients": _through(
        _BF16, "with torch.no_grad(): return net(x)", f"({_AFTER}, net(vector()).requires_grad)"
    ),
    "a region around all calls, without kept casts": _through(
        "torch.autocast('cuda', torch.bfloat16, cache_enabled=False)"
    ),
    "a region around all calls, frozen weights": Case(
        f"net.requires_grad_(False)\nregion = contextlib.ExitStack()\nregion.enter_context({_BF16})",
        "return net(x)",
        seen=f"({_AFTER}, n == 6 and region.close())",
    ),
    "a region of the CPU around all calls": _through("torch.autocast('cpu')", _inside("return net(x)")),
    "a region that is off around all calls": _through(
        "torch.autocast('cuda', enabled=False)", _inside("return net(x)")
    ),
    "a region that is off around some calls": Case(
        "", _inside("return net(x)"), seen=_AFTER, around="torch.autocast('cuda', enabled=n < 9) if n > 3 else None"
    ),
    "a region in inference mode": Case(
        "", "return net(x)", seen=_AFTER, around=f"both(torch.inference_mode(), {_BF16})"
    ),
    "eager calls before and after in a region": Case(
        "", "return net(x)", seen=_AFTER, around="used_before()", grad=True
    ),
    "casts are kept no longer": Case(
        "",
        _inside("y = net(x)", _CHANGED, "return y, net(x)"),
        "torch.set_autocast_cache_enabled(False)",
        "n == 6 and torch.set_autocast_cache_enabled(True)",
    ),
    "another dtype": Case(
        "",
        "with torch.autocast('cuda'): return net(x)",
        "torch.set_autocast_dtype('cuda', torch.bfloat16)",
        "n == 6 and torch.set_autocast_dtype('cuda', torch.float16)",
    ),
    "switched on by hand": Case(
        "",
        "torch.set_autocast_enabled('cuda', True)\ny = net(x)\ntorch.set_autocast_enabled('cuda', False)\nreturn y",
        seen=f"({_AFTER}, n in (3, 6) and torch.clear_autocast_cache())",
    ),
}

_HELPERS = f"""
@contextlib.contextmanager
def both(*managers):
    with contextlib.ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager)
        yield

@contextlib.contextmanager
def used_before():
    with {_BF16}:
        log.append(net(vector(n)))
        net.weight.data.mul_(1.5)
        yield
        log.append(net(vector(n)))
"""
AUTOCAST = {
    name: Case(f"{_HELPERS}\n{case.before}", case.body, case.change, case.seen, case.grad, case.around, case.argument)
    for name, case in AUTOCAST.items()
}
