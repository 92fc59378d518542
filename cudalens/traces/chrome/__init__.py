"""The reader of Chrome trace JSON, as Kineto (torch.profiler) and other tools write it."""
