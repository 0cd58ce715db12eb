"""What providers say when they refuse a request: a table, a row a wording, the first match decides.

The rule of the order: four groups, and a row of an earlier group outranks every later one.
`CERTAIN_OTHERS` never occur in an overflow: a rate limit, a quota, a byte or a memory limit is
never an overflow and never teaches a window. `CERTAIN_OVERFLOWS` name the context window, or are a
provider's own sentence. `LIKELY_OTHERS` are words that an overflow may hold by accident (a link to
the page on rate limits), so they come after it. `LIKELY_OVERFLOWS` judge by kind: something too
long, tokens over a limit, in any language; a status that speaks of another matter silences them.

Patterns are matched against plain text as `overflow.plain_text` makes it: lower case, one space
between words, no quotes, no backslashes, ASCII punctuation. `<#limit>` stands for a number with its
role, `<window>` and its like for the words in `WORDS`. Every repetition is bounded, so matching
stays linear, and a pattern is tried only where one of its clues, plain substrings, occurs.

This module holds facts and knows nothing of how they are applied.
"""

import re
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple


class Code(StrEnum):
    """Why a request failed, whoever the provider is."""

    CONTEXT_WINDOW_EXCEEDED = "CONTEXT_WINDOW_EXCEEDED"
    RATE_LIMIT = "RATE_LIMIT"
    QUOTA = "QUOTA"
    AUTH = "AUTH"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    TIMEOUT = "TIMEOUT"
    SERVER = "SERVER"
    CONTENT_FILTER = "CONTENT_FILTER"
    INVALID_REQUEST = "INVALID_REQUEST"
    OTHER = "OTHER"


class Wording(NamedTuple):
    """One way to say why a request was refused.

    `family` is the provider or server that says it, `any` for a kind of wording. Of `clues`, at
    least one must occur in the text before `pattern` is tried. `source` is a public place where it
    is said: `owner/repository#issue`, a file of a repository, or a page.
    """

    name: str
    family: str
    code: Code
    clues: tuple[str, ...]
    pattern: str
    source: str
    reads_numbers: bool = True
    """False where the numbers beside the words are no tokens (an error code, attempts)."""
    silenced_by: frozenset[int] = frozenset()
    """HTTP statuses with which the row proves nothing."""


class Reading(NamedTuple):
    """How a number beside an overflow's words tells its role; `pattern` holds it as `<#n>`."""

    role: str
    pattern: str
    adds: bool = False
    """True where several such numbers are parts of one: text, tool and image input."""


# The words ----------------------------------------------------------------------------------------

NUMBER: Final = (
    r"(?<![0-9.,])(?:[0-9]{1,3}(?:[,._ ][0-9]{3}){1,3}(?![0-9])|[0-9]{1,12}(?![0-9]))"
    r"(?:\.[0-9]{1,2}(?![0-9]))?(?: ?[km](?![a-z0-9]))?"
)
"""A count: `200000`, `200,000`, `200 000`, `1_048_576`, `128k`."""

WORDS: Final = {
    "window": (
        r"(?:context[ _-]?(?:window|length|size|limit|budget|capacity|len)(?![a-z])"
        r"|ctx[ _-]?(?:size|len)|n_ctx|max_model_len|max_seq_len|max(?:imum)? model len(?:gth)?"
        r"|models? max(?:imum)? (?:[a-z]{1,12} )?length|(?:context|model) token limit"
        r"|the window(?![a-z])"
        r"|max(?:imum)? (?:context|prompt|input)(?: token)?s?(?: length)?"
        r"|(?:available|supported) context(?![a-z]))"
    ),
    "over": (
        r"(?:exceed(?:s|ed|ing)?|(?:long|larg|great|bigg|high)er than|more than"
        r"|overflow(?:s|ed|ing)?|too (?:long|large|big|many|high)|surpass(?:es|ed)?|beyond"
        r"|(?:goes|went|is|are|was|were) over|(?:does|do|did|will|can)(?: ?not|nt) fit|reached)"
    ),
    "subject": (
        r"(?:prompts?|inputs?|messages?|conversations?|contexts?|history|quer(?:y|ies)|texts?"
        r"|transcript|dialogue|instructions?)"
    ),
    "output": r"(?:output|completion|response|generation|generated|new)",
    "max_output": r"(?:max_?(?:completion_|output_|new_)?tokens(?:_to_sample)?|maxoutputtokens)",
}

