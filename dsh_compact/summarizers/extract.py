"""The extractive summarizer: offline and deterministic, the default."""

from dsh_compact.summarizers import Progress, Request, Summary
from dsh_compact.summarizers.errors import SummarizerFailed
from dsh_compact.tokens import UNITS_PER_TOKEN


class Extractive:
    """Keeps the user's own words in order, newest last, until the bound is reached."""

    name = "extractive"

    def summarise(self, request: Request, progress: Progress | None = None) -> Summary:
        """The summary; raises `SummarizerFailed` where nothing fits into the bound."""
        words = "\n".join(message.text for message in request.messages if message.role == "user")
        words = words.strip() or "Nothing was said here."
        text = words[: request.max_tokens * UNITS_PER_TOKEN // 2].strip()
        if not text:
            raise SummarizerFailed("extractive", f"{request.max_tokens} tokens hold no summary")
        return Summary(text=text, provider="dsh-compact", model="extractive")
