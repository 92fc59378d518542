"""Run third-party programs plain, on a virtual device, profiled, sanitized and graphed, and compare their results.

    python tools/third_party.py [--only NAME,NAME] [--mode MODE] [--jobs 1] [--limit 240] [--out FOLDER] [--page FILE]

The programs are in tests/programs. `make test-programs` installs their packages into .venv-programs first. Each program
runs in a process of its own with a time limit, once for each mode. Its results have to equal those on the CPU bit for
bit, and the sanitizer must report no race. An error of cudalens is a failure too, unless the
program allows it (result *refused*).

The mode ``compiled``, which runs only if it is named, compiles the step with torch.compile on a virtual device. The
results have to be close to the CPU's, and the kernels of each compiled graph in the Trace have to be the launches in
its generated code, in their order.

The mode ``tried``, which runs only if it is named, tries all fixes for the step (`tried_programs`). The results of each
diff have to be as claimed, and the state is restored. ``tried-eager`` leaves out torch.compile.

Exit status 1: a program failed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import json
import multiprocessing
import os
import random
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import metadata
from itertools import groupby
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypedDict

import numpy as np
import torch
from graphed_programs import Values, run_graphed
from tried_programs import run_tried

ROOT: Final = Path(__file__).parents[1]
PROGRAMS: Final = ROOT / "tests" / "programs"
MODES: Final = ("cpu", "virtual", "profiled", "sanitized", "graphed")
COMPILED: Final = "compiled"
TRIED: Final = "tried"
#: As `TRIED`, without the fixes that compile.
TRIED_EAGER: Final = "tried-eager"
_TRIES: Final = (TRIED, TRIED_EAGER)
#: Seconds for each run on an idle core.
_LIMIT_S: Final = 240
#: The difference from the CPU's values that a program with a condition may have: that of bfloat16.
_TOLERANCE: Final = 2e-2
#: The same of results in float32 of compiled programs: that of PyTorch's benchmarks of torch.compile for training.
_COMPILED_TOLERANCE: Final = 1e-3
#: The dtypes whose results have `_TOLERANCE` in compiled programs: Inductor rounds them in other places.
_HALF: Final = ("torch.bfloat16", "torch.float16")
#: A kernel of a compiled graph, but not a further kernel of a library's call (``extern_kernels.convolution::...``).
_GENERATED: Final = r"triton_|extern_kernels\.\w+$"
_LAUNCH: Final = re.compile(r"^ +(?:\w+ = )?(?:(triton_\w+)\.run|(extern_kernels\.\w+))\(", re.MULTILINE)
_NOTHING_COMPILED: Final = "nothing was compiled"
_GRAPH_RANGE: Final = "## Call CompiledFxGraph"
_GOOD: Final = ("equal", "close", "refused", "eager")


#: How `graphed_programs.run_graphed` states the replays of a program: as it is, and after changes.
_REPLAYED: Final = re.compile(r"(\d+ of \d+) replayed(?:, (\d+ of \d+) after )?")


class Outcome(TypedDict):
    """How one run ended: equal, close, eager, refused, different, race, failed, crashed (the process ended) or late."""

    program: str
    mode: str
    result: str
    seconds: float
    detail: str


_PAGE: Final = """\
# Programs of other packages

`make test-programs` runs {num} small programs of other packages, each on the CPU and in four modes: on a virtual
device, profiled there, sanitized, and with its step as a function of `cudalens.cudagraph`.

- *equal*: every result has the same bits as on the CPU (losses, outputs, gradients, parameters), and the sanitizer
  reports no race.
- *close*: the program casts by autocast, whose lists for CUDA are other ones than the CPU's. The results are close to
  the CPU's, and those of the other modes have the same bits as on the virtual device.
- *refused*: cudalens stops the program with an error that names the reason.
- *failed*: the program stops with an error that it does not have on the CPU.
- *replayed* and *after changes* count the replays among the calls besides warm-ups and recordings, as the program is,
  and after the changes that the reasons state, where these change the count. The step runs eight times. The last column
  has the change, or the first reason of a program that does not replay.

`make test-tries` tries all [fixes](fixes.md) for the step of each program: the results of each diff have to be as
claimed, and the next run that without a try.

