"""Python calls in which a thread only waits: they take time and no CPU."""

from __future__ import annotations

import re
from typing import Final

import pandas as pd

from cudalens.frames.column_arrays import Bools, map_texts

#: Names of such calls, as torch's profiler writes them: ``threading.py(331): wait``.
WAITING: Final = (
    r"(?:^|[/\\])(?:threading\.py\(\d+\): (?:wait|join|_wait_for_tstate_lock|_bootstrap\w*)"
    r"|selectors\.py\(\d+\): select|queue\.py\(\d+\): (?:get|put)|connection\.py\(\d+\): (?:poll|wait|_recv\w*)"
    r"|subprocess\.py\(\d+\): _?(?:try_)?wait)$"
    r"|^<built-in method (?:acquire|sleep|select|poll|epoll_wait|wait|recv|accept|sem_wait|waitpid|read) of"
    r"|^<built-in function (?:sleep|select|waitpid)>$|^time\.sleep$"
)


def is_waiting(names: pd.Categorical) -> Bools:
    """True for each name of such a call, shape (n,)."""
    search = re.compile(WAITING).search
    return map_texts(names, lambda name: search(name) is not None, False)
