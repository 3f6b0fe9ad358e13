"""A real Prometheus for the system tests."""
import json
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Daemon:
    """A program that runs until the end of its `with`; what it says is in `log`."""

    def __init__(self, command, log):
        self._log = open(log, "wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._log.close()


class Prometheus(Daemon):
    """Scrapes `target` every second under the job name millrace; its data lies in `folder`. `more`: keys of its config."""

    def __init__(self, folder, target, more=None):
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({  # JSON is YAML, too
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [{"job_name": "millrace", "static_configs": [{"targets": [target]}]}],
            **(more or {}),
        }))
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        super().__init__(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
                          f"--web.listen-address={address}"], folder / "prometheus.log")

    def series(self, query):
        """What PromQL gives: a list of {"metric", "value"}. An expression that it cannot read is an AssertionError."""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query?" + urllib.parse.urlencode({"query": query})) as reply:
                data = json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []  # it listens before it can answer
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        except urllib.error.URLError:
            return []  # not up yet
        return [{"metric": {}, "value": data["result"]}] if data["resultType"] == "scalar" else data["result"]

    def value(self, query):
        """The one number that PromQL gives, or None as long as there is none."""
        result = self.series(query)
        return float(result[0]["value"][1]) if len(result) == 1 else None