Versions: {versions}.
"""


def main() -> int:
    """Run the programs, and print a line for each and the totals."""
    options = _options()
    sys.path[:0] = [str(ROOT), str(PROGRAMS), str(PROGRAMS.parent)]
    torch.set_num_threads(1)
    wanted = options.only.split(",")
    programs = [program for program in _programs() if any(name in program.name for name in wanted)]
    if COMPILED in (options.mode or ()):
        _warm_up_compiler()
    gc.freeze()  # a forked process then copies no memory of its parent when it collects garbage
    options.out.mkdir(exist_ok=True, parents=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes: list[Outcome] = []
        for found in pool.map(lambda program: list(_run(program, options.mode or MODES[1:], options.limit)), programs):
            outcomes += found
            print(_line(found), flush=True)
            (options.out / "programs.json").write_text(json.dumps(outcomes, indent=1))
    if options.page is not None:
        options.page.write_text(_page(outcomes))
    counts = Counter(outcome["result"] for outcome in outcomes)
    print(f"{len(programs)} programs:", ", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if set(counts) - set(_GOOD) or not programs else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="run only the programs whose name contains one of these texts")
    parser.add_argument(
        "--mode",
        action="append",
        choices=(*MODES[1:], COMPILED, *_TRIES),
        help="a mode; by default all but compiled and tried",
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many programs run at the same time")
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="the folder for the results")
    parser.add_argument("--limit", type=int, default=_LIMIT_S, help="seconds for each run of a program")
    parser.add_argument("--page", type=Path, help="write a page with the table of results")
    return parser.parse_args()


def _programs() -> Iterator[Any]:
    """The programs of all modules. Imports cudalens and what it needs, so that a forked process has them."""
    _declare_operators()
    for name in ("cudalens.api.profile", "cudalens.sanitizer", "cudalens.graphs", "cudalens.virtual", "torch._dynamo"):
        importlib.import_module(name)
    for path in sorted(PROGRAMS.glob("programs_*.py")):
        yield from importlib.import_module(path.stem).PROGRAMS


def _declare_operators() -> None:
    """Declare the operators without which torchvision cannot be imported.

    PyPI's torchvision does not load its C library beside a CPU build of torch. The programs do not call its operators.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _run(program: Any, modes: tuple[str, ...], limit_s: int) -> Iterator[Outcome]:
    expected: Values = []
    for mode in ("cpu", *modes):
        begun = time.monotonic()
        if mode in _TRIES:
            result, detail, values = run_tried(program, _built, _values, compiling=mode == TRIED)
        else:
            result, detail, values = _in_process(program, mode, limit_s)
        if mode == "graphed":
            values = values[: len(expected)]  # of more calls
        if result == "equal" and mode != "cpu" and (difference := _difference(expected, values)):
            is_close = mode in ("virtual", *_TRIES) and program.condition and _are_close(expected, values, _TOLERANCE)
            if mode == COMPILED:
                is_close = _are_close(expected, values, _TOLERANCE if program.condition else _COMPILED_TOLERANCE)
                difference = f"{detail}; {difference}"
            close_detail = detail if mode == COMPILED else program.condition
            result, detail = ("close", close_detail) if is_close else ("different", difference)
        if result == "equal" and detail.startswith(_NOTHING_COMPILED):
            result = "eager"
        if mode == "cpu" or result == "close":
            expected = values
        seconds = round(time.monotonic() - begun, 2)
        yield Outcome(program=program.name, mode=mode, result=result, seconds=seconds, detail=detail)
        if mode == "cpu" and result != "equal":
            return


def _in_process(program: Any, mode: str, limit_s: int) -> tuple[str, str, Values]:
    """Run a program in a forked process."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(program, mode, send))
    process.start()
    send.close()
    answer: tuple[str, str, Values] = ("late", f"no result within {limit_s} s", [])
    try:
        if receive.poll(limit_s):
            answer = receive.recv()
    except EOFError:
        process.join(limit_s)
        answer = ("crashed", f"exit status {process.exitcode}", [])
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return answer


def _child(program: Any, mode: str, send: Connection) -> None:
    from cudalens.errors import CudalensError

    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as sink:
        for stream in (1, 2):
            os.dup2(sink.fileno(), stream)
    try:
        if mode == COMPILED:
            send.send(_compiled(program))
        else:
            runs = {"cpu": _on_cpu, "graphed": _on_graphs}
            send.send(runs[mode](program) if mode in runs else _on_device(program, mode))
    except CudalensError as error:
        send.send(("refused" if mode in program.refused else "failed", f"{type(error).__name__}: {error}", []))
    except BaseException:
        send.send(("failed", traceback.format_exc(), []))
    os._exit(0)


def _on_cpu(program: Any) -> tuple[str, str, Values]:
    return "equal", "", _results(program, "cpu")


def _on_device(program: Any, mode: str) -> tuple[str, str, Values]:
    import cudalens

    with cudalens.virtual.device(program.specs), ExitStack() as stack:
        if mode == "profiled":
            recorded = stack.enter_context(cudalens.profile(program.name, memory=True, shapes=True, modules=True))
        elif mode == "sanitized":
            sanitizer = stack.enter_context(cudalens.sanitize())
        values = _results(program, "cuda")
        stack.close()
        if mode == "profiled":
            return "equal", f"{len(recorded.trace.events)} events", values
        if mode == "sanitized" and sanitizer.error is not None:
            return "failed", f"the sanitizer stopped: {sanitizer.error!r}", []
        if mode == "sanitized" and len(sanitizer.races):
            return "race", str(sanitizer.races), values
        return "equal", "", values


def _warm_up_compiler() -> None:
    """Compile a function, so that forked processes share Inductor's modules and patterns."""
    import cudalens

    with cudalens.virtual.device("h100", values=False):
        torch.compile(lambda x: x.sin() @ x)(torch.ones(2, 2, device="cuda"))
    torch._dynamo.reset()


