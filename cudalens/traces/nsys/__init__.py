"""The reader of Nsight Systems' SQLite exports."""
