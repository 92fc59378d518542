"""torch.compile on a virtual device: Dynamo and Inductor generate code for the modelled GPU, which runs on the CPU."""