def _compiled(program: Any) -> tuple[str, str, Values]:
    """Run a program with its step compiled; random numbers are those of eager code."""
    from torch._inductor import config

    import cudalens

    with cudalens.virtual.device(program.specs), config.patch(fallback_random=True):
        with cudalens.profile(program.name) as recorded:
            values = _results(program, "cuda", torch.compile)
        num_graphs, problem = _check_launches(recorded.trace)
    kernels = recorded.trace.events.query("cat == 'kernel'")["name"].astype(str)
    num_fused = int(kernels.str.startswith("triton_").sum())
    detail = f"{num_graphs} calls of graphs, {num_fused} of {len(kernels)} kernels generated"
    if problem:
        return "failed", problem, values
    return "equal", detail if num_graphs else _eager_reason(), values


def _eager_reason() -> str:
    """Why Dynamo compiled nothing: the reason of its first graph break."""
    from torch._dynamo.utils import counters

    reasons = [str(reason).partition("\n")[0] for reason in counters["graph_break"]]
    return f"{_NOTHING_COMPILED}: {reasons[0] if reasons else 'Dynamo skips the function'}"


def _check_launches(trace: Any) -> tuple[int, str]:
    """Compare the kernels of each call of a compiled graph with the launches in the generated code.

    Returns:
        The number of calls, and the first difference; "" for none.
    """
    from torch._inductor.codecache import PyCodeCache

    sources = [Path(module.__file__).read_text() for module in PyCodeCache.modules if hasattr(module, "call")]
    codes = [
        [generated or library for generated, library in _LAUNCH.findall(source[source.index("def call") :])]
        for source in sources
    ]
    events = trace.events
    ranges = events[events["name"].astype(str).str.startswith(_GRAPH_RANGE)]
    kernels = events[(events["cat"] == "kernel") & events["name"].astype(str).str.match(_GENERATED)]
    issued = events["ts"].loc[kernels["launch"]].to_numpy()
    names = kernels["name"].astype(str).to_numpy()
    for start, duration in zip(ranges["ts"], ranges["dur"], strict=True):
        inside = (issued >= start) & (issued < start + duration)
        launched = names[inside][np.argsort(issued[inside], kind="stable")].tolist()
        if launched not in codes:
            return len(ranges), f"no generated code launches {launched}"
    return len(ranges), ""


def _on_graphs(program: Any) -> tuple[str, str, Values]:
    return run_graphed(program, _run_calls, _difference)


def _results(program: Any, device: str, wrap: Callable[[Any], Any] = lambda step: step) -> Values:
    return [value for call in _run_calls(program, wrap, device=device) for value in call]


def _run_calls(
    program: Any,
    wrap: Callable[[Any], Any] = lambda step: step,
    prepare: Callable[[], None] = lambda: None,
    num_calls: int | None = None,
    *,
    device: str = "cuda",
) -> list[Values]:
    """Build a program and call its step.

    Args:
        program: The program.
        wrap: Makes the function that is called from the step.
        prepare: Called between building and wrapping.
        num_calls: Number of calls, whose arguments are those of the program again and again; by default as many as it
            has arguments for.
        device: Where it runs.
    """
    step, calls = _built(program, device, prepare)
    step = wrap(step)
    if num_calls is not None:
        calls = itertools.islice(_again_and_again(calls), num_calls)
    return [_values(step(*args)) for args in calls]


