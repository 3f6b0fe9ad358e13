#!/usr/bin/env python3
"""deploy/openapi.yaml in the hands of schemathesis (PyPI): requests that fit the schema and requests that do not, for every
operation that does not end the service. Nothing may crash, no answer may be a 5xx but a deliberate 503.

    fuzz_openapi.py [--examples 5000]      examples an operation; about 20 operations
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from packages import need  # noqa: E402
from service import ROOT, Service  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=5000)
    arguments = parser.parse_args()
    home = need("schemathesis", "schemathesis==4.32.5")
    with Service("--set", "http.requests_per_second=0", "--set", "model.max_context=64", "--set", "live.expire_s=60") as service:
        command = [sys.executable, str(home / "bin/schemathesis"), "run", str(ROOT / "deploy/openapi.yaml"), "--url",
                   f"http://{service.address}", "--checks", "not_a_server_error", "--phases", "fuzzing", "--max-examples",
                   str(arguments.examples), "--generation-deterministic", "--no-color", "--workers", "2",
                   "--exclude-path", "/admin/v1/drain", "--exclude-path", "/admin/v1/events"]
        result = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(home)}, cwd=service.folder, capture_output=True,
                                text=True, check=False)
        print(result.stdout[-4000:], result.stderr[-2000:], sep="\n")
        served = sum(float(line.rpartition(" ")[2]) for line in service.http("GET", "/metrics")[2].splitlines()
                     if line.startswith("millrace_http_requests_total{"))
        errors = sorted(line for line in service.http("GET", "/metrics")[2].splitlines()
                        if line.startswith("millrace_http_requests_total{") and 'code="5' in line)
        counts = service.status()["trajectories"]
        print(json.dumps({"requests": int(served), "server_errors": errors, "alive": service.process.poll() is None,
                          "balanced": counts["accepted"] == counts["trained"] + counts["queued"] + counts["rejected"]}))


if __name__ == "__main__":
    main()
