"""The live sanitizer: pass torch's operators and callbacks to the engine."""
