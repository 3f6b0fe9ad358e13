#!/usr/bin/env python3
"""A day in a minute: three shifts under load, a full disk, a service that hangs. All of it is seen by Prometheus and on the
event stream, and the right alerts reach a receiver through a real Alertmanager, firing and resolved.

Rules are those of dashboards/, with every time in them shortened.
"""
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from prometheus import Daemon, Prometheus, free_port
from service import ROOT, Service, wait_until


class Receiver:
    """What Alertmanager notifies: remembers (alert, status)."""

    def __enter__(self):
        heard = self.heard = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                heard.extend((alert["labels"]["alertname"], alert["status"]) for alert in body["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()


class Alertmanager(Daemon):
    def __init__(self, folder, receiver):
        config = folder / "alertmanager.yml"
        config.write_text(json.dumps({
            "route": {"receiver": "test", "group_by": ["alertname"], "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"},
            "receivers": [{"name": "test", "webhook_configs": [{"url": receiver, "send_resolved": True}]}]}))
        self.address = f"127.0.0.1:{free_port()}"
        super().__init__(
            ["prometheus-alertmanager", f"--config.file={config}", f"--storage.path={folder / 'alerts'}",
             "--cluster.listen-address=", f"--web.listen-address={self.address}"], folder / "alertmanager.log")


def shortened(folder):
    """The rules, with minutes become seconds."""
    files = []
    for name in ("recording.yml", "alerts.yml"):
        text = (ROOT / "dashboards" / name).read_text()
        text = re.sub(r"\[\d+m\]", "[10s]", text)
        text = re.sub(r"(for|keep_firing_for): \d+m", r"\1: 2s", text)
        text = re.sub(r"interval: 15s", "interval: 1s", text)
        path = folder / name
        path.write_text(text)
        files.append(str(path))
    return files


class Events:
    """Listens to the service's event stream."""

    def __init__(self, address):
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._socket.sendall(b"GET /admin/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self._socket.setblocking(False)
        self._text = ""

    def shifts(self):
        try:
            while part := self._socket.recv(1 << 16):
                self._text += part.decode(errors="replace")
        except BlockingIOError:
            pass
        return [json.loads(data)["name"] for data in re.findall(r"event: shift\ndata: (\{.*\})", self._text)]

    def close(self):
        self._socket.close()


@unittest.skipIf(os.geteuid() != 0, "a disk that is full takes root: a small tmpfs is mounted for the state")
class Day(unittest.TestCase):
    def test_day(self):
        service = Service()
        service.state.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64M", "tmpfs", str(service.state)], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(service.state)], check=False)
        # --fresh moves what is there aside; a mount cannot be moved, so the state lies in a folder of it.
        service.state = service.state / "run"
        with service, Receiver() as receiver, Alertmanager(service.folder, receiver.url) as alertmanager:
            rules = {"rule_files": shortened(service.folder),
                     "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.address]}]}]}}
            with Prometheus(service.folder, service.address, rules) as prometheus:
                self.live(service, receiver, prometheus)

    def live(self, service, receiver, prometheus):
        events = Events(service.address)
        self.addCleanup(events.close)
        wait_until(lambda: prometheus.value("millrace_policy_version") is not None, "a scrape")
        service.wait_for_steps(2)
        self.assertEqual(receiver.heard, [], "no alert while all is well")

        for name in ("cute", "chuunibyou", "vowels"):
            self.assertEqual(service.command("shift", name).returncode, 0)
            service.wait_for_steps(len(service.steps()) + 2)
        wait_until(lambda: events.shifts() == ["cute", "chuunibyou", "vowels"], "three shifts on the event stream")
        wait_until(lambda: prometheus.value("millrace_preference_shifts_total") == 3, "three shifts in Prometheus")
        wait_until(lambda: (prometheus.value("changes(millrace_reward_spec_version[2m])") or 0) >= 2, "marks on the boards")

        filler = service.state.parent / "filler"
        with open(filler, "wb") as file:  # the disk is full
            try:
                while file.write(b"\0" * 65536):
                    file.flush()
            except OSError:
                pass
        wait_until(lambda: ("MillraceDegraded", "firing") in receiver.heard, "the alert of a full disk")
        self.assertIsNone(service.process.poll(), service.log())
        filler.unlink()
        wait_until(lambda: ("MillraceDegraded", "resolved") in receiver.heard, "its end", 120)
        done = len(service.steps())
        service.wait_for_steps(done + 2)

        service.process.send_signal(signal.SIGSTOP)  # it hangs
        wait_until(lambda: ("MillraceDown", "firing") in receiver.heard, "the alert of a service that hangs")
        service.process.send_signal(signal.SIGCONT)
        wait_until(lambda: ("MillraceDown", "resolved") in receiver.heard, "its end")
        service.wait_for_steps(len(service.steps()) + 1)

        counts = service.status()["trajectories"]
        self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"])
        self.assertEqual(service.stop(), 0, service.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
