"""Common parts of operators: input positions, buffers, selection, parallel calls, file formats."""