def _built(program: Any, device: str = "cuda", prepare: Callable[[], None] = lambda: None) -> Any:
    """The step and the calls of a program, with the seeds that all modes have."""
    _seed(0)
    built = program.build(device)
    prepare()
    _seed(1)
    return built


def _again_and_again(calls: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    while True:
        yield from calls


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _values(result: Any) -> Values:
    leaves = torch.utils._pytree.tree_leaves(result)
    return [_value(leaf) for leaf in leaves if leaf is not None]


def _value(leaf: Any) -> tuple[str, tuple[int, ...], bytes]:
    if not isinstance(leaf, torch.Tensor):
        return type(leaf).__name__, (), repr(leaf).encode()
    if hasattr(leaf, "to_local"):  # Dynamo evaluates this condition of a program without gradients that are DTensors
        leaf = leaf.to_local()
    host = leaf.detach().cpu().contiguous()
    return str(host.dtype), tuple(host.shape), host.reshape(-1).view(torch.uint8).numpy().tobytes()


def _difference(expected: Values, values: Values) -> str:
    """The first result that differs from the one on the CPU."""
    if not expected or len(expected) != len(values):
        return f"{len(values)} results, {len(expected)} on the CPU"
    for index, (left, right) in enumerate(zip(expected, values, strict=True)):
        if left != right:
            return f"result {index} of {len(values)} differs: {right[0]} {right[1]}, on the CPU {left[0]} {left[1]}"
    return ""


def _are_close(expected: Values, values: Values, tolerance: float) -> bool:
    if [value[:2] for value in expected] != [value[:2] for value in values]:
        return False
    for left, right in zip(expected, values, strict=True):
        is_number = left[0].startswith("torch.") or left[0] in ("float", "int", "bool")
        if not is_number and left != right:
            return False
        allowed = max(tolerance, _TOLERANCE) if left[0] in _HALF else tolerance
        if is_number and not torch.allclose(_tensor(left), _tensor(right), rtol=allowed, atol=allowed):
            return False
    return True


def _tensor(value: tuple[str, tuple[int, ...], bytes]) -> torch.Tensor:
    dtype, shape, data = value
    if not dtype.startswith("torch."):
        return torch.tensor(float(data.decode() == "True" if dtype == "bool" else data), dtype=torch.float64)
    return torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype.removeprefix("torch."))).reshape(shape)


def _line(found: list[Outcome]) -> str:
    cells = [f"{outcome['mode']} {outcome['result']}" for outcome in found]
    details = [
        _detail(outcome) for outcome in found if outcome["result"] != "equal" or outcome["mode"] in ("graphed", *_TRIES)
    ]
    return "\n".join([f"{found[0]['program']:32} {', '.join(cells)}", *details])


def _detail(outcome: Outcome) -> str:
    lines = outcome["detail"].strip().splitlines() or [""]
    return f"    {outcome['mode']}: {lines[-1][:300]}"


def _page(outcomes: list[Outcome]) -> str:
    """The results as Markdown: a row for each program."""
    packages = ("torch", "transformers", "diffusers", "timm", "lightning", "accelerate", "peft", "torchao")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    rows = [_row(list(found)) for _, found in groupby(outcomes, key=lambda outcome: outcome["program"])]
    modes = MODES[1:]
    header = ["program", *modes, "replayed", "after changes", "change, or first reason of the others"]
    lines = [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]
    return "\n".join([_PAGE.format(num=len(rows), versions=versions), *lines, ""])


def _row(found: list[Outcome]) -> list[str]:
    results = {outcome["mode"]: outcome["result"] for outcome in found}
    counts = _REPLAYED.match(found[-1]["detail"])
    cells = [results.get(mode, "") for mode in MODES[1:]]
    replayed = (counts[1], counts[2] or "") if counts else ("", "")
    return [f"`{found[0]['program']}`", *cells, *replayed, _reason(found[-1]["detail"])]


def _reason(detail: str) -> str:
    """The change after which a program replays, or the reason why it does not; "" if it replays as it is."""
    change = re.search(r" after (\+ [^;]*)", detail)
    reasons = re.findall(r"; ([A-Z_]+): ([^;(]*)", detail)
    shown = [f"{reason}: {text.strip()}" for reason, text in reasons if reason != "POOL_RENEWED"]
    if shown:
        return shown[0].replace("|", "\\|").replace("<", "&lt;")
    return f"`{change[1].strip()}`" if change else ""


if __name__ == "__main__":
    sys.exit(main())
