"""Views of a watched run: the record, its pictures, and the live panel."""
