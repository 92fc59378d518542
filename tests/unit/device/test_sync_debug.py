"""torch's sync debug mode, captured with no effect on the program."""

import warnings

import pytest
import torch

import cudalens
from cudalens.device.syncs import SyncDebug


@pytest.fixture(autouse=True)
def on_device():
    before, entries = warnings.filters, list(warnings.filters)
    with cudalens.virtual.device("h100"):
        yield
        assert torch.cuda.get_sync_debug_mode() == 0
    assert warnings.filters == entries
    warnings.filters = before


@pytest.fixture
def waits():
    waits = []
    debug = SyncDebug(lambda: waits.append(None))
    debug.start()
    yield waits
    debug.stop()


def sync():
    return torch.ones(2, device="cuda").sum().item()


def test_each_wait_is_captured_without_a_warning(waits, recwarn):
    for _ in range(3):
        sync()
    assert len(waits) == 3
    assert len(recwarn) == 0


def test_the_program_reads_the_mode_that_it_set(waits):
    assert torch.cuda.get_sync_debug_mode() == 0
    torch.cuda.set_sync_debug_mode("warn")
    assert torch.cuda.get_sync_debug_mode() == 1
    torch.cuda.set_sync_debug_mode(0)
    sync()
    assert len(waits) == 1


def test_a_program_that_wants_to_be_warned_is(waits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match="synchronizing CUDA operation"):
        sync()
    torch.cuda.set_sync_debug_mode("default")
    assert len(waits) == 1


def test_a_program_that_forbids_waits_is_obeyed(waits):
    torch.cuda.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="synchronizing CUDA operation"):
        sync()
    torch.cuda.set_sync_debug_mode(0)
    assert waits == []


def test_a_mode_that_is_none_is_refused_as_ever(waits):
    with pytest.raises(RuntimeError, match="expected one of 0,1,2"):
        torch.cuda.set_sync_debug_mode(7)
    assert torch.cuda.get_sync_debug_mode() == 0


def test_warnings_as_errors_do_not_make_an_error_of_ours(waits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sync() == 2
        with pytest.raises(UserWarning, match="mine"):
            warnings.warn("mine", UserWarning, stacklevel=1)
    assert len(waits) == 1


def test_a_record_of_warnings_holds_the_programs_alone(waits):
    with warnings.catch_warnings(record=True) as log:
        warnings.resetwarnings()
        warnings.simplefilter("always")
        sync()
        warnings.warn("mine", UserWarning, stacklevel=1)
    assert [str(each.message) for each in log] == ["mine"]
    assert len(waits) == 1


def test_filters_that_the_program_sets_inside_stay():
    debug, before = SyncDebug(lambda: None), warnings.filters
    debug.start()
    warnings.filterwarnings("ignore", message="a message of the program's")
    debug.stop()
    assert warnings.filters is before
    assert warnings.filters[0][0] == "ignore"
    assert warnings.filters[0][1].match("a message of the program's")
    warnings.filters.pop(0)


def test_it_ends_inside_a_block_of_the_programs():
    debug, waits = SyncDebug(lambda: waits.append(None)), []
    debug.start()
    with warnings.catch_warnings():
        debug.stop()
        sync()
    assert waits == []


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_mode_that_was_set_before_is_in_force_again():
    torch.cuda.set_sync_debug_mode("warn")
    debug = SyncDebug(lambda: None)
    debug.start()
    debug.stop()
    assert torch.cuda.get_sync_debug_mode() == 1
    torch.cuda.set_sync_debug_mode(0)


def test_a_device_that_goes_takes_the_mode_with_it():
    before = vars(torch._C).get("_cuda_set_sync_debug_mode")
    debug = SyncDebug(lambda: None)
    debug.start()
    debug.stop()
    assert vars(torch._C).get("_cuda_set_sync_debug_mode") is before


def test_waiting_for_a_stream_is_an_operation_that_torch_warns_of(waits):
    torch.cuda.current_stream().synchronize()
    assert len(waits) == 1
    torch.cuda.synchronize()
    torch.cuda.current_stream().record_event().synchronize()
    assert len(waits) == 1  # of these torch does not warn
