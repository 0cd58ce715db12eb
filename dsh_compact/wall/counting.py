"""Whether a request fits: counted with a real tokenizer, while the session only estimates.

So the two differ as they do in life. A silent wall answers all the same and drops what does not
fit, as some servers do.
"""

from msgspec import Struct

from dsh_compact.events import Failure
from dsh_compact.wall.wordings import Refuse


class Answer(Struct, frozen=True, kw_only=True):
    """One request's fate: `failure` is None where it was answered.

    `dropped_tokens` is what a silent wall threw away before it answered.
    """

    tokens: int
    failure: Failure | None = None
    dropped_tokens: int = 0


class Wall(Struct, frozen=True, kw_only=True):
    """A window of `limit_tokens`; `refuse` words the refusal from (requested, limit)."""

    limit_tokens: int
    refuse: Refuse
    is_silent: bool = False

    def request(self, tokens: int) -> Answer:
        """The fate of a request that has so many tokens by the wall's own counting."""
        if tokens <= self.limit_tokens:
            return Answer(tokens=tokens)
        if self.is_silent:
            return Answer(tokens=tokens, dropped_tokens=tokens - self.limit_tokens)
        return Answer(tokens=tokens, failure=self.refuse(tokens, self.limit_tokens))
