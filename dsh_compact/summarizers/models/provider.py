"""A provider as a summarizer: whom to ask, and with which key."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from dsh_compact import catalog
from dsh_compact.summarizers.models.asking import Model, summarise
from dsh_compact.summarizers.models.http import Endpoint, Patience, endpoint, patience
from dsh_compact.summarizers.protocol import Options, Progress, Request, Summary


class Provider(Struct, frozen=True, kw_only=True):
    """A provider, as far as it differs from others.

    `base_url` is its own, unless the options or the environment's `base_url_variable` name another
    one; `url_of` makes of any the address that is asked. `key_header` holds `{}` where the key
    goes, which the options give or the environment's `key_variable`. `make_model` gives the
    endpoint for the time of one summary.
    """

    name: str
    base_url: str
    base_url_variable: str
    url_of: Callable[[str], str]
    key_variable: str
    key_header: tuple[str, str]
    headers: Mapping[str, str] = {}
    make_model: Callable[[Endpoint, Patience, Options], Model]


def set_up(provider: Provider, options: Options, environment: Mapping[str, str]) -> "ModelBacked":
    """The summarizer that asks `provider`.

    Raises `SummarizerNotReady` where the provider's own endpoint is to be asked without a key;
    another one may want none.
    """
    base_url = options.base_url or environment.get(provider.base_url_variable) or provider.base_url
    return ModelBacked(
        provider,
        options,
        endpoint(
            provider.name,
            provider.url_of(base_url.rstrip("/")),
            headers=provider.headers,
            key_header=provider.key_header,
            key=options.key,
            variable=provider.key_variable,
            environment=environment,
            needs_key=base_url == provider.base_url,
        ),
    )


class ModelBacked:
    """Summarises by asking a provider's model."""

    def __init__(self, provider: Provider, options: Options, endpoint: Endpoint) -> None:
        self.name = provider.name
        self._provider = provider
        self._options = options
        self._endpoint = endpoint

    def summarise(self, request: Request, progress: Progress | None = None) -> Summary:
        """The model's summary of a span; raises `SummarizerFailed`."""
        time_ = patience(self._options, request.timeout_seconds)
        model = self._provider.make_model(self._endpoint, time_, self._options)
        return summarise(model, request, self._options, catalog.window_tokens, progress)
