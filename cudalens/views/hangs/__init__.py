"""Views of a job that does not go on."""
