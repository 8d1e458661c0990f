"""notebook.py [--write] FILE.ipynb -- executes a notebook and compares its outputs with
those stored in it; --write stores them instead.

The notebooks contain plain Python only, so that executing them needs no Jupyter: of each
cell the last expression is its result, as text, HTML or a picture.  Results are compared
as text; pictures, whose bytes depend on the version of matplotlib, are not."""
import ast
import base64
import contextlib
import io
import json
import sys


def picture(value):
    """The PNG of a figure of matplotlib."""
    out = io.BytesIO()
    value.savefig(out, format="png", dpi=80, metadata={"Software": None})
    return base64.b64encode(out.getvalue()).decode()


def result(value):
    """An output of a cell as nbformat stores it."""
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "savefig"):
        data = {"image/png": picture(value), "text/plain": ["<Figure>"]}
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return {"output_type": "execute_result", "data": data, "metadata": {}}


def execute(source, names):
    """The outputs of a cell."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, outputs, value = io.StringIO(), [], None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout",
                        "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        outputs.append(result(value))
    return outputs


def texts(outputs):
    """What is compared."""
    return ["".join(o.get("text") or o["data"]["text/plain"]) for o in outputs]


def run(path):
    """The notebook with new outputs, and (number of cell, stored, new) of differences."""
    with open(path) as f:
        book = json.load(f)
    names, different = {"__name__": "__main__"}, []
    for number, cell in enumerate(book["cells"]):
        if cell["cell_type"] != "code":
            continue
        new = execute("".join(cell["source"]), names)
        for o in new:
            if o["output_type"] == "execute_result":
                o["execution_count"] = number
        if texts(new) != texts(cell["outputs"]):
            different.append((number, texts(cell["outputs"]), texts(new)))
        cell["outputs"], cell["execution_count"] = new, number
    return book, different


def main():
    book, different = run(sys.argv[-1])
    if sys.argv[1] == "--write":
        with open(sys.argv[-1], "w") as f:
            json.dump(book, f, indent=1, ensure_ascii=False)
            f.write("\n")
        return 0
    for number, stored, new in different:
        print(f"cell {number}:", *stored, "is now:", *new, sep="\n")
    return len(different) > 0


if __name__ == "__main__":
    sys.exit(main())
