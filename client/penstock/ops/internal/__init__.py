"""What operators share: input positions, buffers, selection, parallel calls, file formats."""
