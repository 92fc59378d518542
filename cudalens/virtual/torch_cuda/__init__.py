"""What ``torch.cuda`` calls: the C functions and classes below its Python."""
