#!/usr/bin/env python3
"""Netron and Model Explorer open our files in Chromium and show our facts.

    apt-get install chromium chromium-driver
    python3 -m venv V && V/bin/pip install netron==9.3.3 ai-edge-model-explorer==0.1.34 \\
        model-explorer-onnx==0.4.2 selenium
    QG=build/qg V/bin/python tests/peers/viewers.py [FOLDER]

Netron       a node of the onnx-qdq file lists scale and zero point of its inputs
             (quantization_annotation); openvino-ir and tflite files open, too
Model Explorer  SNAPSHOT/model.onnx with node data: the overlay lists every kind and has a
             value for each node

FOLDER gets screenshots."""
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import onnx
from model_explorer.config import ModelExplorerConfig
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/scripts"))
from command import qg  # noqa: E402
from overlays import overlays  # noqa: E402

MODEL, DATA = ROOT / "configs/models/digits.onnx", ROOT / "configs/data/digits_calib.npy"
BIN = pathlib.Path(sys.executable).parent
SECONDS = 60


def browser():
    options = webdriver.ChromeOptions()
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1440,900",
                 "use-gl=angle", "use-angle=swiftshader", "enable-unsafe-swiftshader"):
        options.add_argument(f"--{word}")
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


@contextlib.contextmanager
def served(*words):
    """The address of a viewer's server; {port} in the words becomes a free port."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    words = [str(w).format(port=port) for w in words]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address, end = f"http://127.0.0.1:{port}/", time.monotonic() + SECONDS
        while True:
            try:
                urllib.request.urlopen(address, timeout=1).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait()


def wait(driver, found):
    return WebDriverWait(driver, SECONDS).until(lambda _: found())


def text(driver):
    return driver.find_element(By.TAG_NAME, "body").text


def accepted(driver):
    """None; accepts the page that comes before the graph, which has no text at first."""
    for button in driver.find_elements(By.XPATH, "//button"):
        if "accept" in button.text.lower():
            button.click()


def netron(driver, file, shots, node=None):
    """What the sidebar shows of a node; without one the graph must be drawn."""
    with served(BIN / "netron", "--port", "{port}", "--host", "127.0.0.1", file) as address:
        driver.get(address)
        nodes = wait(driver, lambda: accepted(driver) or
                     driver.find_elements(By.CSS_SELECTOR, "g.node, g.graph-node"))
        if node:
            box = driver.find_element(By.ID, f"node-name-{node}")
            driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
            webdriver.ActionChains(driver).move_to_element(box).click().perform()
            wait(driver, lambda: "Node Properties" in text(driver).title())
            for plus in driver.find_elements(By.XPATH, "//*[text()='+']"):
                plus.click()
        if shots:
            driver.save_screenshot(str(shots / f"netron-{file.name}.png"))
        return len(nodes), text(driver)


def explorer(driver, model, files, shots):
    """The rows of its table of nodes: operator, then a value of each file."""
    with served(BIN / "model-explorer", "--extensions=model_explorer_onnx",
                "--no_open_in_browser", "--skip_health_check", "--host", "127.0.0.1", "--port",
                "{port}") as address:
        config = ModelExplorerConfig()
        config.add_model_from_path(str(model))
        for file in files:
            config.add_node_data_from_path(str(file))
        driver.get(f"{address}?data={config.to_url_param_value()}")
        wait(driver, lambda: "Node data" in text(driver) and len(rows(driver)) > 5)
        if shots:
            time.sleep(2)  # the drawing is animated
            driver.save_screenshot(str(shots / "model-explorer.png"))
        return rows(driver), text(driver)


def rows(driver):
    found = [line.split() for line in text(driver).splitlines()]
    return [words for words in found if len(words) == 6 and words[0].isdigit()]


def short(value):
    """Numbers with six digits, words as they are."""
    try:
        return f"{float(value):.6g}"
    except ValueError:
        return value


def facts(files):
    """{operator: sorted values as Model Explorer prints them} from our files."""
    by_name = {}
    for file in files:
        (data,) = json.loads(file.read_text()).values()
        by_name[data["name"]] = {k: r["value"] for k, r in data["results"].items()}
    return by_name


def check_explorer(driver, snapshot, files, shots):
    seen, said = explorer(driver, snapshot / "model.onnx", files, shots)
    ours = facts(files)
    nodes = onnx.load(snapshot / "model.onnx").graph.node
    expected = sorted((n.op_type, *(short(d.get(n.name, "-")) for d in ours.values()))
                      for n in nodes)
    shown = sorted((op, *map(short, values)) for _, op, *values in seen
                   if op in {n.op_type for n in nodes})
    missing = [name for name in ours if name not in said]
    print(f"Model Explorer: {len(shown)} nodes, kinds {list(ours)}")
    return shown != expected or missing


def check_netron(driver, snapshot, folder, shots):
    wrong = 0
    for form, name in (("onnx-qdq", "q.onnx"), ("openvino-ir", "ir.xml"), ("tflite", "t.tflite")):
        backend = {"openvino-ir": "openvino-int8", "tflite": "tflite-int8"}.get(form)
        if backend:
            qg("quantize", MODEL, "-b", backend, "-d", DATA, "-o", folder / backend)
        qg("export", folder / backend if backend else snapshot, "--format", form, "-o",
           folder / name)
        node = "conv1" if form == "onnx-qdq" else None
        count, said = netron(driver, folder / name, shots, node)
        told = not node or ("quantization" in said and "_scale" in said)
        wrong += count < 8 or not told
        print(f"Netron: {form}: {count} nodes{'' if told else ', no quantization'}")
    return wrong


def main():
    shots = pathlib.Path(sys.argv[1]) if sys.argv[1:] else None
    driver = browser()
    try:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            snapshot, files = overlays(MODEL, folder / "s", DATA)
            wrong = check_netron(driver, snapshot, folder, shots)
            wrong += bool(check_explorer(driver, snapshot, files, shots))
    finally:
        driver.quit()
    return wrong > 0


sys.exit(main())
