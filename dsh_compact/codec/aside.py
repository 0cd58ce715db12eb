"""What a repair leaves out, as it is kept beside the log: a JSON line a piece, with the reason."""

from base64 import b64encode

from dsh_compact.codec import wire


def entry(
    raw: bytes, *, code: str, reason: str, line: int | None, seq: int | None, byte: int | None
) -> bytes:
    """A line without its newline: `text` holds what stood there, `base64` what is no UTF-8."""
    record = {"line": line, "seq": seq, "byte": byte, "code": code, "reason": reason}
    try:
        return wire.dump({**record, "text": raw.decode("utf-8")})
    except UnicodeDecodeError:
        return wire.dump({**record, "base64": b64encode(raw).decode("ascii")})
