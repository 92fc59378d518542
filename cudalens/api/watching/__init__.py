"""Parts of a watched run: its loop, its recordings, its worker thread, its changes, its folder."""
