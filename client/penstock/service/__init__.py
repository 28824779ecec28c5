"""Reading a dataset through the mesh. Imports no gRPC until an iterator is made."""
