"""The same questions, put to Penstock and to its peers, each in a process of its own environment.

`contestant` is the process of one of them; `*_rows` say what it does for each question, and `work`
what they have in common. None of them imports another's library.
"""
