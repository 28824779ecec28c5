"""Numbers with their nouns."""


def counted(number: int, noun: str) -> str:
    """Return *number* with its noun.

    >>> counted(2, "task")
    '2 tasks'
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"
