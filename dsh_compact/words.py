"""Numbers with their nouns, as a reader expects them. It knows nothing else."""


def counted(number: int, one: str, some: str = "") -> str:
    """`1 message`, `1,466 messages`; `some` where the plural is not `one` with an s."""
    return f"{number:,} {one if number == 1 else some or f'{one}s'}"
