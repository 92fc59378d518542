"""Stream races as in public reports of projects: each is found, and its clean twin has none.

A fix that is offered as a diff is applied, and the program runs again: its race must be gone, and no other may appear.
"""

import linecache
import textwrap
from dataclasses import dataclass, field

import pytest
from test_fix_writing import applied, findings_in

from cudalens.sanitizer import RaceKind

READ, WRITE, TWICE = RaceKind.READ_AFTER_WRITE, RaceKind.WRITE_AFTER_READ, RaceKind.WRITE_AFTER_WRITE
UAF, HOST = RaceKind.USE_AFTER_FREE, RaceKind.HOST


@dataclass(frozen=True)
class Pattern:
    """A program with a race.

    Attributes:
        program: Its text; ``{name}`` is a part that `racy` and `clean` fill in.
        racy: The parts that make it race.
        clean: The parts that order it.
        kinds: Kinds of the races.
        diff: The lines that the fix of the first race adds.
    """

    program: str
    racy: dict[str, str] = field(default_factory=dict)
    clean: dict[str, str] = field(default_factory=dict)
    kinds: frozenset[RaceKind] = frozenset()
    diff: str = ""

    def text(self, parts):
        text = textwrap.dedent(self.program).strip()
        for name, part in parts.items():
            text = text.replace(f"{{{name}}}", part)
        return f"import torch\n\n{text}\n"


