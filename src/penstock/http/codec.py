"""Plain values as JSON, and back."""

from typing import Final

import msgspec

encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder().decode