_PLACEHOLDER: Final = re.compile(r"<(#?)([a-z_]+)>")


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return `pattern` with its placeholders filled in, compiled when first asked for."""
    return re.compile(_PLACEHOLDER.sub(_fill, pattern))


def _fill(placeholder: re.Match[str]) -> str:
    is_number, name = placeholder.groups()
    return f"(?P<{name}>{NUMBER})" if is_number else WORDS[name]


_CTX: Final = Code.CONTEXT_WINDOW_EXCEEDED
_RATE: Final = Code.RATE_LIMIT
_QUOTA: Final = Code.QUOTA
_OUT: Final = Code.OUTPUT_LIMIT
_INVALID: Final = Code.INVALID_REQUEST

_OTHER_MATTERS: Final = frozenset({401, 402, 403, 429})
"""Statuses that speak of the account or its rate: then vague words on tokens prove nothing."""


# What is never an overflow ------------------------------------------------------------------------

CERTAIN_OTHERS: Final = (
    Wording(
        "tokens-per-time", "any", _RATE,
        ("per min", "per-min", "per_min", "permin", "perday", "per day", "per-day", "per_day",
         "per hour", "per second", "permodelper", "tpm", "rpm", "tpd", "rpd", "qps", "qpm", "daily",
         "token rate", "每分钟", "每秒", "每天", "por minuto", "par minute", "pro minute",
         "в минуту", "分あたり", "분당"),
        r"(?:tokens?|requests?|calls?|queries|usage) ?(?:per|/) ?(?:min|hour|day|second)"
        r"|per[ _-]?(?:model[ _-]?)?(?:minute|day)|(?<![a-z])(?:[rti]?[tr]p[mdh]|qp[sm])(?![a-z])"
        r"|daily (?:rate|token|request)|token[ _]rate|每分钟|每秒|每天"
        r"|por minuto|par minute|pro minute|в минуту|分あたり|분당",
        "vanna-ai/vanna-flask#11",
    ),
    Wording(
        "throttled", "bedrock", _RATE, (" wait", "throttl"),
        r"too many (?:[a-z]{1,12} )?(?:tokens|requests)[^.]{0,30} wait"
        r"|throttlingexception|throttled",
        "anthropics/claude-code#236",
    ),
    Wording(
        "credit-buys-fewer-tokens", "openrouter", _QUOTA,
        ("limit exceeded", "afford", "more credits"),
        r"tokens? limit exceeded.{0,80}(?:to increase|settings/|credits|upgrade)"
        r"|can only afford|requires? more credits",
        "continuedev/continue#11227",
    ),
    Wording(
        "account-empty", "any", _QUOTA,
        ("payment required", "billing plan", "insufficient", "balance", "out of ", "extra usage",
         "current plan", "余额", "欠费", "arrear", "套餐"),
        r"payment required|billing plan"
        r"|insufficient[ _](?:[a-z]{1,12}[ _]){0,4}(?:quota|credit|balance|fund)|credit balance"
        r"|out of (?:extra usage|credits?)|extra usage|exceeds your current plan"
        r"|余额|欠费|arrear|套餐[^,.]{0,6}到期",
        "openclaw/openclaw src/agents/pi-embedded-helpers.isbillingerrormessage.test.ts",
    ),
    Wording(
        "too-many-keys", "new-api", _QUOTA, ("令牌数量",),
        r"令牌数量", "QuantumNous/new-api#3169",
    ),
    Wording(
        "no-such-model", "any", _INVALID, ("model_not_found", "does not exist", "模型不存在"),
        r"model_not_found|model.{0,80} does not exist|模型不存在", "alexrudall/ruby-openai#282",
    ),
    Wording(
        "field-too-long", "openai", _INVALID,
        ("above_max_length", "string too long", "array too long", "maxlength",
         "string value length"),
        r"(?:string|array)_above_max_length|(?:string|array) too long|expected maxlength"
        r"|string value length",
        "Shopify/roast#52",
    ),
    Wording(
        "batch-too-large", "any", _INVALID, ("batch", "tokens per request"),
        r"tokens in (?:the |this )?batch|(?:physical |micro)batch|batch size"
        r"|(?:max(?:imum)?|is) <#n> tokens per request",
        "aurelio-labs/semantic-router#297",
    ),
    Wording(
        "local-tokenizer-warning", "transformers", Code.OTHER, ("token indices", "of input_ids is"),
        r"token indices sequence length is longer|input length of input_ids is",
        "vicdotdevelop/science-gpt#1",
    ),
    Wording(
        "client-trims", "librechat", Code.OTHER, ("exceeds max token count",),
        r"prompt token count exceeds max token count", "danny-avila/LibreChat#5004",
    ),
    Wording(
        "input-was-cut", "any", Code.OTHER, ("truncat",),
        r"(?:have|has) been truncated|truncating (?:the )?(?:input|prompt)",
        "AUTOMATIC1111/stable-diffusion-webui#375",
    ),
    Wording(
        "tool-result-too-long", "claude code", Code.OTHER,
        ("maximum allowed tokens", "maximum allowed characters"),
        r"(?:tool|file|content|response|result)[^.]{0,60}\([0-9]{1,12} (?:tokens|characters)\)"
        r" exceeds maximum allowed",
        "smart-mcp-proxy/mcpproxy-go#273",
    ),
    Wording(
        "window-too-small", "openclaw", Code.OTHER, ("too small",),
        r"(?:context window|cached content)[a-z ]{0,20} too small.{0,30}min",
        "openclaw/openclaw src/agents/pi-embedded-helpers.isbillingerrormessage.test.ts",
    ),
    Wording(
        "configured-window", "ollama", Code.OTHER, ("requested context size", "n_ctx_train"),
        r"requested context size too large|n_ctx_train", "open-webui/open-webui#26457",
    ),
    Wording(
        "engine-start", "vllm", Code.SERVER,
        ("derived max_model_len", "larger than the maximum number"),
        r"greater than the derived max_model_len|larger than the maximum number of tokens that can",
        "xorbitsai/inference#1715",
    ),
    Wording(
        "memory", "any", Code.SERVER,
        ("memory", "kv cache", "cudamalloc", "oom", "vram", "too large for this system"),
        r"out of memory|(?:system|process|gpu|device|graphics|unified|physical) memory"
        r"|memory[a-z_ ]{0,12}(?:limit|ceiling|guard|pool|exceed|exhaust)"
        r"|(?:no available|not enough|insufficient|more|much) memory|too large for this system"
        r"|kv cache.{0,24}(?:full|exhausted|space|blocks)"
        r"|(?:space|room|slots?) in (?:the )?kv cache"
        r"|cudamalloc|(?<![a-z])(?:oom|vram)(?![a-z])",
        "jundot/omlx#1945",
    ),
    Wording(
        "deadline", "any", Code.TIMEOUT, ("deadline", "context cancel"),
        r"deadline[ _]exceeded|context cancell?ed|(?:exceeded|passed) the .{0,24}deadline",
        "nextlevelbuilder/goclaw#926",
    ),
)  # fmt: skip


# What is always an overflow -----------------------------------------------------------------------

CERTAIN_OVERFLOWS: Final = (
    Wording(
        "maximum-context-length", "openai", _CTX, ("m context length", "max context length"),
        r"max(?:imum)? context length(?: is| of|:)? ?(?:only )?<#limit>",
        "Chanzhaoyu/chatgpt-web#354",
    ),
    Wording(
        "prompt-over-maximum", "anthropic", _CTX, ("tokens > ",),
        r"<#input> tokens > <#limit>", "stackblitz/bolt.new#2449",
    ),
    Wording(
        "input-plus-output", "anthropic", _CTX, (" > ",),
        r"(?:exceeds? context limit|too many tokens)[^0-9]{0,10}<#input> \+ <#output> > <#limit>",
        "continuedev/continue#6080",
    ),
    Wording(
        "token-count", "google", _CTX, ("input token",),
        r"input token count(?: of| is)? ?\(?(?:<#input>\)?)? ?(?:exceeds the maximum number of"
        r" tokens allowed|but model only supports up to) \(?<#limit>",
        "google-gemini/gemini-cli#4231",
    ),
    Wording(
        "input-too-long-for-model", "bedrock", _CTX, ("too long for", "too many input tokens"),
        r"too long for (?:the |this )?(?:requested )?model|too many input tokens",
        "aws-samples/bedrock-chat#95",
    ),
    Wording(
        "prompt-token-count", "github-copilot", _CTX, ("prompt token count",),
        r"prompt token count of <#input> exceeds the limit of <#limit>",
        "microsoft/copilot-intellij-feedback#94",
    ),
    Wording(
        "body-in-tokens", "github-models", _CTX, ("max size",),
        r"too large for .{1,80}? model\. max size: <#limit> tokens", "cline/cline#995",
    ),
    Wording(
        "maximum-prompt-length", "xai", _CTX, ("maximum prompt length",),
        r"maximum prompt length is <#limit> but the request contains <#input>",
        "chenyme/grok2api#693",
    ),
    Wording(
        "too-large-for-model", "mistral", _CTX, ("too large for model",),
        r"prompt contains <#input> tokens.{0,60}too large for model with <#limit> max",
        "earendil-works/pi packages/ai/src/utils/overflow.ts",
    ),
    Wording(
        "current-length", "cerebras", _CTX, ("while limit is",),
        r"current length is <#total> while limit is <#limit>", "cline/cline#5140",
    ),
    Wording(
        "inputs-and-new-tokens", "tgi", _CTX, ("max_new_tokens",),
        r"inputs tokens \+ max_new_tokens must be <= <#limit>"
        r"(?:\. given: <#input> inputs tokens and <#output>)?",
        "BerriAI/litellm#4934",
    ),
    Wording(
        "inputs", "tgi", _CTX, ("inputs must have",),
        r"inputs must have less than <#limit> tokens(?:\. given: <#input>)?",
        "huggingface/text-generation-inference router/src/validation.rs",
    ),
    Wording(
        "requested-tokens", "llama.cpp", _CTX, ("requested tokens",),
        r"requested tokens (?:\(<#total>\) )?exceed context window of <#limit>",
        "rllm-team/rllm#55",
    ),
    Wording(
        "kv-size", "llama.cpp", _CTX, ("kv size",),
        r"prompt is too (?:big|large|long) compared to kv size", "gpustack/gpustack#1357",
    ),
    Wording(
        "context-shift", "llama.cpp", _CTX, ("context shift",),
        r"(?:disable|enable) context shift", "ggml-org/llama.cpp#9544",
    ),
    Wording(
        "n-keep", "lmstudio", _CTX, ("n_keep",),
        r"\(n_keep: <#input> ?>= ?n_ctx: <#limit>", "Gitlawb/openclaude#353",
    ),
    Wording(
        "keeps-the-first", "lmstudio", _CTX, ("keep the first",),
        r"keep the first <#input> tokens.{0,80}context length of only <#limit>",
        "lmstudio-ai/lmstudio-bug-tracker#546",
    ),
    Wording(
        "window-exceeds-limit", "minimax", _CTX, ("context window exceeds limit",),
        r"context window exceeds limit", "MiniMax-AI/MiniMax-M2#119", reads_numbers=False,
    ),
    Wording(
        "model-token-limit", "moonshot", _CTX, ("model token limit",),
        r"exceed(?:s|ed)? (?:the )?model token limit"
        r"(?:: <#limit>(?: \([a-z ]{4,12}: <#total>\))?)?",
        "MoonshotAI/kimi-cli#2011",
    ),
    Wording(
        "exceeded-by", "ollama", _CTX, ("context length by",),
        r"exceeded (?:max )?context length by <#excess>", "dyad-sh/dyad#3498",
    ),
    Wording(
        "range-of-input", "qwen/dashscope", _CTX, ("range of input length",),
        r"range of input length should be(?: \[[0-9]{1,12}, ?<#limit>\])?", "QwenLM/Qwen-Agent#615",
    ),
    Wording(
        "total-length", "vllm", _CTX, ("to fit into the model",),
        r"\(total length <#input>\) is too long to fit into the model \(context length <#limit>\)",
        "vllm-project/vllm#12165",
    ),
    Wording(
        "negative-room", "vllm", _CTX, ("at least 1, got -",),
        r"max_(?:completion_)?tokens must be at least 1, got -[0-9]{2,12}",
        "vllm-project/vllm#36789", reads_numbers=False,
    ),
    Wording(
        "prompt-over-length", "zhipu", _CTX,
        ("prompt exceeds max length", "prompt 超长", "tokens in request"),
        r"prompt exceeds max length|prompt 超长|tokens in request more than max tokens allowed",
        "https://docs.bigmodel.cn/cn/faq/api-code", reads_numbers=False,
    ),
    Wording(
        "input-length-over-maximum", "any", _CTX, ("input length", "prompt length"),
        r"(?:input|prompt) length \(?<#input>\)?(?: tokens\)?)? exceeds (?:the )?max(?:imum)?"
        r" (?:allowed |input |sequence )?(?:input length|token size|length) ?(?:of )?\(?<#limit>",
        "sgl-project/sglang#4048",
    ),
    Wording(
        "max-prompt-tokens", "siliconflow", _CTX, ("max_prompt_tokens",),
        r"input tokens \(<#input>\) has exceeded max_prompt_tokens \(<#limit>\)",
        "RhythmicWave/NovelForge#136",
    ),
    Wording(
        "prompt-and-window", "gpt4all", _CTX, ("and the context window is",),
        r"the prompt is ?<#input> ?tokens and the context window is ?<#limit>",
        "zylon-ai/private-gpt#839",
    ),
    Wording(
        "max-input-length", "replicate", _CTX, ("max input length",),
        r"max input length is <#limit> tokens, but you supplied <#input>",
        "run-llama/llama_index#7974",
    ),
    Wording(
        "configured-limit", "openai", _CTX, ("configured limit",),
        r"input tokens exceeds? the configured limit of <#limit>", "BerriAI/litellm#18927",
    ),
    Wording(
        "cannot-exceed", "cohere", _CTX, ("cannot exceed",),
        r"total number of tokens .{0,40}cannot exceed <#limit> - received <#total>",
        "cohere-ai/sandbox-topically#4",
    ),
    Wording(
        "sequence-length", "sambanova", _CTX, ("supported sequence length",),
        r"prompt is <#input> tokens long.{0,60}sequence length of <#total>.{0,60}"
        r"maximum supported sequence length is (?:just )?<#limit>",
        "cline/cline#294",
    ),
    Wording(
        "max-tokens-exceeded", "snowflake", _CTX, ("max tokens of",),
        r"max tokens of <#limit> exceeded", "posit-dev/positron#11737",
    ),
    Wording(
        "window-and-request", "proxy", _CTX, ("context window is",),
        r"context window is <#limit>(?: tokens)?, (?:but )?you requested <#total>",
        "openclaw/openclaw src/agents/pi-embedded-helpers.isbillingerrormessage.test.ts",
    ),
    Wording(
        "this-models-maximum", "openai", _CTX, ("maximum context l",),
        r"(?:models|endpoints) maximum context l", "zeroclaw-labs/zeroclaw#4044",
    ),
    Wording(
        "input-ids", "onnxruntime-genai", _CTX, ("input_ids size",),
        r"input_ids size \(<#input>\).{0,48}exceeds max length \(<#limit>\)",
        "microsoft/onnxruntime-genai#1558",
    ),
    Wording(
        "message-tokens", "volcengine ark", _CTX, ("max message tokens",),
        r"exceed max message tokens", "bytedance/deer-flow#583",
    ),
    Wording(
        "tokens-but-window", "any", _CTX, (" but ", "while"),
        r"<#input> tokens,? (?:but|while)[a-z0-9 ]{0,30} <window>(?: is| of)? (?:only )?<#limit>",
        "jin-bo/agentao tests/test_context_overflow_detection.py",
    ),
    Wording(
        "tokens-too-long", "baidu", _CTX,
        ("prompt tokens too long", "tokens_too_long", "max input characters"),
        r"prompt tokens too long|tokens_too_long|the max input characters is",
        "https://cloud.baidu.com/doc/qianfan-api/s/rmwbl43x7", reads_numbers=False,
    ),
    Wording(
        "compression-gave-up", "hermes", _CTX, ("compression attempts",),
        r"context length exceeded: max compression attempts", "jundot/omlx#2538",
        reads_numbers=False,
    ),
    Wording(
        "input-and-output-over-limit", "any", _CTX, ("token",),
        r"<subject>[a-z0-9 _()]{0,24}(?:\+|plus|and) [a-z0-9 _()]{0,16}"
        r"(?:max_?[a-z_]{0,12}tokens|(?:max |reserved )?<output>(?: tokens?)?)[a-z0-9 _(){}]{0,40}"
        r"(?:exceed|must be|<=|less than|<over>)",
        "openclaw/openclaw src/agents/pi-embedded-helpers.isbillingerrormessage.test.ts",
    ),
    Wording(
        "overflow-code", "any", _CTX,
        ("context", "max_prompt_tokens", "tokens_limit_reached", "content_length_exceeds",
         "too_long", "too_large", "prompt_limit"),
        r"context_?(?:length|window|size|limit)_?(?:exceeded|overflow)"
        r"|exceed(?:s|ed)?_?context_?(?:size|length|window)"
        r"|context_(?:window_)?(?:overflow|exceeded)"
        r"|max_prompt_tokens_exceeded|tokens_limit_reached|content_length_exceeds_threshold"
        r"|(?:prompt|input|context)_(?:is_)?too_(?:long|large)|(?<![a-z_])prompt_limit(?![a-z_])",
        "microsoft/copilot-intellij-feedback#94",
    ),
    Wording(
        "over-the-window", "any", _CTX,
        ("context", "ctx", "model_len", "max_seq_len", "model length", "max length",
         "maximum length", "model token limit", "input", "prompt"),
        r"<over>[^.;:()\[\]]{0,60}<window>"
        r"|<window> ?(?:\([0-9a-z,_ ]{1,24}\))?[^.;:()\[\]]{0,30}<over>",
        "Niek/chatgpt-web#525",
    ),
    Wording(
        "context-overflow", "any", _CTX, ("context overflow",),
        r"(?:^|[:\])] )context overflow(?: detected| error)?(?: ?[:.!(-]| ?$)",
        "openclaw/openclaw src/agents/pi-embedded-helpers.isbillingerrormessage.test.ts",
    ),
)  # fmt: skip


# What an overflow may mention by accident ---------------------------------------------------------

LIKELY_OTHERS: Final = (
    Wording(
        "output-parameter", "any", _OUT,
        ("max_tokens", "maxtokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens",
         "maxoutputtokens"),
        r"<max_output>.{0,60}?(?:must be|should|too (?:large|high|big|small)|cannot|exceed|above"
        r"|at most|at least|less than|greater than|invalid|not valid|非法|range|: <#n> > )"
        r"|(?:invalid|range of|parameter|value for|maximum of <#m> -) <max_output>",
        "anthropics/claude-code#24451",
    ),
    Wording(
        "output-over-maximum", "any", _OUT,
        ("maximum tokens", "max tokens", "output token", "completion token", "response exceeded",
         "is not less or equal", "output limit"),
        r"maximum tokens you requested|(?:max|maximum) tokens (?:must|should|value|cannot)"
        r"|(?:maximum|max|at most|limit|supports).{0,40}(?:output|completion) tokens?"
        r"|(?:output|completion) tokens? (?:limit|maximum|exceed)|response exceeded the"
        r"|[0-9]{3,12} is not less or equal to [0-9]{3,12}",
        "sigoden/aichat#813",
    ),
    Wording(
        "output-cut", "any", _OUT,
        ("length limit was reached", "output limit was reached", "completion tokens reached",
         "reason: length", "reason: max_tokens", "reason=length", "reason length",
         "reason max_tokens"),
        r"length limit was reached|output limit was reached|completion tokens reached"
        r"|(?:finish|stop)[_ ]?reason ?[:=]? ?(?:length|max_tokens)(?![a-z_])",
        "confident-ai/deepeval#1640",
    ),
    Wording(
        "overloaded", "any", Code.SERVER,
        ("overload", "capacity", "访问量过大", "繁忙", "负载", "unavailable", "server error",
         "internal error", "bad gateway", "had an error", "server_error", "not ready",
         "notready", "econn", "connection ", "upstream", "web server is"),
        r"overload|(?:out of|no) capacity|访问量过大|繁忙|负载|unavailable|internal server error"
        r"|bad gateway|server had an error|server_error|model ?(?:is )?not ?ready|econn[a-z]{1,12}"
        r"|connection (?:error|reset|refused|closed)|upstream connect|web server is",
        "openclaw/openclaw src/agents/pi-embedded-helpers.isbillingerrormessage.test.ts",
    ),
    Wording(
        "rate-limit", "any", _RATE,
        ("rate", "too many", "concurren", "resource_exhausted", "exhausted", "capacity exceeded",
         "request limit", "cooldown", "frequen", "频率", "频繁", "速率", "限流", "并发", "流量限制",
         "请求过多", "zu viele anfragen", "trop de requ", "solicit", "richieste", "запросов",
         "リクエストが多", "レート制限", "요청"),
        r"rate[ _-]?limit|too many (?:concurrent )?requests|concurren(?:cy|t)"
        r"|resource[ _](?:has been )?exhausted|capacity exceeded|request limit|cooldown"
        r"|too frequent|频率|频繁|速率|限流|并发|流量限制|请求过多|zu viele anfragen|trop de requ"
        r"|(?:demasiad|muit)as solicit|troppe richieste|много запросов|лимит запросов"
        r"|リクエストが多|レート制限|요청 한도|많은 요청|요청이 너무",
        "fork-dev/TrackerWin#2595",
    ),
    Wording(
        "quota", "any", _QUOTA,
        ("quota", "limit", "credits", "subscription", "额度", "使用上限", "used up", "billing"),
        r"quota|(?:usage|spend(?:ing)?|billing)[a-z ]{0,12} limit|not enough credits"
        r"|credits? (?:exhausted|required)"
        r"|(?:reached|hit) (?:the|your) (?:(?:set|monthly|daily|weekly|usage|inference) ){0,3}limit"
        r"|额度|使用上限|used up your|available for (?:this|your) subscription|limit exhausted"
        r"|billing_hard_limit",
        "songquanpeng/one-api#898",
    ),
    Wording(
        "content-filter", "any", Code.CONTENT_FILTER,
        ("content", "safety", "moderation", "usage polic", "responsibleai", "敏感", "违规",
         "inspection", "flagged", "prohibited"),
        r"content[ _]?(?:filter|policy|management|moderation|inspection)"
        r"|safety (?:system|setting|reason)|(?:blocked|rejected|flagged).{0,40}(?:safety|polic)"
        r"|usage polic|responsibleai|datainspection|inappropriate content|敏感|违规|moderation"
        r"|prohibited_content",
        "BerriAI/litellm tests/test_litellm/litellm_core_utils/test_exception_mapping_utils.py",
    ),
    Wording(
        "auth", "any", Code.AUTH,
        ("key", "unauthori", "authenti", "permission", "forbidden", "denied", "credential",
         "expired", "token invalid", "token is invalid", "security token", "have access", "鉴权",
         "令牌", "token 非法", "token非法", "过期", "身份"),
        r"(?:invalid|incorrect|missing|wrong|no)[ _](?:x-)?api[ _-]?key"
        r"|api[ _-]?key[a-z ]{0,12} (?:not|invalid|revoked|expired|missing)|unauthori[sz]ed"
        r"|authentication|authorization|permission|forbidden|access ?denied|credentials"
        r"|token[a-z ]{0,20}(?:expired|invalid)|expiredtoken|security token|have access to"
        r"|鉴权|令牌(?:无效|已过期|不可用)|无效的令牌|token ?(?:已过期|非法)|身份验证",
        "MetaGLM/zhipuai-sdk-python-v4#6",
    ),
    Wording(
        "timeout", "any", Code.TIMEOUT, ("time", "超时"),
        r"timed? ?out|etimedout|超时", "AtomicBot-ai/Atomic-Chat#212",
    ),
    Wording(
        "size-in-bytes", "any", Code.PAYLOAD_TOO_LARGE,
        ("byte", "mb", "kb", "gb", "ib", "too large", "too_large", "maximum size", "payload",
         "upload limit", "request body"),
        r"bytes|[0-9] ?[kmg]i?b(?![a-z])|megabyte|exceeds? the maximum size|upload limit"
        r"|(?:entity|payload|content|request|body)_?(?: is)?[ _]too[ _]large|payload size"
        r"|request body.{0,20}limit",
        "anthropics/claude-code#3335",
    ),
    Wording(
        "picture-or-file", "any", _INVALID,
        ("image", "pixel", "pdf", "file", "attachment", "audio", "video", "url", "uri", "header"),
        r"(?:image|pixel|pdf|file|attachment|audio|video|url|uri|header)s?[a-z0-9 _.:,-]{0,60}"
        r"(?:exceed|too (?:large|long|big|many)|max)|too many (?:images|files|pdf)"
        r"|exceeds? [a-z0-9 ]{0,20}(?:images|files|pages)",
        "anthropics/claude-code#4778",
    ),
    Wording(
        "characters", "any", _INVALID, ("character", "字符"),
        r"characters?(?![a-z])|字符", "huggingface/text-embeddings-inference#394",
    ),
)  # fmt: skip


# What is an overflow by its kind of wording -------------------------------------------------------

LIKELY_OVERFLOWS: Final = (
    Wording(
        "input-too-long", "any", _CTX, ("too long", "too large", "too big"),
        r"<subject>[a-z0-9 _(),]{0,60}too (?:long|large|big)|request(?: is| was)? too long",
        "langgenius/dify#4452", silenced_by=_OTHER_MATTERS - {429},
    ),
    Wording(
        "tokens-over-limit", "any", _CTX, ("token",),
        r"tokens?[a-z0-9 _()]{0,40}<over>|<over>[a-z0-9 _()]{0,40}tokens?",
        "forcedotcom/Einstein-GPT-for-Developers#228", silenced_by=_OTHER_MATTERS,
    ),
    Wording(
        "input-over-maximum", "any", _CTX,
        ("prompt", "input", "message", "conversation", "history", "context"),
        r"<subject>[a-z0-9 _()+]{0,40}<over>[a-z0-9 _()]{0,40}(?:max|limit|length|allowed|size)",
        "ddalcu/mlx-serve#66", silenced_by=_OTHER_MATTERS,
    ),
    Wording(
        "tokens-and-bound", "any", _CTX, ("token",),
        r"<subject>[a-z0-9 _()]{0,24}tokens?.{0,24}"
        r"(?:must be|cannot be|no more than|at most|less than)"
        r"|(?:prompt|input) tokens?[^.]{0,40}limit|max tokens supported"
        r"|(?:at most|up to|maximum of) <#limit> (?:input|prompt|context) tokens",
        "kijai/ComfyUI-CogVideoXWrapper#204", silenced_by=_OTHER_MATTERS,
    ),
    Wording(
        "shorten-the-input", "any", _CTX,
        ("reduc", "shorten", "shorter", "decreas", "trim", "compress"),
        r"(?:reduc(?:e|ing)|shorten(?:ing)?|decreas(?:e|ing)|trim|compress)[a-z ]{0,30}"
        r"(?:length|prompt|input|messages?|conversation|context|history)"
        r"|shorter (?:prompt|input|message|conversation)",
        "thepersonalaicompany/amurex-backend#51", silenced_by=_OTHER_MATTERS,
    ),
    Wording(
        "chinese", "any", _CTX,
        ("超", "过长", "過長", "过大", "過大", "太长", "太長", "过多", "压缩上下文"),
        r"(?:上下文|输入|輸入|提示词?|对话|對話|文本|消息|訊息|内容|內容|tokens?|prompt"
        r"|请求|請求|长度|長度)"
        r"[^,.;:]{0,24}(?:过长|過長|太长|太長|超|过大|過大|过多)"
        r"|超[^,.;:]{0,24}(?:上下文|输入|輸入|长度|長度|tokens?)|压缩上下文",
        "openclaw/openclaw src/agents/pi-embedded-helpers.isbillingerrormessage.test.ts",
        silenced_by=_OTHER_MATTERS,
    ),
    Wording(
        "japanese", "any", _CTX, ("超え", "超過", "すぎ", "上限"),
        r"(?:コンテキスト|プロンプト|入力|トークン)[^.]{0,24}(?:超え|超過|長すぎ|大きすぎ|上限)",
        "ollama/ollama server/routes.go, as a client translates it",
        silenced_by=_OTHER_MATTERS,
    ),
    Wording(
        "korean", "any", _CTX, ("초과", "너무"),
        r"(?:컨텍스트|프롬프트|입력|토큰)[^.]{0,24}(?:초과|너무 (?:길|깁|큽|큰))",
        "context_length_exceeded, as clients translate it", silenced_by=_OTHER_MATTERS,
    ),
    Wording(
        "russian", "any", _CTX, ("превыш", "слишком"),
        r"(?:контекст|токен|промпт|ввод)[^.;]{0,40}(?:превыш|слишком (?:длин|больш|велик))"
        r"|превыш[^.;]{0,40}(?:контекст|токен)|запрос слишком длин",
        "context_length_exceeded, as clients translate it", silenced_by=_OTHER_MATTERS,
    ),
    Wording(
        "german", "any", _CTX, ("überschr", "übersteig", "zu lang", "zu groß"),
        r"(?:kontext|eingabe|prompt|nachricht|token)[^.;]{0,40}"
        r"(?:überschr|übersteig|zu lang|zu groß)"
        r"|(?:überschr|übersteig)[^.;]{0,40}(?:kontext|token)",
        "context_length_exceeded, as clients translate it", silenced_by=_OTHER_MATTERS,
    ),
    Wording(
        "romance", "any", _CTX,
        ("dépass", "exced", "excéd", "supera", "ultrapass", "trop long", "demasiado larg",
         "muy larg", "muito long", "troppo lung"),
        r"(?:contexte|contexto|contesto|prompt|entrada|entrée|jetons|tokens?|conversa)[^.;]{0,40}"
        r"(?:dépass|exced|excéd|supera|ultrapass|trop long|demasiado larg|muy larg|muito long"
        r"|troppo lung)"
        r"|(?:dépass|exced|excéd|supera|ultrapass)[^.;]{0,40}"
        r"(?:contexte|contexto|contesto|tokens|jetons)",
        "RC-ia/free-deepseek-openai-proxy README.md", silenced_by=_OTHER_MATTERS,
    ),
)  # fmt: skip

TABLE: Final = (*CERTAIN_OTHERS, *CERTAIN_OVERFLOWS, *LIKELY_OTHERS, *LIKELY_OVERFLOWS)
"""Every wording, in the order in which they are tried."""


# The numbers --------------------------------------------------------------------------------------

READINGS: Final = (
    Reading(
        "output",
        r"<#n> (?:tokens? )?(?:(?:in|for|of) (?:the |your )?(?:completion|output|response)"
        r"|(?:output|completion|new) tokens)",
    ),
    Reading("output", r"(?:plus|and|\+) <#n> max_[a-z_]{0,11}tokens"),
    Reading(
        "output",
        r"max_(?!prompt|input|total)[a-z_]{0,11}tokens(?: or max_completion_tokens)?"
        r"(?: is too large)?(?: is| of|:|=)? ?\(?<#n>",
    ),
    Reading(
        "input",
        r"<#n> (?:tokens? )?(?:in|of|from) (?:the |your )?(?:(?:text|tool|image|audio|input) )?"
        r"(?:messages?|prompt|input|functions?|tools?|history)",
        adds=True,
    ),
    Reading("excess", r"(?:exceed[a-z]{0,3}|over|long)[a-z ]{0,40} by (?:about )?<#n>"),
    Reading("total", r"for a total of (?:at least )?<#n>"),
    Reading(
        "total",
        r"requested (?:about |a total of |at least )?<#n>(?! ?(?:input|output|completion))",
    ),
    Reading("total", r"requested(?: tokens?)?:? ?\(?<#n>(?! ?(?:input|output|completion))"),
    Reading("input", r"n_prompt_tokens ?[:=]?>? ?<#n>"),
    Reading(
        "limit",
        r"<window>(?: currently)?(?: is| of|:|=)? ?(?:only |just |limited to |set to )?\(?<#n>",
    ),
    Reading(
        "limit",
        r"(?:max(?:imum)?|limit(?:ed)?|up to|at most|no more than|cannot exceed|less than|<=?|only)"
        r"[a-z_/ ]{0,40}?(?: is| of| to|:|=)? ?\(?<#n>",
    ),
    Reading("limit", r"(?:最大|上限|限制|不能超过|不超过)[^0-9a-z,.;:{}]{0,12}<#n>"),
    Reading("limit", r"> <#n>"),
    Reading("limit", r"<#n> (?:tokens? )?(?:max|limit)"),
    Reading("limit", r"exceed(?:s|ed)?[a-z_ ]{0,40}(?: of| is|:)? ?\(?<#n>"),
    Reading(
        "input",
        r"(?:has|have|had|contains?|contained|includes?|passed|supplied|received|given|got|sent"
        r"|resulted in|current(?: length)?(?: is)?)(?: about| at least)?:? ?<#n>",
    ),
    Reading(
        "input",
        r"(?<![a-z])(?:prompt|input|request|conversation|tokens?|length|count)[a-z_ ]{0,16}?"
        r"(?: of| is|:|=)? ?\(?<#n>",
    ),
    Reading("input", r"<#n> (?:input |prompt )?tokens"),
)
"""How to read the numbers that a row doesn't name; a number is taken by the first that reads it."""

UNITS_BEHIND: Final = (
    r" ?\)? ?(?:characters?|chars?|caract|zeichen|символ|字符|文字|글자|bytes?|[kmg]i?b(?![a-z])"
    r"|%|ms|seconds?|minutes?|images?|messages|pages|requests?|attempts?|retries)"
)
UNITS_BEFORE: Final = r"(?:chars?|characters?|bytes?|seconds?)(?:_[a-z]{1,12})?[ :=(]{0,3}$"
"""What beside a number makes it a count of something else than tokens."""

HTTP_STATUS: Final = (
    r"(?:40[0-9]|41[0-8]|42[2-9]|451|499|50[0-8]|52[0-9])(?![0-9]| ?tokens?| in the )"
)
"""A number that is far more often the status of the response than a count, and never a window."""
