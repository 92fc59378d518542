"""Readers of AMD's recordings: databases of rocpd and RPD, and the JSON of rocprofv3."""
