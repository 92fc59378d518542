"""The timeline: its static picture and the binary payload that the page draws from."""
