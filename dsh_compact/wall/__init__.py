"""A provider with a wall, for rehearsals: it counts for real, and refuses as real ones do.

`counting` decides whether a request fits, `wordings` puts a refusal into a provider's words;
`asked`, `apis` and `server` make a real server of it. Nothing here knows a session, a backend or a
decision.
"""

from dsh_compact.wall.counting import Answer, Wall
from dsh_compact.wall.wordings import WORDINGS, Refuse, as_told, in_words_of, like_provider

__all__ = ["WORDINGS", "Answer", "Refuse", "Wall", "as_told", "in_words_of", "like_provider"]
