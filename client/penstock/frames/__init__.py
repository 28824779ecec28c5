"""How elements become bytes: `frame` packs consecutive elements column by column.

`columns` has the five encodings of a leaf, `nest` the structure around leaves, `buffers` bytes and
dtypes. `compression` compresses a whole frame, and `codec_choice` decides whether that pays.
Processes that never load gRPC use this package.
"""
