"""One record <-> one event, for every format: the only place where JSON is a dict and names are
camelCase.

`scan` reads lines in bulk and decodes no more than its caller needs, `light` tells events from the
layout of their lines, `decode` reads one record in full, `identity` tells results apart, `encode`
writes the records that we write, `wire` holds the shapes on disk.
"""

from dsh_compact.codec.decode import (
    content_json,
    decode,
    decode_header,
    decode_request_header,
    decode_surface_event,
)
from dsh_compact.codec.identity import Identity
from dsh_compact.codec.scan import EVERY, Scanner

__all__ = [
    "EVERY",
    "Identity",
    "Scanner",
    "content_json",
    "decode",
    "decode_header",
    "decode_request_header",
    "decode_surface_event",
]
