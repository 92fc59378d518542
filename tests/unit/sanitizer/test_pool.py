"""Blocks of one pool that are cut and joined while operators fill their results: the storages' side, against bytes."""

from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.sanitizer.engine.accesses import AccessInfo, CallSite, Operand
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.records import Region, StreamId
from cudalens.sanitizer.live.memory import Memory


class Address:
    """What `Memory` asks of a storage, at an address of the test's choice."""

    def __init__(self, address, num_bytes):
        self.data_ptr, self.nbytes = (lambda: address), (lambda: num_bytes)


pool_acts = st.one_of(
    st.tuples(st.just("make"), st.integers(0, 3), st.sampled_from([100, 300, 512, 600, 1024, 1500]), st.booleans()),
    st.tuples(st.just("make"), st.integers(0, 3), st.sampled_from([100, 300, 512, 600, 1024, 1500]), st.just(True)),
    st.tuples(st.just("touch"), st.integers(0, 3), st.integers(0, 2), st.integers(0, 11), st.booleans()),
    st.tuples(st.just("order"), st.integers(0, 2), st.integers(0, 2)),
)


@settings(deadline=None, max_examples=examples(600))
@given(st.lists(st.tuples(st.integers(0, 2), pool_acts), max_size=16))
def test_results_in_blocks_that_are_cut_and_joined_race_as_their_bytes_do(acts):
    """Operators' results at any addresses, filled by their stream or not: each race is one of the bytes, none is lost.

    An access that a later one of the same bytes follows in order need not be remembered: so whether an operation
    races is compared, byte by byte, with all accesses so far, by what is ordered before each stream's next operation.
    """
    detector = Detector()
    memory = Memory(detector, "allocation", object(), lambda record: None, lambda made: None)
    lines = [detector.clocks.line(StreamId(0, n)) for n in range(3)]
    done = [[0, 0, 0] for _ in lines]  # how much of each stream is ordered before the next operation of each
    issued, history, live = [0, 0, 0], [], []

    def launch(n, cell, is_write, low, high):
        issued[n] += 1
        done[n][n] = issued[n]
        expected = any(
            low < old_high and old_low < high and (is_write or wrote) and done[n][m] < at
            for m, at, wrote, old_low, old_high in history
        )
        history.append((n, issued[n], is_write, low, high))
        info = AccessInfo(Operand("op"), CallSite(), None, None, "", memory.plain)
        detector.position += 1
        assert bool(detector.launch(lines[n], [(cell, is_write, info)])) == expected

    for n, (act, *fields) in acts:
        if act == "make":
            unit, size, is_filled = fields
            address = 512 * (unit + 1)
            for made in [made for made in live if made.start < address + -(-size // 512) * 512]:
                if made.block.end > address and made.is_live:
                    users = {line for cell in made.block.cells for line, *_ in cell.entries}
                    memory.freed(made.start, None if users <= {made.owner} else CallSite())
            live = [made for made in live if made.is_live]
            made = memory.meet(Address(address, size), 0, CallSite(), lines[n])
            memory.settle(made, is_filled)
            live.append(made)
            if is_filled:
                launch(n, made.whole, True, address, address + size)
        elif act == "touch" and live:
            which, _, at, is_write = fields
            made = live[which % len(live)]
            low = min(128 * at, made.num_bytes - 1)
            high = min(low + 200, made.num_bytes)
            region = Region(made.start + low, high - low)
            cell = made.block.cell(region, detector.clocks.host.vector)
            launch(n, cell, is_write, region.start, region.end)
        elif act == "order":
            before, after = fields
            detector.clocks.record("event", lines[before])
            detector.clocks.wait("event", lines[after])
            done[after] = [max(pair) for pair in zip(done[after], done[before], strict=True)]
