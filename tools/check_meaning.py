#!/usr/bin/env python3
"""check_meaning.py -- fails where a name stands outside of the place that knows it.

  tools       other tools and runtimes are named by the formats that they read, the
              observers they published, passes for one device, quirks, and arithmetic
              that bears its author's name
  operators   operators of ONNX are named by their tables and by files that name them
  decisions   the engine and passes never ask an operator's name: they ask for traits
              and roles
  asserts     state more than that a parameter is not NULL, which the first access finds
              out anyway

Names are looked for in identifiers, literals and paths; comments may cite sources, and
include lines name files that were looked at themselves."""
import re
import sys

import check_source

TOOL = re.compile(r"(ppq|ppl\w*|perseus|onnxruntime|ort|mlas|openvino|nncf|ncnn|mnn|tensorrt"
                  r"|trt|nvidia|aimet|qnn|snpe|qualcomm|tflite|litert|tensorflow|xnnpack"
                  r"|gemmlowp|ruy|cmsis|nxp|metax|rknn|tengine|pytorch|torch|tvm|vitis"
                  r"|hailo)")
WORD = re.compile(r"[A-Za-z]+")  # of an identifier, a literal, or a path
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\b[A-Za-z_]\w*')

ARITHMETIC = "onnxruntime|ort|openvino|nncf|aimet|qnn|tflite|litert|xnnpack|gemmlowp|cmsis"
PLACES = [  # files, tools that may be named there
    (r"engine/(formats|calib)/|passes/vendor/|engine/quant/quirk\.[ch]$", ".*"),
    (r"engine/number/", ".*"),                # profiles of runtimes, with their sources
    (r"engine/quant/", ARITHMETIC),           # published, and called by its author
    (r"ops/openvino\.c$", "openvino"),        # operators of its domain
    (r"ops/qlinear\.c$", "onnxruntime"),      # ... and those that only it computes
    (r"ops/(resize|util_resample)\.[ch]$", "pytorch"),  # ONNX: pytorch_half_pixel
]
# Ids of rows: variants of grids.
ROWS = re.compile(r"QG_QUIRK_PPQ_\w+$|QG_RANGE_PPQ_\w+$|QG_FLOAT_PPQ_TIES$|ppq_ties$")
QUIRKS = re.compile(r"^(?:static )?const qg_quirk_row \w+\[\] = \{.*?^\};", re.M | re.S)
# What a user writes: dispatchers and variants have names of their own, and the command
# line shows examples.
INTERFACE = re.compile(r"\b(perseus|pplnn|ppq-ties)\b")
EXAMPLES = re.compile(r"tools/\w+\.[ch]$")
# Where quirks act, one that is more than a line is a function of its own, ppq_*.
QUIRKS_ACT = re.compile(r"passes/|engine/(quant|pass)/")
PPQ_FUNCTION = re.compile(r"^static\b[^;{}=]*?\b(ppq_\w+)\s*[(=]", re.M)

FORMATS = re.compile(r"ops/|engine/(onnx|formats)/")  # may name an operator
DECISIONS = [  # where, not there, what, why
    (r"engine/|passes/", r"engine/ir/op\.c$",
     r"strn?cmp\s*\([^;]*\bop->name|\bop->name\s*[!=]=(?!\s*NULL)",
     "never compares an operator's name: ask for traits and roles"),
    (r"passes/", None, r'strn?cmp\s*\([^;]*"[A-Z]\w+"',
     "a pass names no operator: ask for traits and roles"),
    (r"engine/|passes/", FORMATS.pattern, r'qg_op_(find|newest)\s*\([^()";]*"',
     "looks an operator up by a name of its own: ask for traits and roles"),
]


def blanked(pattern, code):
    return pattern.sub(check_source.blank, code)


def tools_of(text):
    """Names of tools among the words of an identifier, a literal or a path."""
    return [w for w in WORD.findall(text) if TOOL.fullmatch(w.lower())]


def tool_complaints(path, code):
    """(offset, what) for every tool that this file may not name."""
    places = [re.compile(names) for where, names in PLACES if re.match(where, path)]
    own = set(PPQ_FUNCTION.findall(code)) if QUIRKS_ACT.match(path) else set()
    code = re.sub(r"^[ \t]*#\s*include[^\n]*", check_source.blank, code, flags=re.M)
    tokens = [(0, path)]
    for m in TOKEN.finditer(blanked(QUIRKS, code)):
        text = m.group()
        if text[0] == '"':
            text = "" if EXAMPLES.match(path) else INTERFACE.sub("", text)
        elif text in own or ROWS.match(text):
            continue
        tokens.append((m.start(), text))
    for offset, text in tokens:
        for name in tools_of(text):
            if not any(p.fullmatch(name.lower()) for p in places):
                yield offset, f"names a tool: {text.strip()}"
                break


def operator_complaints(path, code, operators):
    if FORMATS.match(path):
        return
    for m in re.finditer(r'"([A-Z]\w*)"', code):
        if m[1] in operators:
            yield m.start(), f"names an operator: {m[1]}"


def decision_complaints(path, code):
    for where, exempt, what, why in DECISIONS:
        if re.match(where, path) and not (exempt and re.match(exempt, path)):
            for m in re.finditer(what, code):
                yield m.start(), why


def bare(operand, function):
    """Whether an operand of && only states that a pointer parameter is not NULL."""
    m = re.fullmatch(r"[\s(]*(\w+)(?:\s*!=\s*(?:NULL|0))?[\s)]*", operand)
    return bool(m) and m[1] in function.pointers


def asserts(code, function):
    """(begin, end, operands of &&) of each assert of a function; [begin, end) goes from
    the word to behind the bracket."""
    for m in re.finditer(r"\bassert\s*\(", code[:function.body[1]]):
        if m.start() >= function.body[0]:
            end = check_source.closing(code, m.end() - 1)
            yield m.start(), end, code[m.end():end - 1].split("&&")


def assert_complaints(code):
    if not re.search(r"\bassert\s*\(", code):
        return
    try:
        functions = check_source.functions(code)
    except ValueError:
        return  # check_budget.py complains
    code = check_source.only_code(code)
    for f in functions:
        for begin, _, operands in asserts(code, f):
            if all(bare(o, f) for o in operands):
                yield begin, "an assert that only repeats that a parameter is not NULL"


def complaints():
    operators = {name for _, name in check_source.operators()}
    for path in check_source.files(".c", ".h"):
        if check_source.room(path) is None:
            continue
        code = check_source.without_comments(path.read_text())
        for offset, what in sorted([*tool_complaints(str(path), code),
                                    *operator_complaints(str(path), code, operators),
                                    *decision_complaints(str(path), code),
                                    *assert_complaints(code)]):
            yield f"{path}:{code.count(chr(10), 0, offset) + 1}: {what}"


def main():
    found = list(dict.fromkeys(complaints()))
    for line in found:
        print(line)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
