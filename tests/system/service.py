"""A running service for the system tests: the `tiny` preset on a free port with its state in a temporary folder."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("MILLRACE_PROGRAM", str(ROOT / "build/release/millrace"))
FAULTY_DISK = os.environ.get("MILLRACE_FAULTY_DISK", str(ROOT / "build/release/tests/libfaulty_disk.so"))
TINY = "config/presets/tiny.json"
PATIENCE_S = 60


def millrace(*arguments, stdin="", timeout=PATIENCE_S):
    """Runs a command of the program to its end."""
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, cwd=ROOT, capture_output=True, text=True,
                          timeout=timeout, check=False)


def complaints(result):
    """The program's own error lines."""
    return [line for line in result.stderr.splitlines() if line.startswith("millrace: ")]


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Asks again until the condition gives something true, and returns it."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"not within {patience_s} s: {what}")


class ServiceEnded(AssertionError):
    """It is no longer there, although it should be."""


class Client:
    """Whoever talks to a service by HTTP."""

    def __init__(self, address):
        self.address = address

    def http(self, method, target, body=None, headers=None):
        """Status, headers and body (text) of one call; any status is an answer."""
        data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        request = urllib.request.Request(f"http://{self.address}{target}", data=data, method=method,
                                         headers={"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return response.status, response.headers, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def status(self):
        return json.loads(self.http("GET", "/admin/v1/status")[2])

    def metric(self, name):
        """The value of a series, name and labels as /metrics has them."""
        for line in self.http("GET", "/metrics")[2].splitlines():
            if line.startswith(name + " "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"no series {name}")

    def trajectories(self, limit=10000):
        """Newest first."""
        return json.loads(self.http("GET", f"/admin/v1/trajectories?limit={limit}")[2])["trajectories"]


class Service(Client):
    """`millrace serve` as a context manager; kept running until stop() or the end of the block."""

    def __init__(self, *arguments, state=None, config=TINY, environment=None):
        """`state`: a state directory that outlives this service, by default one in its own temporary folder.
        `environment`: variables of its own (tests/system/faulty_disk.cpp knows some)."""
        self._folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        self.folder = Path(self._folder.name)
        self.state = state or self.folder / "state"
        self._arguments = arguments
        self._config = str(config)
        self._environment = {**os.environ, **(environment or {})}

    def __enter__(self):
        with open(self.folder / "stdout", "wb") as stdout, open(self.folder / "stderr", "wb") as stderr:
            self.process = subprocess.Popen(
                [PROGRAM, "serve", self._config, "--json", "--set", "http.port=0", "--set", f"state.directory={self.state}",
                 *self._arguments], cwd=ROOT, env=self._environment, stdout=stdout, stderr=stderr)
        try:
            self.address = wait_until(self._listening, "the service listens").group(1)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._folder.cleanup()

    def _listening(self):
        if self.process.poll() is not None:
            raise ServiceEnded(f"the service ended with {self.process.returncode}: {self.log()}")
        return re.search(r"listening on https?://(\S+:\d+)", self.log())

    def log(self):
        return (self.folder / "stderr").read_text()

    def steps(self):
        """The objects it has printed so far, one a policy step."""
        complete = (self.folder / "stdout").read_text().rpartition("\n")[0]
        return [json.loads(line) for line in complete.splitlines()]

    def wait_for_steps(self, count):
        def enough():
            if self.process.poll() is not None and len(self.steps()) < count:
                raise ServiceEnded(f"the service ended with {self.process.returncode}: {self.log()}")
            return len(self.steps()) >= count
        wait_until(enough, f"{count} policy steps")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        return self.process.wait(PATIENCE_S)

    def command(self, *arguments, stdin=""):
        """A client command of the program against this service."""
        return millrace(*arguments, "--address", self.address, stdin=stdin)
