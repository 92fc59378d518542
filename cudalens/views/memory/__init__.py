"""The views of allocator memory."""
