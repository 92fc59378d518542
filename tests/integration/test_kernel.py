"""Cells in a real kernel: what reaches the notebook, and in which order."""

import queue

import pytest
from jupyter_client.manager import start_new_kernel

WORK = "torch.ones(64, 64) @ torch.ones(64, 64)\n"
TIMEOUT = 60


class Kernel:
    """A kernel with cudalens loaded, and what its last cell sent."""

    def __init__(self, client):
        self.client = client
        self.messages = []

    def send(self, cell):
        self.messages = []
        return self.client.execute(cell)

    def finish(self, request):
        """Wait until the cell is done; returns the status of the reply."""
        while not (self._next(request) and self.messages[-1] == ("status", {"execution_state": "idle"})):
            pass
        while True:
            reply = self.client.get_shell_msg(timeout=TIMEOUT)
            if reply["parent_header"].get("msg_id") == request:
                return reply["content"]["status"]

    def run(self, cell):
        return self.finish(self.send(cell))

    def wait_for(self, request, text):
        """Read messages until the cell has printed `text`."""
        while text not in self.printed("stdout"):
            self._next(request)

    def _next(self, request):
        message = self.client.get_iopub_msg(timeout=TIMEOUT)
        if message["parent_header"].get("msg_id") != request:
            return False
        self.messages.append((message["msg_type"], message["content"]))
        return True

    def printed(self, name):
        return "".join(c["text"] for kind, c in self.messages if kind == "stream" and c["name"] == name)

    def shown(self):
        """Kinds of the outputs in order, ours as 'trace'."""
        kinds = []
        for kind, content in self.messages:
            data = content.get("data", {})
            # The image and the tables of a trace are outputs of their own, without text.
            if kind == "display_data" and "cudalens" in data.get("text/html", "") and data["text/plain"]:
                kinds.append("trace")
            elif kind in ("execute_result", "error"):
                kinds.append(kind)
        return kinds

    def first(self, kind):
        return next(content for found, content in self.messages if found == kind)


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    manager, client = start_new_kernel(cwd=str(tmp_path_factory.mktemp("kernel")), startup_timeout=TIMEOUT)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(started):
    kernel = Kernel(started[1])
    assert kernel.run("import asyncio, time, torch, cudalens\n%load_ext cudalens\ncudalens.runs.clear()") == "ok"
    return kernel


def test_value_then_trace(kernel):
    assert kernel.run(f"%%cudaprofile\nprint('said')\n{WORK}'value'") == "ok"
    assert kernel.shown() == ["execute_result", "trace"]
    assert kernel.first("execute_result")["data"]["text/plain"] == "'value'"
    assert kernel.printed("stdout") == "said\n"
    assert kernel.printed("stderr") == ""


def test_every_option_at_once_among_the_kernels_own_threads(kernel):
    options = "--memory --shapes --stacks --modules --flops"
    kernel.run(
        f"%%cudaprofile everything {options}\nlayer = torch.nn.Linear(8, 8)\nlayer(torch.ones(4, 8)).sum().backward()"
    )
    assert kernel.shown() == ["trace"]
    kernel.run(
        "import cudalens\ntrace = cudalens.runs['everything']\n"
        "ops = trace.events[trace.events['name'] == 'aten::addmm']\n"
        "print(ops[['shapes', 'flops', 'module', 'stack']].notna().all(axis=None), len(trace.memory) > 0)"
    )
    assert kernel.printed("stdout") == "True True\n"


def test_a_message_of_a_widget_does_not_end_a_cell_that_runs(kernel):
    # ipykernel triggers this event after each message of a comm; on another thread, if it arrives on a subshell.
    cell = (
        "%%cudaprofile\nimport threading\nend = lambda: get_ipython().events.trigger('post_execute')\nend()\n"
        "thread = threading.Thread(target=end)\nthread.start()\nthread.join()\n'value'"
    )
    assert kernel.run(cell) == "ok"
    assert kernel.shown() == ["execute_result", "trace"]


def test_a_live_widget_is_offered(kernel):
    kernel.run(f"%%cudaprofile\n{WORK}")
    views = [c for kind, c in kernel.messages if "application/vnd.jupyter.widget-view+json" in c.get("data", {})]
    assert len(views) == 1


def test_o_is_the_value_of_the_cell(kernel):
    assert kernel.run(f"%%cudaprofile named -o\n{WORK}'value';") == "ok"
    assert kernel.shown().count("trace") == 1
    kernel.run("print(_.info.name, _ is cudalens.runs.last)")
    assert kernel.printed("stdout") == "named True\n"


def test_an_exception_comes_below_the_partial_result(kernel):
    assert kernel.run(f"%%cudaprofile\n{WORK}def f():\n    return 1 / 0\n\nf()") == "error"
    assert kernel.shown() == ["trace", "error"]
    error = kernel.first("error")
    assert error["ename"] == "ZeroDivisionError"
    assert "cudalens" not in "\n".join(error["traceback"]).replace("%%cudaprofile", "")
    assert "line 6" in "\n".join(error["traceback"])


