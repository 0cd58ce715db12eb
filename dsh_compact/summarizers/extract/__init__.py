"""The extractive summarizer: offline, deterministic, the default.

Rule: equal spans give equal summaries. It invents nothing: every line is a quotation, or says what
a tool call did and how it ended. It asks no model, so it can't judge; it keeps what is likely to be
missed, and says how much it left out. Time is linear in the span's length.

`gather` makes an `outline` of what was said (`talk`, by its `cues`), what was done (`actions`, as
`work`) and what earlier `checkpoints` hold; `layout` makes it a text in the conversation's own
`language`.
"""

from dsh_compact.summarizers.errors import SummarizerFailed
from dsh_compact.summarizers.extract.checkpoints import is_checkpoint, summary_of
from dsh_compact.summarizers.extract.gather import gather
from dsh_compact.summarizers.extract.language import Phrases, phrases_for
from dsh_compact.summarizers.extract.layout import layout
from dsh_compact.summarizers.extract.talk import said
from dsh_compact.summarizers.protocol import Progress, Request, Summary
from dsh_compact.tokens import price_text


class Extractive:
    """Summarises by keeping: see the sections in `outline`, and `gather` for what goes where."""

    name = "extractive"

    def summarise(self, request: Request, progress: Progress | None = None) -> Summary:
        """The summary, at most `max_tokens`; raises `SummarizerFailed` where that is below one."""
        if request.max_tokens < 1:
            raise SummarizerFailed(self.name, f"{request.max_tokens} tokens hold no summary")
        phrases = _phrases(request)
        outline = gather(request.messages, phrases, request.instructions)
        text = layout(outline, phrases, request.max_tokens)
        assert price_text(text) <= request.max_tokens
        if progress is not None:
            progress(price_text(text))
        return Summary(text=text, provider="dsh-compact", model="extractive")


def _phrases(request: Request) -> Phrases:
    """The fixed words in the user's language, or that of whoever else said something."""
    talk = said(request.messages, "")
    by_user = [one.text for one in talk if one.by_user]
    by_model = [one.text for one in talk if not one.by_user]
    earlier = [summary_of(message) for message in request.messages if is_checkpoint(message)]
    return phrases_for([*by_user, *by_model, *earlier])
