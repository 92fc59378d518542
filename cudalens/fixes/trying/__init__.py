"""Try a fix: copy the state that a program can change, run both versions in turns, compare times, values, memory."""
