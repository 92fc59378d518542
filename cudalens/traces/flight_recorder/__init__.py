"""Read the dumps of torch's FlightRecorder: the collectives that each rank entered."""

from cudalens.traces.flight_recorder.folder import read_flight_records as read_flight_records