def test_no_raise_error_lets_the_notebook_go_on(kernel):
    assert kernel.run(f"%%cudaprofile --no-raise-error\n{WORK}1 / 0") == "ok"
    assert kernel.shown() == ["trace", "error"]


def test_await_runs_on_the_kernels_loop(kernel):
    cell = f"%%cudaprofile\nloop = asyncio.get_running_loop()\n{WORK}await asyncio.sleep(0, loop.is_running())"
    assert kernel.run(cell) == "ok"
    assert kernel.shown() == ["execute_result", "trace"]
    assert kernel.first("execute_result")["data"]["text/plain"] == "True"


def test_other_tasks_go_on_while_the_cell_awaits(kernel):
    kernel.run("seen = []\nasync def other():\n    seen.append(1)")
    assert (
        kernel.run("%%cudaprofile -q\ntask = asyncio.create_task(other())\nawait asyncio.sleep(0)\nawait task\nseen")
        == "ok"
    )
    assert kernel.first("execute_result")["data"]["text/plain"] == "[1]"


def test_interrupt_shows_the_partial_result_and_stops_the_cell(kernel, started):
    manager, _ = started
    request = kernel.send(f"%%cudaprofile\n{WORK}print('running', flush=True)\nwhile True:\n    time.sleep(0.01)")
    kernel.wait_for(request, "running")
    manager.interrupt_kernel()
    assert kernel.finish(request) == "error"
    assert kernel.shown() == ["trace", "error"]
    assert kernel.first("error")["ename"] == "KeyboardInterrupt"
    kernel.run("t = cudalens.runs.last\nprint(t.info.status, (t.events['name'] == 'aten::matmul').any())")
    assert kernel.printed("stdout") == "interrupted True\n"
    assert kernel.run(f"%%cudaprofile\n{WORK}") == "ok"


def test_interrupt_while_awaiting(kernel, started):
    manager, _ = started
    # One long sleep would not do: the kernel's loop notices an interrupt only when it wakes for something else.
    cell = f"%%cudaprofile\n{WORK}print('running', flush=True)\nwhile True:\n    await asyncio.sleep(0.01)"
    request = kernel.send(cell)
    kernel.wait_for(request, "running")
    manager.interrupt_kernel()
    assert kernel.finish(request) == "error"
    assert kernel.shown() == ["trace", "error"]
    kernel.run("print(cudalens.runs.last.info.status)")
    assert kernel.printed("stdout") == "interrupted\n"


def test_nested_runs(kernel):
    assert kernel.run(f"%%cudaprofile outer\n%%cudaprofile inner\n{WORK}") == "ok"
    assert kernel.shown() == ["execute_result", "trace"]
    kernel.run("print(list(cudalens.runs), (cudalens.runs.last.events['name'] == 'inner').sum())")
    assert kernel.printed("stdout") == "['outer'] 1\n"


def test_time_and_capture_around_and_inside(kernel):
    assert kernel.run(f"%%time\n%%cudaprofile\n{WORK}'value'") == "ok"
    assert kernel.shown() == ["execute_result", "trace"]
    assert kernel.run(f"%%cudaprofile\n%%time\n{WORK}'value'") == "ok"
    assert kernel.shown() == ["execute_result", "trace"]
    assert kernel.run(f"%%capture said\n%%cudaprofile\n{WORK}print('x')\n'value'") == "ok"
    assert kernel.shown() == []
    kernel.run("print(said.stdout, [('text/html' in o.data) for o in said.outputs])")
    assert kernel.printed("stdout").startswith("x\n")
    assert "True" in kernel.printed("stdout")


def test_usage_error(kernel):
    assert kernel.run("%%cudaprofile --bogus\n1") == "error"
    assert "unrecognized arguments: --bogus" in kernel.printed("stderr")
    assert "usage: %%cudaprofile" in kernel.printed("stderr")
    assert kernel.shown() == []


def test_a_silent_request_shows_nothing_but_is_profiled(kernel):
    request = kernel.client.execute("%%cudaprofile quiet -q\ntorch.ones(3)", silent=True)
    kernel.messages = []
    kernel.finish(request)
    assert kernel.shown() == []
    kernel.run("print('quiet' in cudalens.runs)")
    assert kernel.printed("stdout") == "True\n"


def test_steps_show_progress_only_when_long(kernel):
    kernel.run("%%cudaprofile --repeat 3\ntorch.ones(3)")
    assert kernel.printed("stderr") == ""
    kernel.run("%%cudaprofile --repeat 40\ntime.sleep(0.06)")
    texts = [c["data"].get("text/plain", "") for kind, c in kernel.messages if kind == "display_data"]
    assert "%%cudaprofile: " in "".join(texts) + kernel.printed("stderr")
    kernel.run("%%cudaprofile -q --repeat 40\ntime.sleep(0.06)")
    assert not [kind for kind, _ in kernel.messages if kind in ("display_data", "stream")]


def test_no_message_is_left_over(kernel):
    with pytest.raises(queue.Empty):
        kernel.client.get_shell_msg(timeout=0.2)
