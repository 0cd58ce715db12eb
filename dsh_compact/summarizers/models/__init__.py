"""Models as summarizers: two providers' shapes, and all that is the same for any.

`openai` and `anthropic` know what a request and an answer look like, `provider` finds the address
and the key, `http` sends one request, `reading` hears its answer to the end, and `asking` makes a
summary of as many as it takes: by our `instruction`, and in `parts` where the span is too long.
"""

from collections.abc import Mapping

from dsh_compact.summarizers.models import anthropic, openai
from dsh_compact.summarizers.models.provider import ModelBacked, set_up
from dsh_compact.summarizers.protocol import Options

__all__ = ["ModelBacked", "load"]

_PROVIDERS = {one.name: one for one in (openai.PROVIDER, anthropic.PROVIDER)}


def load(name: str, options: Options, environment: Mapping[str, str]) -> ModelBacked:
    """The summarizer called `name`, `openai` or `anthropic`; raises `SummarizerNotReady`."""
    return set_up(_PROVIDERS[name], options, environment)
