"""Where time went: device time, operators, idle time, launches, overlap, rooflines."""
