"""What is true of TPUs, nodes and money, without any input or output."""
