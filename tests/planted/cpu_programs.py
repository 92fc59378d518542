"""Planted bottlenecks in runs without a GPU, measured on this machine; sleeping stands for Python that is busy."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import torch
from cases import on_host
from findings_worlds import MS, US, World

import cudalens
from cudalens.frames import Trace


def measured(step: Callable[[], object], number: int) -> Trace:
    step()
    with cudalens.profile(cpu_only=True, keep=False) as run:
        for _ in range(number):
            step()
    return run.trace


@on_host("Python on the CPU", "python_work")
def python_of_50_ms(is_planted: bool, is_control: bool) -> Trace:
    """50 ms of Python in each step; in the control they are in the operator."""
    x = torch.ones(64, 64)

    def step() -> None:
        until = time.perf_counter() + (0.05 if is_planted and not is_control else 0.0)
        while time.perf_counter() < until:
            pass
        x @ x
        if is_control:
            torch.ones(1 << 22).exp_()

    return measured(step, 8)


@on_host("garbage collection on the CPU", "garbage_collection")
def garbage_of_every_step(is_planted: bool, is_control: bool) -> Trace:
    """A collection in each step visits all objects; in the control there is one at the end of long steps."""
    kept = [[k] for k in range(20_000)] if is_planted and not is_control else []
    x = torch.ones(64, 64)

    def step() -> None:
        (x @ x).relu()
        if is_control:
            torch.ones(1 << 23).exp_()
        if is_planted and not is_control:
            gc.collect()

    gc.disable()
    try:
        return measured(step, 4)
    finally:
        gc.enable()
        kept.clear()


@on_host("Python on the CPU", "python_work", control=False)
def python_in_a_range(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(20):
        world.op("aten::mm", 3 * MS).sleep(3 * MS)
        if is_planted:
            world.within("tokenize", lambda w: w.sleep(20 * MS))
    return world.trace(source="cpu")


@on_host("data loader on the CPU", "data_loader")
def loader_on_the_cpu(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(20):
        world.op("aten::mm", 3 * MS).sleep(3 * MS)
        if is_planted:
            ns = 100 * US // 2 if is_control else 20 * MS
            world.within("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", lambda w, ns=ns: w.sleep(ns))
    return world.trace(source="cpu")


@on_host("Python between operators on the CPU", "python_between", control=False)
def elements_one_by_one(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(2000):
        world.op("aten::add", 20 * US).sleep(80 * US if is_planted else 0)
        world.now += 20 * US
    return world.trace(source="cpu")


@on_host("tiny operators on the CPU", "tiny_operators", control=False)
def tiny_operators(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    world.op("aten::mm", 2 * MS)
    world.now += 2 * MS
    for _ in range(2000 if is_planted else 1):
        world.op("aten::add", 4 * US)
        world.now += 4 * US
    return world.trace(source="cpu")


@on_host("attention in pieces on the CPU", "eager_attention", control=False)
def attention_on_the_cpu(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(10):
        for op, ms in (("aten::bmm", 2), ("aten::softmax", 6), ("aten::bmm", 2)):
            if is_planted or op == "aten::bmm":
                world.op(op, ms * MS)
                world.now += ms * MS
        world.op("aten::linear", 3 * MS)
        world.now += 3 * MS
    return world.trace(source="cpu")
