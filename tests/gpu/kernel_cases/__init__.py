"""Cases for the kernels: run by Triton's interpreter on the CPU, and compiled on a GPU, each against the reference."""
