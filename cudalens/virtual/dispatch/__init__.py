"""Operators on a virtual device: the dispatch mode, autograd, autocast, scratch memory."""
