"""Replacements of the C functions and classes that ``torch.cuda`` calls."""
