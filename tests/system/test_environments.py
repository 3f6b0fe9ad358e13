#!/usr/bin/env python3
"""Environments of others, unchanged: a Gymnasium environment through the bridge and an OpenEnv server."""
import os
import socket
import subprocess
import sys
import unittest

from packages import need
from service import ROOT, Service, wait_until

GUESTS = ("--set", "reward.spec=environment", "--set", "environment.max_turns=4", "--set", "model.max_context=2048",
          "--set", "environment.max_tokens=2000", "--set", "batch=8", "--set", "value.warmup_steps=0")
# What OpenEnv's server needs; its whole list has 300 MB of user interface.
OPENENV = need("openenv", "fastapi", "fastmcp", "uvicorn", "websockets", without_dependencies=("openenv==0.10.0",))
GYMNASIUM = need("gymnasium", "gymnasium==1.2.0")

SERVER = '''
import sys
from openenv.core.env_server import Environment, create_fastapi_app
from openenv.core.env_server.types import Action, Observation, State
import uvicorn

class Say(Action):
    message: str

class Heard(Observation):
    echoed: str = ""

class Echo(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        self._state = State(episode_id="1", step_count=0)

    def reset(self, seed=None, episode_id=None, **_):
        self._state.step_count = 0
        return Heard(echoed="say something", done=False, reward=0.0)

    def step(self, action, timeout_s=None, **_):
        self._state.step_count += 1
        letters = action.message
        return Heard(echoed=letters[::-1], done=self._state.step_count >= 2, reward=sum(c in "aeiou" for c in letters) / 16)

    @property
    def state(self):
        return self._state

uvicorn.run(create_fastapi_app(Echo, Say, Heard, max_concurrent_envs=32), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
'''


class Environments(unittest.TestCase):
    def test_gymnasium(self):
        command = f"env PYTHONPATH={GYMNASIUM} {sys.executable} deploy/bridges/gymnasium_bridge.py FrozenLake-v1 is_slippery=false"
        with Service("--set", "environment.name=process", "--set", f"environment.command={command}", *GUESTS) as service:
            service.wait_for_steps(2)
            rows = [row for row in service.trajectories() if row["outcome"] == "trained"]
            self.assertTrue(rows)
            self.assertIn("Answer with the number of an action, 0 to 3.", rows[0]["task"])
            self.assertTrue(any(row["turns"] > 1 for row in rows))
            self.assertFalse([row for row in service.trajectories() if row["outcome"] == "env_failed"])

    def test_openenv(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment = {**os.environ, "PYTHONPATH": str(OPENENV)}
        server = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], env=environment, cwd=ROOT)
        try:
            def listening():
                self.assertIsNone(server.poll(), "the OpenEnv server has ended")
                with socket.socket() as probe:
                    return probe.connect_ex(("127.0.0.1", port)) == 0

            wait_until(listening, "the OpenEnv server listens")
            with Service("--set", "environment.name=openenv", "--set", f"environment.url=ws://127.0.0.1:{port}/ws", "--set",
                         "environment.observation=echoed", *GUESTS) as service:
                service.wait_for_steps(2)
                rows = [row for row in service.trajectories() if row["outcome"] == "trained"]
                self.assertTrue(all(row["turns"] == 2 and row["ending"] == "terminated" for row in rows), rows[:2])
                self.assertEqual(rows[0]["task"], "say something")
                self.assertTrue(any(part["name"] == "environment" for row in rows for part in row["reward_parts"]))
        finally:
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
