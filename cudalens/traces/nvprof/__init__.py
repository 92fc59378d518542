"""The reader of nvprof's SQLite files."""
