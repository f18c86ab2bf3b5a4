"""The scripts of `headworks completion` in the shells that they are for."""
import os
import pty
import shutil
import signal
import subprocess
import threading
import unittest

import harness
from harness import PATIENCE, Case

# What is typed, what must be offered, and what must not.
CASES = [
    ("headworks ru", {"run", "runs"}, {"up"}),
    ("headworks runs ", {"list", "show", "logs", "prune"}, {"up", "register"}),
    ("headworks runs un", {"unstick"}, {"list"}),
    ("headworks runs list --li", {"--limit"}, {"--state"}),
    ("headworks runs list --", {"--limit", "--state", "--store"}, {"--follow"}),
    ("headworks --store some.db db v", {"vacuum"}, {"check"}),
    ("headworks completion ", {"bash", "zsh", "fish"}, set()),
    ("headworks runs show @last -o ", {"table", "json", "yaml"}, {"list"}),
    ("headworks run my_fl", {"my_flow.yaml"}, set()),
    ("headworks --config my_fl", {"my_flow.yaml"}, set()),
]


class CompletionTest(Case):
    def setUp(self):
        super().setUp()
        self.write("my_flow.yaml", "")
        self.env["PATH"] = os.path.dirname(self.program) + ":" + self.env["PATH"]

    def script(self, shell):
        return self.write(f"headworks.{shell}", self.hw("completion", shell).stdout)

    def check(self, offered):
        """`offered`: from what is typed to the set of what is offered."""
        for typed, wanted, unwanted in CASES:
            with self.subTest(typed=typed):
                words = offered(typed)
                self.assertLessEqual(wanted, words)
                self.assertFalse(unwanted & words)

    def shell(self, *command):
        return subprocess.run(command, cwd=self.dir, env=self.env, text=True, check=True,
                              capture_output=True, timeout=PATIENCE).stdout

    @staticmethod
    def read_all(terminal):
        """So that nobody has to wait for a full terminal."""
        try:
            while os.read(terminal, 65536):
                pass
        except OSError:
            pass  # how Linux says that the other side is closed

    def test_bash(self):
        script = self.script("bash")

        def offered(typed):
            out = self.shell("bash", "--norc", "-c", f"""
                . {script}; COMP_WORDS=({typed.rstrip()}); {'COMP_WORDS+=("");' * typed.endswith(' ')}
                COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _headworks
                printf '%s\\n' "${{COMPREPLY[@]}}" """)
            # Nothing to offer: bash itself offers files (complete -o default).
            return set(out.split()) or set(os.listdir(self.dir))

        self.check(offered)
        self.assertIn("-o default", self.shell("bash", "--norc", "-c",
                                               f". {script}; complete -p headworks"))

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        script = self.script("fish")
        self.check(lambda typed: {
            line.split("\t")[0] for line in self.shell(
                "fish", "-N", "-c", f"source {script}; complete -C '{typed}'").splitlines()})

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        # From the folder of completions, as it is installed: sourcing is the simpler way.
        folder = self.write("functions/_headworks", self.hw("completion", "zsh").stdout).parent
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.dir)
            os.execve(shutil.which("zsh"), ["zsh", "-f", "-i"],
                      {**self.env, "TERM": "dumb", "COLUMNS": "200"})
        drain = threading.Thread(target=self.read_all, args=(terminal,))
        drain.start()
        for last_first in [(os.close, terminal), (drain.join,), (os.waitpid, pid, 0),
                           (os.kill, pid, signal.SIGKILL)]:
            self.addCleanup(*last_first)

        # zsh draws what it offers only when it waits for a key, so what the script adds is written
        # down as it is added.  Calls that only ask what would match are left alone.
        os.write(terminal, f"""
            fpath=({folder} $fpath); autoload -U compinit && compinit -u -D
            compadd() {{
              local -a hits
              if [[ " ${{@[1,(i)(-|--)]}}" == *" -"(O|A|D)" "* ]]; then builtin compadd "$@"; return; fi
              builtin compadd -O hits "$@"; print -rl -- $hits >> offered; builtin compadd "$@"
            }}
            show() {{ zle list-choices; : > asked; zle kill-whole-line }}
            zle -N show; bindkey '^T' show; : > asked\r""".encode())

        def offered(typed):
            self.until_exists("asked")
            for name in ("asked", "offered"):
                (self.dir / name).unlink(missing_ok=True)
            os.write(terminal, typed.encode() + b"\x14")
            self.until_exists("asked")
            return set(self.lines("offered"))

        self.check(offered)


if __name__ == "__main__":
    harness.main()
