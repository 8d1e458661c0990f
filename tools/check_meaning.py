#!/usr/bin/env python3
"""check_meaning.py -- fails where a name occurs outside the places that may use it.

  tools       other tools and runtimes are named only in formats that they read,
              observers they published, passes for one device, quirks, and arithmetic
              that bears its author's name
  operators   operators of ONNX are named only in their tables and in the files
              listed below
  decisions   the engine and passes never test an operator's name, but traits and
              roles; they never test which quirks are on: a row of a quirk swaps a
              behaviour
  asserts     state more than that a parameter is not NULL, which the first access
              detects anyway

Names are searched in identifiers, literals and paths, at the beginning of words and
at case changes (useNcnn).  Comments may cite sources, and included files are checked
separately."""
import re
import sys

import check_source

CASE = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"  # is|Trt, MNN|Quantizer
TOOL = re.compile(  # names matched as prefixes, then names matched as whole words
    rf"(?:(?<![A-Za-z])|{CASE})"
    r"(?:((?i:ppq|ppl|perseus|onnxruntime|mlas|openvino|nncf|ncnn|tensorrt|trt|nvidia|aimet"
    r"|qualcomm|tflite|litert|tensorflow|xnnpack|gemmlowp|cmsis|metax|rknn|tengine|pytorch"
    r"|torch|hailo|graphcore|huawei|rockchip|coreml))"
    r"|((?i:ort|mnn|qnn|snpe|ruy|nxp|tvm|vitis|ascend|hexagon))"
    rf"(?:(?![A-Za-z])|{CASE}))")
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\b[A-Za-z_]\w*')

ARITHMETIC = "onnxruntime|ort|openvino|nncf|aimet|qnn|tflite|litert|xnnpack|gemmlowp|cmsis"
PLACES = [  # files, tools that may be named there
    (r"engine/(formats|calib)/|passes/vendor/|engine/quant/quirk\.[ch]$", ".*"),
    (r"engine/number/openvino_fq\.[ch]$", "openvino"),  # arithmetic that bears its name
    (r"engine/number/round\.h$", "ppq|openvino"),  # meanings of rounding modes
    (r"engine/number/|ops/integer_table\.c$", "gemmlowp"),  # runtimes: configs/profiles
    (r"engine/quant/backend\.[ch]$", "trt"),  # a word of backend files: placement
    (r"engine/quant/", ARITHMETIC),           # published, and called by its author
    (r"engine/learn/step_gradient\.(c|def)$", "nncf"),  # a published gradient
    (r"passes/passes\.def$", ".*"),           # lists those of vendors
    (r"ops/(openvino\.c|families\.def)$", "openvino"),  # operators of its domain
    (r"ops/qlinear\.c$", "onnxruntime"),      # ... and those that only it computes
    (r"ops/(integer_resize|resize|util_resample)\.[ch]$", "pytorch"),  # ONNX's word
    (r"ops/integer_table\.c$", "gemmlowp"),  # a fixed-point exponential, by its author
]
# Ids of rows: variants of grids.
ROWS = re.compile(r"QG_QUIRK_PPQ_\w+$|QG_RANGE_PPQ_\w+$|QG_FLOAT_PPQ_TIES$|ppq_ties$")
QUIRKS = re.compile(r"^(?:static )?const qg_quirk_row \w+\[\] = \{.*?^\};", re.M | re.S)
# Texts that users write: names of dispatchers and variants, and examples of the command
# line.
INTERFACE = re.compile(r"\b(perseus|pplnn|ppq-ties)\b")
EXAMPLES = re.compile(r"tools/\w+\.[ch]$")
# A quirk of more than one line is a separate function, ppq_*.
QUIRKS_ACT = re.compile(r"passes/|engine/(quant|pass)/")
PPQ_FUNCTION = re.compile(r"^static\b[^;{}=]*?\b(ppq_\w+)\s*[(=]", re.M)

LIBRARY = "engine/|ops/|passes/"
FORMATS = re.compile(r"ops/|engine/(onnx|formats)/")  # may name an operator
NO_QUIRKS = "never tests for a quirk: swap a behaviour by a row (engine/quant/quirk.h)"
DECISIONS = [  # where, not there, what, why
    (r"passes/", None, r'strn?cmp\s*\([^;]*"[A-Z]\w+"',
     "a pass names no operator: ask for traits and roles"),
    (r"engine/|passes/", FORMATS.pattern, r'qg_op_(find|newest)\s*\([^()";]*"',
     "looks an operator up by a name of its own: ask for traits and roles"),
    (LIBRARY, r"engine/quant/quirk\.[ch]$",
     r"(?<!\bqg_quirk_name\()\bQG_QUIRK\w*", NO_QUIRKS),  # a message may name one
]

