"""Rooflines: the rates that operators reach, relative to the peak rates of the device."""
