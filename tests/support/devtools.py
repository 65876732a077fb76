"""Pages in a real browser, driven by its DevTools protocol: look, click, type, and hear what it complains about."""

import base64
import itertools
import json
from contextlib import contextmanager

from websockets.sync.client import connect

from tests.support.browser import browsing
from tests.support.timing import until

PATIENCE = 60.0
WIDE, NARROW = 1280, 390
_HEIGHTS = {WIDE: 800, NARROW: 844}
_KEYS = {
    "Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "+": 187,
    "-": 189, "/": 191,
}  # fmt: skip
# What does not fit: the page scrolls sideways, or a text is cut off that nothing scrolls.
_CUT_OFF = """
(() => {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) wrong.push(`the page is ${root.scrollWidth} wide`);
  for (const element of document.querySelectorAll("body *")) {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const seen = box.width > 1 && box.height > 1 && style.visibility !== "hidden";
    const scrolled = element.closest("nav, .scrolls, pre, .sr, .skip, input, select, svg");
    if (!seen || scrolled) continue;
    if (box.right > root.clientWidth + 1 || box.left < -1)
      wrong.push(`${element.tagName}.${element.className} reaches from ${box.left} to ${box.right}`);
    const inside = style.overflowX !== "visible" && style.display !== "inline";
    if (inside && element.scrollWidth > element.clientWidth + 1)
      wrong.push(`${element.tagName}.${element.className} is cut off: it needs ${element.scrollWidth}`);
  }
  return wrong;
})()
"""


class Browser:
    """A browser without a window."""

    def __init__(self, connection):
        self._connection = connection
        self._numbers = itertools.count(1)
        self._events = []
        self._contexts = []

    def call(self, method, session=None, **params):
        """Call a method of the protocol; return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        self._connection.send(json.dumps(message))
        while True:
            answer = json.loads(self._connection.recv(timeout=PATIENCE))
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self._events.append(answer)

    def take_events(self, session):
        """Return the events of a page that have come since the last call."""
        own = [event for event in self._events if event.get("sessionId") == session]
        self._events = [event for event in self._events if event.get("sessionId") != session]
        return own

    def page(self, width=WIDE, *, dark=False):
        """Open an empty page."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        self._contexts.append(context)
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(self, session, width, dark=dark)

    def close_pages(self):
        """Close every page: one that is open follows its store, and costs time."""
        while self._contexts:
            self.call("Target.disposeBrowserContext", browserContextId=self._contexts.pop())
        self._events.clear()


class Tab:
    """One page."""

    def __init__(self, browser, session, width, *, dark):
        self._browser = browser
        self._session = session
        self.complaints = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width)
        self.theme(dark=dark)

    def call(self, method, **params):
        return self._browser.call(method, self._session, **params)

    def resize(self, width):
        """Be a screen of this width; a narrow one is a telephone's."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=_HEIGHTS.get(width, 800), deviceScaleFactor=1,
            mobile=width <= NARROW,
        )  # fmt: skip

    def theme(self, *, dark):
        """Be a system that prefers light or dark."""
        value = "dark" if dark else "light"
        features = [
            {"name": "prefers-color-scheme", "value": value},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def without_script(self):
        """Run no script of a page from now on; `eval` still works."""
        self.call("Emulation.setScriptExecutionDisabled", value=True)

    def open(self, url):
        """Go to an address, and wait until its page is loaded."""
        found = self.call("Page.navigate", url=url)
        assert "errorText" not in found, found
        self.loaded()

    def loaded(self):
        """Wait until the page is loaded."""
        until(lambda: self.eval("document.readyState") == "complete", every=0.02)

    def eval(self, expression):
        """Return the value of an expression of JavaScript; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, selector="main"):
        """Return the text of the first element that fits, as it is shown."""
        return self.eval(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def document(self):
        """Return the page as it stands, also where scripts may not run."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        return self.call("DOM.getOuterHTML", nodeId=root)["outerHTML"]

    def click(self, selector):
        """Click on the middle of the first element that fits."""
        box = self.eval(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView();"
            " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key):
        """Press a key."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def shoot(self, path, *, whole=True):
        """Keep a picture of the page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def cut_off(self):
        """Return what is cut off, or makes the page scroll sideways."""
        return self.eval(_CUT_OFF)

    def errors(self):
        """Return what the browser complained about: scripts that failed, and what a policy forbade."""
        self.eval("1")  # so that everything until now has come
        for event in self._browser.take_events(self._session):
            params = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    self.complaints.append(params["exceptionDetails"])
                case "Log.entryAdded" if params["entry"]["level"] == "error":
                    self.complaints.append(params["entry"]["text"])
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                    self.complaints.append([arg.get("value") for arg in params["args"]])
        return self.complaints


@contextmanager
def driving(folder):
    """Give a browser of its own, which keeps everything in *folder*."""
    with browsing(folder, "about:blank", "--remote-debugging-port=0"):
        port_file = folder / "profile" / "DevToolsActivePort"
        until(lambda: port_file.exists() and port_file.read_text().count("\n"))
        port, path = port_file.read_text().splitlines()[:2]
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None) as connection:
            yield Browser(connection)
