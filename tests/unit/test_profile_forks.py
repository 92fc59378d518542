"""A process that is forked inside a profiled block leaves the recording to its parent."""

import os
import time

import pytest
import torch

import cudalens

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def status_of_child(function):
    """Fork, call the function in the child and return the child's status; a child that does not end is killed."""
    child = os.fork()
    if child == 0:
        try:
            function()
        except BaseException:
            os._exit(3)
        os._exit(0)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "does not end"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("schedule", [None, cudalens.schedule(active=4)], ids=["block", "schedule"])
def test_a_child_leaves_the_block_and_the_parent_records_on(schedule):
    run = cudalens.profile("parent", cpu_only=True, memory=True, schedule=schedule)

    def end_block():
        run.step()
        assert (torch.ones(3) + 1).tolist() == [2, 2, 2]
        run.__exit__(None, None, None)

    with run:
        torch.ones(3) + 1
        assert status_of_child(end_block) == 0
        torch.ones(3) * 2
    assert {"aten::add", "aten::mul"} <= set(run.trace.events["name"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_profile_in_a_child_is_not_a_range_of_the_parent_s():
    def profile_child():
        try:
            with cudalens.profile("child", cpu_only=True) as child:
                torch.ones(3) + 1
        except cudalens.errors.ProfilerBusyError:
            return
        assert "aten::add" in set(child.trace.events["name"])

    with cudalens.profile("parent", cpu_only=True):
        assert status_of_child(profile_child) == 0
