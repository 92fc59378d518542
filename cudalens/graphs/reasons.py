"""Why a function does not replay: the reasons, each with its sentence and what to do; and the states of a tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from cudalens.device.stacks import Place


class State(Enum):
    """What the latest call of a manager did. The allocator sees warm-ups and recordings, but no replays.

    NONE: no memory of the pool is in use. WARMUP: a function ran without a graph in the pool. RECORDING: a graph was
    captured; or one was replayed, and the allocator has been brought up to date for a warm-up or a recording after it.
    EXECUTION: a graph was replayed, so that the allocator's state is out of date.
    """

    NONE = auto()
    WARMUP = auto()
    RECORDING = auto()
    EXECUTION = auto()


@dataclass(frozen=True, slots=True)
class _Words:
    """What a reason says.

    Attributes:
        kind: ``skip`` (runs without a graph), ``rerecord`` (one more graph) or ``warning``.
        sentence: Of the function, with ``{}`` for the names and sizes of the call.
        advice: What the user can do.
    """

    kind: Literal["skip", "rerecord", "warning"]
    sentence: str
    advice: str


class Reason(Enum):
    """Why a call did not simply replay."""

    # Skips: the function runs without a graph.
    MUTATED_INPUT = _Words(
        "skip",
        "writes its input {}",
        "declare it static where it is the same tensor in every call (static=...), or ask for it to be copied back "
        "(mutations='copy').",
    )
    CPU_INPUT = _Words("skip", "takes a CPU tensor: {}", "move it to the device before the call.")
    CPU_SCALAR = _Words(
        "skip",
        "reads a number from a CPU tensor: {}; a graph would keep the value of the recording",
        "pass it as a Python number (each value gets its own graph) or as a tensor on the device.",
    )
    SYNCHRONISES = _Words(
        "skip", "makes the host wait for the device: {}", "keep the value on the device, or read it after the call."
    )
    PAGEABLE_COPY = _Words(
        "skip",
        "copies between the device and pageable host memory: {}",
        "copy before the call, or from pinned memory with non_blocking=True.",
    )
    UNJOINED_STREAM = _Words(
        "skip",
        "leaves work on another stream: {}",
        "end with torch.cuda.current_stream().wait_stream(that_stream).",
    )
    UNREGISTERED_RNG = _Words(
        "skip",
        "draws from a generator that no graph can register: {}",
        "use the device's default generator, or a torch.Generator(device='cuda').",
    )
    CAPTURE_FAILED = _Words("skip", "cannot be captured: {}", "see the message; the function runs as it is.")
    TOO_MANY_RECORDINGS = _Words(
        "skip",
        "was recorded too often: {}",
        "keep addresses and sizes stable, or allow more (rerecord_limit=...).",
    )
    ESCAPED_TENSOR = _Words(
        "skip",
        "keeps a tensor that it makes in every call: {}",
        "return it, or write into a tensor that was made before (copy_).",
    )
    NEW_GRADIENT = _Words(
        "skip",
        "makes a new gradient in every call: {}",
        "keep the gradients' memory between calls: zero_grad(set_to_none=False).",
    )
    GRADIENT_HELD = _Words(
        "skip",
        "makes a gradient while the last one is still held: {}",
        "clone what is kept of a gradient: .grad.clone().",
    )
    RECOMPUTED = _Words(
        "skip",
        "is computed again by its backward: {}",
        "leave torch.utils.checkpoint out of the graphed function, or pass use_reentrant=False and draw no random "
        "numbers inside it.",
    )
    OPAQUE_RESULT = _Words(
        "skip",
        "returns what a replay cannot make again: {}",
        "return the tensors that it holds: tensors, numbers, text or None, or tuples, lists and dicts of them.",
    )
    SIDE_EFFECT = _Words(
        "skip",
        "changes a Python value in every call: {}; a replay would not",
        "change it outside of the function, or keep the state in a tensor that the function writes in place.",
    )
    CHANGED_READ = _Words(
        "skip",
        "changes what it reads by a function, a method or a variable of torch or Python: {}",
        "read it, or change it, outside of the function.",
    )
    OUTSIDE_CALL = _Words(
        "skip",
        "calls what a replay does not call again: {}",
        "call it outside of the function, and pass its value as an argument.",
    )
    UNGUARDED = _Words(
        "skip",
        "can read a value that cannot be compared before a replay: {}",
        "pass it as an argument, or as a number, text, list or dict.",
    )
    UNNAMED_INPUT = _Words(
        "skip",
        "takes a tensor from a place that was not found: {}; another one there would not be noticed",
        "pass it as an argument, or hold it in a variable, a container or an attribute that the function reads.",
    )
    HIDDEN_TENSOR = _Words(
        "skip",
        "calls an operator written in Python, which can use more than its arguments: {}",
        "pass what the operator uses as arguments of the operator.",
    )
    CPU_OUTPUT = _Words("skip", "returns a CPU tensor: {}", "return device tensors, and copy after the call.")
    NO_DEVICE_WORK = _Words("skip", "does nothing on a device", "nothing is lost: there is nothing to replay.")
    SEVERAL_DEVICES = _Words("skip", "works on several devices: {}", "make one function per device.")
    ODD_TENSOR = _Words(
        "skip",
        "uses a tensor that has no plain memory: {}",
        "pass dense tensors (torch.strided, no subclass; resolve_conj() of a conjugate).",
    )
    UNHASHABLE = _Words(
        "skip",
        "takes an argument that can be neither copied nor compared: {}",
        "pass tensors, numbers, text, or tuples, lists and dicts of them.",
    )
    SECOND_DERIVATIVE = _Words(
        "skip",
        "is differentiated twice: {}; the backward of a graph cannot be differentiated",
        "nothing, if the second derivative is needed; otherwise leave out create_graph=True.",
    )
    UNEVEN_GRADIENT = _Words(
        "skip",
        "computes only some of its results from {}; the backward of a graph would reach it from the others, too",
        "graph the computation of each result as a function of its own.",
    )
    TRANSFORM = _Words(
        "skip",
        "is called inside a function transform: {}; a graph holds plain tensors only",
        "nothing, or transform the function first and graph the result.",
    )
    HOOKS_DISABLED = _Words(
        "skip",
        "disables hooks of saved tensors: {}; a recording needs such hooks",
        "compute gradients inside of it by torch.autograd.grad, and graph the functions that need no transform.",
    )
    KEPT_CASTS = _Words(
        "skip",
        "runs in a region that keeps the casts of weights until it ends: {}; a graph casts them anew",
        "enter torch.autocast inside of the function, or pass cache_enabled=False to the region around it.",
    )
    OBSERVED = _Words(
        "skip",
        "is called where the program observes operators: {}; a replay runs none",
        "nothing: calls outside of it run as graphs.",
    )
    MEMORY_LIMIT = _Words(
        "skip",
        "needs more graph memory than max_bytes allows: {}",
        "allow more (max_bytes=...), pad sizes to a few (pad=...), or free what is there (reset()).",
    )
    COSTS_MORE = _Words(
        "skip",
        "is slower as a graph: {}",
        "graph a larger part of the program, or pass eager_if_slower=False to replay it all the same.",
    )
    # Re-recordings: one more graph for the same function.
    NEW_SHAPE = _Words("rerecord", "got tensors of new sizes: {}", "pad to a few sizes (pad={name: multiple}).")
    NEW_VALUE = _Words(
        "rerecord", "got a new value: {}", "pass what changes as a tensor on the device; a graph keeps its values."
    )
    NEW_MODE = _Words("rerecord", "runs in another mode: {}", "nothing: each mode has its own graph.")
    STATIC_MOVED = _Words(
        "rerecord",
        "found a static tensor at another address: {}",
        "write into the tensor (copy_) instead of making a new one.",
    )
    MANAGED_MOVED = _Words(
        "rerecord",
        "got the output of another recording than before: {}",
        "call the functions in the same order; the other way has a graph of its own now.",
    )
    OUTPUT_ALIVE = _Words(
        "rerecord",
        "was called while an earlier output was still held: {}",
        "drop it before the call, or clone it; the memory cannot be used again while it lives.",
    )
    # Warnings.
    PENDING_BACKWARD = _Words(
        "warning",
        "cannot begin a new step, because a backward of the last one is still to come: {}",
        "call backward(), use torch.no_grad(), or drop the outputs.",
    )
    POOL_RENEWED = _Words(
        "warning",
        "keeps a tensor of its first call: {}; recordings begin anew in another pool",
        "nothing, where that happens once (a cache that fills itself).",
    )

    @property
    def kind(self) -> Literal["skip", "rerecord", "warning"]:
        """Whether the function skips graphs, gets one more, or is only reported."""
        return self.value.kind

    @property
    def advice(self) -> str:
        """What to do about it."""
        return self.value.advice

    def sentence(self, what: str = "") -> str:
        """What happened, of the function; `what` names the cause."""
        text = self.value.sentence.format(what)
        return text if what else text.partition(":")[0].removesuffix(" ")


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason in one case.

    Attributes:
        reason: Which.
        what: The cause: names, sizes, an operator.
        place: The user's line; None where there is none.
        change: The change of the program that lets it replay, as lines of a diff; "" if none is known.
    """

    reason: Reason
    what: str = ""
    place: Place | None = None
    change: str = ""

    def __str__(self) -> str:
        at = f" ({self.place})" if self.place is not None and self.place.code is not None else ""
        return f"{self.reason.sentence(self.what)}{at}"