# Masks of quirks are read from files and options, listed, and otherwise only passed on:
# to a function, in an initializer, to a member of the same name.  Arithmetic uses
# flags.
MASKS = re.compile(r"engine/(session|analysis)/|engine/config/backend_yaml\.c$"
                   r"|engine/report/(backend_page|list)\.c$|engine/pass/pass\.c$"
                   r"|engine/quant/(quirk|qparam)\.[ch]$")
CHAIN = r"(?:\w+(?:->|\.))"
HANDED_ON = re.compile(rf"(?:[,{{]|\bqg_\w+\()\s*{CHAIN}+quirks(?=\s*[,)}}])"
                       rf"|{CHAIN}+quirks = (?:{CHAIN}+quirks;)?")
MASK = re.compile(r"(?:->|\.)quirks\b|\bquirks\s*(?:[&|^%<>?]|[!=]=)")

PRINTS = re.compile(r"\w*(printf|fail|log)\w*")  # functions that print or fail
COMPARES = re.compile(r"(str|mem)[a-z]+")


def blanked(pattern, code):
    return pattern.sub(check_source.blank, code)


def tools_of(text):
    """Names of tools among the words of an identifier, a literal or a path."""
    return [m[1] or m[2] for m in TOOL.finditer(text)]


def tool_complaints(path, code):
    """(offset, message) for every tool that this file may not name."""
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


def caller(code, at):
    """The function whose brackets hold offset `at`; "" for none."""
    depth = 0
    for i in range(at - 1, -1, -1):
        depth += (code[i] in ")}]") - (code[i] in "({[")
        if depth < 0:
            return re.search(r"\w*$", code[:i])[0]
        if code[i] == ";" and depth == 0:
            break
    return ""


def name_complaints(path, code):
    """Uses of op->name, for any variable of type qg_op: the engine may print it and
    pass it on, passes may only print it."""
    ops = {"op", *re.findall(r"\bqg_op \*(?:const )?(\w+)", code)}
    for m in re.finditer(rf"{CHAIN}*\b(?:{'|'.join(ops)})(?:->|\.)name\b", code):
        before, after = code[:m.start()].rstrip()[-2:], code[m.end():].lstrip()
        function = caller(code, m.start())
        if path.startswith("passes/"):
            fine = PRINTS.fullmatch(function) and before[-1] in ",(" and after[0] in ",)"
        else:
            fine = not (COMPARES.fullmatch(function) or before in ("==", "!=")
                        or before[-1] == "*" or re.match(r"\[|[!=]=(?!\s*NULL)", after)
                        or before[-1] in "=:" and after[0] == ";")  # into a variable
        if not fine:
            yield m.start(), "never compares an operator's name: ask for traits and roles"


def decision_complaints(path, code):
    if re.match(r"engine/(?!ir/(op|upgrade)\.c$|report/list\.c$)|passes/", path):
        yield from name_complaints(path, code)
    if re.match(LIBRARY, path) and not MASKS.match(path):
        for m in MASK.finditer(blanked(HANDED_ON, code)):
            yield m.start(), NO_QUIRKS
    for where, exempt, what, why in DECISIONS:
        if re.match(where, path) and not (exempt and re.match(exempt, path)):
            for m in re.finditer(what, code):
                yield m.start(), why


def bare(operand, function):
    """Whether an operand of && only states that a pointer parameter is not NULL, or is
    text."""
    m = re.fullmatch(r'[\s("]*(?:(?:NULL|0)\s*!=|!\s*!)?[\s(]*(\w*)'
                     r'(?:\s*!=\s*(?:NULL|0))?[\s)"]*', operand)
    return bool(m) and (not m[1] or m[1] in function.pointers)


def asserts(code, function):
    """(begin, end, operands of &&) of each assert of a function; [begin, end) extends
    from the word to the closing bracket."""
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
        return  # reported by check_budget.py
    code = check_source.only_code(code)
    for f in functions:
        for begin, _, operands in asserts(code, f):
            if all(bare(o, f) for o in operands):
                yield begin, "an assert that only repeats that a parameter is not NULL"


def complaints():
    operators = {name for _, name in check_source.operators()}
    for path in check_source.files(*check_source.C):
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
