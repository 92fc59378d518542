"""What the readers of CUPTI's SQLite tables share."""