PATTERNS = {
    "torchrec#4231: storage freed by resize_(0) while a copy stream reads it": Pattern(
        """
        copies = torch.cuda.Stream()
        host = torch.empty(1024).pin_memory()

        def offload():
            x = torch.ones(1024, device="cuda")
            copies.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(copies):
                {record}host.copy_(x, non_blocking=True)
            x.untyped_storage().resize_(0)
            return torch.full((1024,), -1.0, device="cuda")

        other = offload()
        """,
        racy={"record": ""},
        clean={"record": "x.record_stream(copies); "},
        kinds=frozenset({UAF}),
        diff="        x.record_stream(torch.cuda.current_stream())",
    ),
    "Megatron-LM: a gradient bucket is used before its reduction on a communication stream": Pattern(
        """
        comm = torch.cuda.Stream()
        bucket = torch.zeros(256, device="cuda")
        for micro_batch in range(2):
            bucket.add_(1)
            comm.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(comm):
                bucket.mul_(0.5)
            {wait}
        total = bucket.sum()
        """,
        racy={"wait": "pass"},
        clean={"wait": "torch.cuda.current_stream().wait_stream(comm)"},
        kinds=frozenset({READ, TWICE}),
        diff="    torch.cuda.current_stream().wait_stream(comm)",
    ),
    "TensorRT-LLM#15265: tensors made on an auxiliary stream are used on another, ordered by events alone": Pattern(
        """
        aux = torch.cuda.Stream()

        def attention():
            with torch.cuda.stream(aux):
                weights = torch.ones(1024, device="cuda")
                ready = aux.record_event()
            torch.cuda.current_stream().wait_event(ready)
            {record}out = weights * 2
            del weights
            with torch.cuda.stream(aux):
                scratch = torch.full((1024,), -1.0, device="cuda")
            return out, scratch

        kept = attention()
        """,
        racy={"record": ""},
        clean={"record": "weights.record_stream(torch.cuda.current_stream()); "},
        kinds=frozenset({UAF}),
        diff="    weights.record_stream(torch.cuda.current_stream())",
    ),
    "a copy to the host is read before it is done": Pattern(
        """
        accepted = torch.ones(64, device="cuda")
        on_host = accepted.to("cpu", non_blocking=True)
        {wait}
        total = int(on_host.sum())
        """,
        racy={"wait": "pass"},
        clean={"wait": "torch.cuda.synchronize()"},
        kinds=frozenset({HOST}),
        diff="torch.cuda.current_stream().synchronize()",
    ),
    "vllm: a pinned buffer is refilled for the next step while its copy is pending": Pattern(
        """
        buffer = torch.zeros(64).pin_memory()
        on_device = torch.zeros(64, device="cuda")
        for step in range(3):
            {wait}
            buffer.fill_(step)
            on_device.copy_(buffer, non_blocking=True)
        """,
        racy={"wait": "pass"},
        clean={"wait": "torch.cuda.current_stream().synchronize()"},
        kinds=frozenset({HOST}),
        diff="    torch.cuda.current_stream().synchronize()",
    ),
    "the copy of a snapshot of the buffer needs no wait": Pattern(
        """
        buffer = torch.zeros(64).pin_memory()
        on_device = torch.zeros(64, device="cuda")
        for step in range(3):
            buffer.fill_(step)
            on_device.copy_(buffer{snapshot}, non_blocking=True)
        """,
        racy={"snapshot": ""},
        clean={"snapshot": ".clone().pin_memory()"},
        kinds=frozenset({HOST}),
        diff="    torch.cuda.current_stream().synchronize()",
    ),
    "sglang-omni#1369: the output of a graph is copied on one stream and overwritten by a replay on another": Pattern(
        """
        first, second = torch.cuda.Stream(), torch.cuda.Stream()
        static = torch.ones(64, device="cuda")
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = static * 2
        torch.cuda.synchronize()
        with torch.cuda.stream(first):
            graph.replay()
            copy = out.clone()
            copied = first.record_event()
        with torch.cuda.stream(second):
            {wait}
            graph.replay()
        """,
        racy={"wait": "pass"},
        clean={"wait": "second.wait_event(copied)"},
        kinds=frozenset({WRITE, TWICE}),
        diff="    torch.cuda.current_stream().wait_stream(first)",
    ),
    "the input of a graph is refilled while a replay reads it": Pattern(
        """
        replays = torch.cuda.Stream()
        static = torch.ones(64, device="cuda")
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = static * 2
        torch.cuda.synchronize()
        for step in range(2):
            static.fill_(step)
            replays.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(replays):
                graph.replay()
            {wait}
        """,
        racy={"wait": "pass"},
        clean={"wait": "torch.cuda.current_stream().wait_stream(replays)"},
        kinds=frozenset({WRITE}),
        diff="    torch.cuda.current_stream().wait_stream(replays)",
    ),
    "FSDP2: an all-gather buffer is freed while the copy out of it is pending": Pattern(
        """
        gather, copy_out = torch.cuda.Stream(), torch.cuda.Stream()

        def unshard():
            with torch.cuda.stream(gather):
                flat = torch.ones(4096, device="cuda")
            copy_out.wait_stream(gather)
            with torch.cuda.stream(copy_out):
                {record}parameter = flat.clone()
            del flat
            with torch.cuda.stream(gather):
                following = torch.full((4096,), -1.0, device="cuda")
            return parameter, following

        kept = unshard()
        """,
        racy={"record": ""},
        clean={"record": "flat.record_stream(copy_out); "},
        kinds=frozenset({UAF}),
        diff="        flat.record_stream(torch.cuda.current_stream())",
    ),
    "weights are offloaded without a wait for the stream that computes with them": Pattern(
        """
        transfers = torch.cuda.Stream()
        weight = torch.ones(256, device="cuda")
        host = torch.empty(256).pin_memory()
        torch.cuda.synchronize()
        weight.mul_(3)
        {wait}
        with torch.cuda.stream(transfers):
            host.copy_(weight, non_blocking=True)
        """,
        racy={"wait": "pass"},
        clean={"wait": "transfers.wait_stream(torch.cuda.current_stream())"},
        kinds=frozenset({READ}),
        diff="transfers.wait_stream(torch.cuda.current_stream())",
    ),
    "weights are loaded on a transfer stream and used at once": Pattern(
        """
        transfers = torch.cuda.Stream()
        host = torch.ones(256).pin_memory()
        weight = torch.empty(256, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(transfers):
            weight.copy_(host, non_blocking=True)
        {wait}
        out = weight * 2
        """,
        racy={"wait": "pass"},
        clean={"wait": "torch.cuda.current_stream().wait_stream(transfers)"},
        kinds=frozenset({READ}),
        diff="torch.cuda.current_stream().wait_stream(transfers)",
    ),
    "an event is recorded before the work that it should cover": Pattern(
        """
        side = torch.cuda.Stream()
        x = torch.ones(64, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            {early}x.mul_(2){late}
        torch.cuda.current_stream().wait_event(ready)
        y = x + 1
        """,
        racy={"early": "ready = side.record_event(); ", "late": ""},
        clean={"early": "", "late": "; ready = side.record_event()"},
        kinds=frozenset({READ}),
        diff="torch.cuda.current_stream().wait_stream(side)",
    ),
    "a stream waits for the event of another buffer": Pattern(
        """
        side = torch.cuda.Stream()
        slots = [torch.zeros(64, device="cuda") for _ in range(2)]
        torch.cuda.synchronize()
        ready = []
        with torch.cuda.stream(side):
            for slot in slots:
                slot.fill_(1)
                ready.append(side.record_event())
        torch.cuda.current_stream().wait_event(ready[{number}])
        total = slots[1].sum()
        """,
        racy={"number": "0"},
        clean={"number": "1"},
        kinds=frozenset({READ}),
        diff="torch.cuda.current_stream().wait_stream(side)",
    ),
    "a prefetcher with two slots refills the slot that is being read": Pattern(
        """
        loads = torch.cuda.Stream()
        host = torch.ones(64).pin_memory()
        slots = [torch.zeros(64, device="cuda") for _ in range(2)]
        total = torch.zeros(64, device="cuda")
        torch.cuda.synchronize()
        for step in range(4):
            {wait}
            with torch.cuda.stream(loads):
                slots[step % 2].copy_(host, non_blocking=True)
            torch.cuda.current_stream().wait_stream(loads)
            total += slots[step % 2]
        """,
        racy={"wait": "pass"},
        clean={"wait": "loads.wait_stream(torch.cuda.current_stream())"},
        kinds=frozenset({WRITE}),
        diff="    loads.wait_stream(torch.cuda.current_stream())",
    ),
    "a prefetcher gives out batches of its own stream without record_stream": Pattern(
        """
        loads = torch.cuda.Stream()
        host = torch.ones(1024).pin_memory()

        def load():
            with torch.cuda.stream(loads):
                return host.to("cuda", non_blocking=True)

        total = torch.zeros((), device="cuda")
        loads.wait_stream(torch.cuda.current_stream())
        batch = load()
        for step in range(3):
            torch.cuda.current_stream().wait_stream(loads)
            {record}total += batch.sum()
            batch = None
            batch = load()
        """,
        racy={"record": ""},
        clean={"record": "batch.record_stream(torch.cuda.current_stream()); "},
        kinds=frozenset({UAF}),
        diff="    batch.record_stream(torch.cuda.current_stream())",
    ),
    "saved activations go to the host on a side stream, and their memory is used again": Pattern(
        """
        side = torch.cuda.Stream()
        weight = torch.ones(1024, device="cuda", requires_grad=True)
        torch.cuda.synchronize()

        def pack(saved):
            host = torch.empty(saved.shape, pin_memory=True)
            assert not host.is_cuda
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                {record}host.copy_(saved, non_blocking=True)
            return host

        def unpack(host):
            torch.cuda.current_stream().wait_stream(side)
            return host.to("cuda", non_blocking=True)

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            hidden = (weight * 2).sin().cos()
        hidden.sum().backward()
        """,
        racy={"record": ""},
        clean={"record": "saved.record_stream(side); "},
        kinds=frozenset({UAF}),
        diff="        saved.record_stream(torch.cuda.current_stream())",
    ),
    "a loss is made on a side stream and read by the default stream": Pattern(
        """
        side = torch.cuda.Stream()
        model = torch.nn.Linear(8, 8).cuda()
        data = torch.ones(4, 8, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            loss = model(data).sum()
            loss.backward()
        {wait}
        for parameter in model.parameters():
            parameter.grad.mul_(0.5)
        """,
        racy={"wait": "pass"},
        clean={"wait": "torch.cuda.current_stream().wait_stream(side)"},
        kinds=frozenset({TWICE}),
        diff="    done = torch.cuda.current_stream().record_event()\n    torch.cuda.current_stream().wait_event(done)",
    ),
    "a pinned tensor that a copy still reads is refilled by a copy from the device": Pattern(
        """
        up, down = torch.cuda.Stream(), torch.cuda.Stream()
        host = torch.ones(64).pin_memory()
        source, target = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(up):
            target.copy_(host, non_blocking=True)
        {wait}
        with torch.cuda.stream(down):
            host.copy_(source, non_blocking=True)
        """,
        racy={"wait": "pass"},
        clean={"wait": "down.wait_stream(up)"},
        kinds=frozenset({WRITE}),
        diff="    torch.cuda.current_stream().wait_stream(up)",
    ),
}


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_the_race_is_found_and_a_fix_that_is_written_removes_it(pattern, tmp_path):
    path, text = tmp_path / "program.py", pattern.text(pattern.racy)
    findings = findings_in(text, path)
    assert {finding.race.kind for finding in findings} == pattern.kinds
    assert [line[1:] for line in findings[0].fix.diff.splitlines()[2:] if line[0] == "+"] == pattern.diff.splitlines()
    before = races(findings)
    for finding in findings:
        if finding.fix is not None and finding.fix.diff:
            path.write_text(text)
            linecache.checkcache(str(path))
            (mine,) = races([finding])
            left = races(findings_in(applied(text, finding.fix.diff), path))
            assert mine not in left
            assert left < before


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_the_clean_twin_has_no_race(pattern, tmp_path):
    assert findings_in(pattern.text(pattern.clean), tmp_path / "program.py") == []


def races(findings):
    """Races by kind and the source of their lines."""
    return {(f.race.kind, f.race.first.place.source, f.race.second.place.source) for f in findings}
