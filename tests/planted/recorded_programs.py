"""Planted bottlenecks in recorded traces: the recording is the fixed twin."""

from __future__ import annotations

from cases import on_host
from edited import is_there, lengthened
from findings_worlds import MS

from cudalens.frames import Trace

QWEN = "tracelens/h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
V100 = "kineto/resnet50_workers4_2021a.pt.trace.json.gz"
A100 = "hta/trace_diff__control.json.gz"
WORKERS = "kineto/resnet50_workers4.1623213129365.pt.trace.json.gz"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def insert(
    case: tuple[bool, bool], file: str, number: int, ns: int, name: str | None, cat: str = "user_annotation"
) -> Trace:
    """The recording with the cause `number` times for `ns` each; for a hundredth of that in a control."""
    is_planted, is_control = case
    if not is_planted:
        return lengthened(file, 1, 0, None)
    return lengthened(file, number, ns // 100 if is_control else ns, name, cat)


if is_there():

    @on_host("garbage collection", "garbage_collection")
    def recorded_garbage(is_planted: bool, is_control: bool) -> Trace:
        return insert((is_planted, is_control), QWEN, 5, 4 * MS, "Python GC")

    @on_host("data loader", "data_loader")
    def recorded_loader(is_planted: bool, is_control: bool) -> Trace:
        return insert((is_planted, is_control), WORKERS, 6, 60 * MS, LOADER)

    @on_host("compiling in the window", "compiling")
    def recorded_compiling(is_planted: bool, is_control: bool) -> Trace:
        return insert((is_planted, is_control), V100, 1, 300 * MS, "_compile.compile_inner (dynamo_timed)")

    @on_host("driver memory", "driver_memory")
    def recorded_malloc(is_planted: bool, is_control: bool) -> Trace:
        return insert((is_planted, is_control), WORKERS, 40, 8 * MS, "cudaMalloc", "cuda_runtime")

    @on_host("host work", "host_work")
    def recorded_logging(is_planted: bool, is_control: bool) -> Trace:
        return insert((is_planted, is_control), A100, 5, 60 * MS, "write checkpoint")

    @on_host("time outside of recorded events", "host_work")
    def recorded_pause(is_planted: bool, is_control: bool) -> Trace:
        return insert((is_planted, is_control), WORKERS, 20, 20 * MS, None)

    @on_host("loading code", "compiling")
    def recorded_module_load(is_planted: bool, is_control: bool) -> Trace:
        return insert((is_planted, is_control), V100, 6, 50 * MS, "cuModuleLoadData", "cuda_driver")

    @on_host("long driver calls", "driver_calls")
    def recorded_driver_call(is_planted: bool, is_control: bool) -> Trace:
        return insert((is_planted, is_control), WORKERS, 3, 120 * MS, "cudaGraphInstantiate", "cuda_runtime")
