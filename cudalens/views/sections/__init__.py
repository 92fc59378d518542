"""Sections that most views share: summary, findings, waits, tables."""
