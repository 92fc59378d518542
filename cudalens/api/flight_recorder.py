"""`load_flight_recorder`: read the FlightRecorder dumps of a job's ranks."""

from __future__ import annotations

import os

from cudalens.traces.flight_recorder import read_flight_records
from cudalens.views.hangs.record import FlightRecord


def load_flight_recorder(folder: str | os.PathLike[str]) -> FlightRecord:
    """Read the dumps of torch's FlightRecorder in `folder`, and find the rank that holds up the others.

    Reads JSON and pickle dumps of any backend, one or several per rank, and what `cudalens.watch_hangs` writes beside
    them. No class of a pickle is looked up and nothing of it is run. ``hang`` of the result is the diagnosis,
    ``entries`` a frame of all collectives; it prints as text and shows as a table in a notebook.

    Args:
        folder: The folder with the files. The rank of a file is the number after ``rank`` in its name, else its last
            number.

    Raises:
        TraceFormatError: There is no such folder, or no dump in it. The message says what was found.
    """
    return FlightRecord(read_flight_records(folder))
