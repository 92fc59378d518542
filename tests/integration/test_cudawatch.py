"""``%%cudawatch`` and ``%cudawatch on`` in a real kernel: the panel, its last state, and nothing left behind."""

import json

import psutil
import pytest
from test_kernel import kernel as kernel
from test_kernel import started as started

from cudalens.watching import link

TRAIN = """
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(done):
    while not done():
        optimizer.zero_grad()
        model(torch.ones(4, 32)).mean().backward()
        optimizer.step()
"""
UNTIL = "import time\nend = time.time() + {}\ntrain(lambda: time.time() > end)"
UNTIL_REQUESTED = """
import time
from cudalens.api.watch import active
end, run = time.time() + {}, active()
def done():
    reasons = [one.reason for one in run.run.recordings] if time.time() > end else []
    return "requested" in reasons or time.time() > end + 60
train(done)"""
HOOKS = (
    "import threading\nfrom torch.optim import optimizer as o\n"
    "names = [t.name for t in threading.enumerate() if 'cudalens' in t.name]\n"
    "print('left', len(o._global_optimizer_post_hooks), names)"
)
RECORD = {"kind": "record"}
SECONDS = 10  # long enough for three panels also where other tests use the cores
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def watched(kernel):
    assert kernel.run(TRAIN) == "ok"
    return kernel


def panels(messages):
    states = [content["data"].get("state", {}) for kind, content in messages if kind == "comm_msg"]
    return [state["_panel"] for state in states if "_panel" in state]


def without_panels(messages):
    """What a failure shows: the messages without the states of the panel."""
    return [(kind, content) for kind, content in messages if not kind.startswith("comm_") and "data" not in content]


def press_record(client, subshell, messages):
    """What the page does when Record now is pressed while the cell runs."""
    comm = next(content["comm_id"] for kind, content in messages if kind == "comm_open" and is_panel(content))
    message = client.session.msg("comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": RECORD}})
    message["header"]["subshell_id"] = subshell
    client.shell_channel.send(message)


def has_timeline(content):
    return content["data"].get("content", {}).get("kind") == "timeline"


def is_panel(content):
    return "_panel" in content["data"].get("state", {})


def test_a_cell_shows_a_panel_that_changes_and_keeps_its_last_state(watched):
    client = watched.client
    client.control_channel.send(client.session.msg("create_subshell_request", {}))
    subshell = client.get_control_msg(timeout=60)["content"]["subshell_id"]
    request = watched.send(f"%%cudawatch train --budget 20%\n{UNTIL_REQUESTED.format(SECONDS)}\n'end'")
    while not any(kind == "comm_msg" and has_timeline(content) for kind, content in watched.messages):
        watched._next(request)
    press_record(client, subshell, watched.messages)
    assert watched.finish(request) == "ok"
    assert len(panels(watched.messages)) >= 3
    shown = [content for kind, content in watched.messages if kind == "display_data"]
    assert VIEW in shown[-1]["data"]
    kept = [content for kind, content in watched.messages if kind == "update_display_data"][-1]
    assert kept["transient"]["display_id"] == shown[-2]["transient"]["display_id"]
    html = kept["data"]["text/html"]
    assert "steps of the optimizer" in html
    assert "Timeline of step" in html
    assert len(html) < 300_000
    assert "train, ended" in kept["data"]["text/plain"]
    assert "requested" in html
    sizes = [len(json.dumps(content)) for kind, content in watched.messages if kind == "comm_msg"]
    assert sum(sizes) < SECONDS * 200_000
    watched.run(HOOKS)
    assert "left 0 []" in watched.printed("stdout")


def test_following_cells_are_watched_until_off(watched):
    assert watched.run("%cudawatch on") == "ok"
    assert watched.run(UNTIL.format(0.5)) == "ok"
    assert watched.run("%%cudaprofile inner\n" + UNTIL.format(0.2)) == "ok"
    assert watched.shown() == ["trace"]
    assert watched.run("%cudawatch off") == "ok"
    assert "a step" in watched.printed("stdout")
    watched.run(HOOKS)
    assert "left 0 []" in watched.printed("stdout")


def test_an_exception_of_the_cell_is_shown_as_without_it(watched):
    assert watched.run("%%cudawatch\ntrain(lambda: 1 / 0)") == "error"
    assert watched.first("error")["ename"] == "ZeroDivisionError"
    watched.run(HOOKS)
    assert "left 0 []" in watched.printed("stdout")


def test_an_interrupt_ends_it(watched, started):
    request = watched.send("%%cudawatch\nprint('begun', flush=True)\n" + UNTIL.format(60))
    watched.wait_for(request, "begun")
    started[0].interrupt_kernel()
    status = watched.finish(request)
    errors = [content["ename"] for kind, content in watched.messages if kind == "error"]
    assert (status, errors) == ("error", ["KeyboardInterrupt"]), without_panels(watched.messages)
    watched.run(HOOKS)
    assert "left 0 []" in watched.printed("stdout")


def test_a_restart_of_the_kernel_ends_it_and_the_next_watch_starts_anew(watched, started):
    request = watched.send("%%cudawatch\nimport os\nprint(f'{os.getpid()} begun', flush=True)\n" + UNTIL.format(600))
    watched.wait_for(request, "begun")
    old = int(watched.printed("stdout").split()[0])
    assert old in link.watched_processes()
    manager, client = started
    manager.restart_kernel(now=True)
    client.wait_for_ready(timeout=60)
    assert not psutil.pid_exists(old)
    assert watched.run("import torch\n%load_ext cudalens\n" + TRAIN) == "ok"
    assert watched.run("%%cudawatch\n" + UNTIL.format(0.5)) == "ok"
    assert "a step" in str(panels(watched.messages)[-1])
    watched.run(HOOKS)
    assert "left 0 []" in watched.printed("stdout")
    assert not list(link.runtime_folder().glob(f"{old}.*"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%%cudawatch --budget 90%\n1", "is not a share of 0.1% to 50%"),
        ("%cudawatch nonsense", "what is 'nonsense'?"),
        ("%cudawatch off", "Nothing was watched."),
        ("%cudawatch record", "Nothing is watched"),
    ],
)
def test_wrong_use_is_a_clear_message(kernel, line, message):
    kernel.run(line)
    assert message in kernel.printed("stdout") + kernel.printed("stderr") + str(kernel.messages)
