"""The subjects of the hunt, one module each; `subjects/intervals.py` is the smallest one."""
