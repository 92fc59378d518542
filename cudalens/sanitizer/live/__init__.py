"""The live sanitizer: torch's operators and callbacks in, operations of the engine out."""
