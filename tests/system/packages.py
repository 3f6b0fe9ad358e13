"""Python packages that a test needs, in build/python: fetched once from PyPI, never installed into the system."""
import fcntl
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build/python"


def need(name, *requirements, without_dependencies=()):
    """Makes the packages importable; returns the folder they are in. `name` is that of the folder."""
    home = FOLDER / name
    home.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join([*requirements, *without_dependencies])
    done = home / ".complete"
    with open(FOLDER / f".{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists() or done.read_text() != wanted:
            install = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile",
                       "--root-user-action", "ignore", "--upgrade", "--target", str(home)]
            subprocess.run([*install, *requirements], check=True)
            if without_dependencies:
                subprocess.run([*install, "--no-deps", *without_dependencies], check=True)
            done.write_text(wanted)
    sys.path.insert(0, str(home))
    return home
