"""The library's texts in the words of Python. Errors, reports and help pages name functions of rille.h, and have Lua's syntax."""

import re

# Functions of rille.h -> functions of this package that call them, unless the names are equal.
FUNCTIONS = {
    "assign": "copy_",
    "from_dlpack_versioned": "from_dlpack",
    "from_host": "tensor",
    "grad_of": "grad",
    "micro_batch_result": "per_micro_batch",
    "place": "placement",
    "read": "numpy",
    "relayout": "to_global_",
    "set_grad": "grad",
    "set_name": "name",
    "set_requires_grad": "requires_grad",
    "tensors_assign": "load_state_dict",
    "to_dlpack": "__dlpack__",
    "to_dlpack_versioned": "__dlpack__",
}
VALUES = {"nil": "None", "true": "True", "false": "False"}


def shape(sizes):
    """Returns the sizes of a shape as a Python tuple."""
    return f"({sizes},)" if re.fullmatch(r"\d+", sizes) else f"({sizes})"


# Patterns, and what Python writes in their place. A pattern sees the results of the patterns before it.
PATTERNS = [
    (r"\brille_(?:tensor_)?(\w+)(?=:|\(\))", lambda m: FUNCTIONS.get(m[1], m[1])),
    (r"\bx\[\{rille\.arange\(n\), ids\}\]", "x.gather(ids.unsqueeze(1), 1)"),
    (r"\bx:requires_grad_\(true\)", "x.requires_grad = True"),
    (r"\bx:(?=\w+[({])", "x."),
    (r"\bto\((?=\"|dtype)", "cast("),
    (r"\bto_global\(\"", 'to_global(sbp="'),
    (r", \{(\w+) =, (\w+) =\} or \{(\w+) =\}", r"; or the options \1 and \2, or \3, in place of schedule"),
    (r" \(true\)", ""),  # a second spelling of a word in Lua
    (r"\b(placement\(\"[^\"]*\", )\{([^{}]*)\}", r"\1[\2]"),
    (r"(?<=\w)\{(\w+ = [^{}]*)\}", lambda m: f"({m[1]})".replace(" = ", "=")),  # a call with options
    (r"\{(x, \.\.\.)\}", r"[\1]"),
    (r"\b([fi]\d\d|bf16|u8|bool)\{([^{}]*)\}", lambda m: f"{m[1]} {shape(m[2])}"),
    (r"\{((?:[\w.%+-]+)?(?:, ?[\w. %+-]+)*)\}", lambda m: shape(m[1])),
    (r"\b(nil|true|false)\b", lambda m: VALUES[m[1]]),
]
PATTERNS = [(re.compile(pattern), written) for pattern, written in PATTERNS]


def spoken(text):
    """Returns a text of the library in the words of Python."""
    for pattern, written in PATTERNS:
        text = pattern.sub(written, text)
    return text
