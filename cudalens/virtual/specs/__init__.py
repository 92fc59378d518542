"""Specifications of GPUs: the shipped table and user registration. No torch."""
